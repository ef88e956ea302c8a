# SPDX-License-Identifier: Apache-2.0
"""Copies messages: peeks them at the source, and sends those that the target lacks."""

from __future__ import annotations

import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from oxbus import ServiceBusMessageState
from oxbus.amqp import AmqpMessageBodyType
from oxbus.exceptions import MessageSizeExceededError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from oxbus import ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSender
    from oxbus._copy._progress import Counts

PAGE: Final = 250
"""Messages of one peek. Source: docs/behaviour.md B-290."""
WINDOW: Final = timedelta(seconds=20)
"""The shortest window of duplicate detection, which entities have until they are complete."""
_FIELDS: Final = (
    "message_id",
    "session_id",
    "partition_key",
    "subject",
    "correlation_id",
    "content_type",
    "to",
    "reply_to",
    "reply_to_session_id",
    "scheduled_enqueue_time_utc",
)
REASONS: Final = ("DeadLetterReason", "DeadLetterErrorDescription")
"""Properties that a dead letter gets."""


def pages(receiver: ServiceBusReceiver) -> Iterator[list[ServiceBusReceivedMessage]]:
    """Yield all messages by peeking."""
    while page := receiver.peek_messages(PAGE):
        yield page


def fingerprint(message: ServiceBusReceivedMessage) -> bytes:
    """Return what is the same for a message and its copy, and differs for others: 16 bytes.

    Numbers, times of the broker and the time to live are not part of it, nor are the reasons of a dead letter.
    """
    body = message.body
    content = b"".join(body) if message.body_type is AmqpMessageBodyType.DATA and body is not None else repr(body)
    properties = message.application_properties or {}
    kept = sorted((str(name), repr(value)) for name, value in properties.items() if str(name) not in REASONS)
    fields = [getattr(message, name) for name in _FIELDS]
    return blake2b(repr((content, fields, kept)).encode("utf-8", "surrogatepass"), digest_size=16).digest()


class RecentIds:
    """Message ids that duplicate detection of the target knows.

    The source may have several messages with one id: sent at different times, or in several subscriptions.

    Args:
        goes_on: Whether a copy that was interrupted may have sent any id just before.
    """

    def __init__(self, *, goes_on: bool) -> None:
        self._until: dict[str, float] = {}
        self._until_any = self._end() if goes_on else 0.0

    @staticmethod
    def _end() -> float:
        return time.monotonic() + WINDOW.total_seconds() + 1

    def note(self, ids: Iterable[str | None]) -> None:
        """Note ids that were sent."""
        until = self._end()
        self._until.update((message_id, until) for message_id in ids if message_id is not None)

    def wait(self, message_id: str | None) -> None:
        """Wait until an id counts as new."""
        if message_id is not None:
            until = max(self._until_any, self._until.get(message_id, 0.0))
            time.sleep(max(0.0, until - time.monotonic()))


class MessageCopier:
    """Sends copies of messages that the target lacks.

    Args:
        sender: Sends to the target.
        one_key: Whether the messages of a batch need the same key.
        stored: The messages that the target has already; one that is found there is not sent.
        ids: The ids that the target knows, if it detects duplicates.
    """

    def __init__(
        self,
        sender: ServiceBusSender,
        *,
        one_key: bool,
        stored: Iterator[list[ServiceBusReceivedMessage]],
        ids: RecentIds | None,
    ) -> None:
        self._sender = sender
        self._one_key = one_key
        self._stored = Counter(fingerprint(message) for page in stored for message in page)
        self._ids = ids

    def copy(self, page: list[ServiceBusReceivedMessage], counts: Counts) -> None:
        """Copy the messages that the target lacks."""
        now = datetime.now(UTC)
        missing = []
        for message in page:
            # Deferred and scheduled messages are not deleted when they expire.
            if _time_left(message, now) == 0 and message.state is ServiceBusMessageState.ACTIVE:
                counts.expired += 1
                continue
            counts.messages += 1
            counts.were_deferred += message.state is ServiceBusMessageState.DEFERRED
            if not self.is_stored(message):
                missing.append(message)
        self.send(missing, now)
        for message in missing:
            if message.state is ServiceBusMessageState.SCHEDULED:
                # It may become active meanwhile, and be found again under another number.
                self._stored[fingerprint(message)] += 1

    def is_stored(self, message: ServiceBusReceivedMessage) -> bool:
        """Return whether the target has a copy that no earlier call has found."""
        if not self._stored:
            return False
        found = fingerprint(message)
        if found not in self._stored:
            return False
        self._stored[found] -= 1
        if self._stored[found] == 0:
            del self._stored[found]
        return True

    def send(self, messages: list[ServiceBusReceivedMessage], now: datetime | None = None) -> None:
        """Send copies in batches. Without `now` they never expire."""
        groups: dict[str | None, list[ServiceBusReceivedMessage]] = {}
        for message in messages:
            key = (message.session_id or message.partition_key) if self._one_key else None
            groups.setdefault(key, []).append(message)
        for group in groups.values():
            self._send_group(group, now)

    def _send_group(self, group: list[ServiceBusReceivedMessage], now: datetime | None) -> None:
        batch = self._sender.create_message_batch()
        ids: set[str | None] = set()

        def send() -> None:
            nonlocal batch
            self._sender.send_messages(batch)
            if self._ids is not None:
                self._ids.note(ids)
            ids.clear()
            batch = self._sender.create_message_batch()

        for message in group:
            left = None if now is None else _time_left(message, now)
            # A message that has expired and is still needed, such as a deferred one, gets a second.
            time_to_live = None if left is None else max(left, 1000)
            if self._ids is not None:
                if message.message_id in ids:
                    send()
                self._ids.wait(message.message_id)
            try:
                batch._add_copy(message, time_to_live)
            except MessageSizeExceededError:
                if len(batch) == 0:
                    raise
                send()
                batch._add_copy(message, time_to_live)
            ids.add(message.message_id)
        send()


def _time_left(message: ServiceBusReceivedMessage, now: datetime) -> int | None:
    """Return the milliseconds until a message expires; None if it never does."""
    end = message.expires_at_utc
    if end is None:
        return None
    begin = max(now, message.scheduled_enqueue_time_utc or now)
    return max(0, round((end - begin).total_seconds() * 1000))
