# SPDX-License-Identifier: Apache-2.0
"""Clients, senders and receivers of azure-servicebus, connected to a server, with the interface of oxbus.

Differences
- A receive without a wait, which the SDK refuses, drains its link: the server sends the available messages and
  reports the end. So tests see a settled state without waiting.
- Accepting the next session without a wait waits briefly.
- The plural calls, which only oxbus has, settle one message after the other.
"""

from __future__ import annotations

import inspect
import time
from typing import TYPE_CHECKING, Any

from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusClient
from azure_values import Proxy, our_errors, translated
from oxbus import NEXT_AVAILABLE_SESSION as OUR_NEXT_AVAILABLE_SESSION
from oxbus.exceptions import MessageLockLostError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    from oxbus.server import Server

NO_SESSION_SECONDS = 0.1
"""A short wait for a session, above the minimum of the SDK."""

LIVENESS_SECONDS = 60
"""How long a drain may take; not a measure of speed."""

RECEIVER_OPTIONS = inspect.signature(ServiceBusClient.get_queue_receiver).parameters.keys()

# Indexes of the fields of a flow frame.
DELIVERY_COUNT, DRAIN = 5, 8


class AzureClient(Proxy):
    """A client of azure-servicebus without retries."""

    def __init__(self, server: Server) -> None:
        super().__init__(ServiceBusClient.from_connection_string(server.connection_string, retry_total=0))
        # The SDK's client closes only handles that still exist: a test may have dropped one with an open connection.
        self._theirs._handlers = set()

    def get_queue_receiver(self, *names: str, **options: Any) -> AzureReceiver:
        """Return a receiver of a queue."""
        return self._receiver(self._theirs.get_queue_receiver, names, options)

    def get_subscription_receiver(self, *names: str, **options: Any) -> AzureReceiver:
        """Return a receiver of a subscription."""
        return self._receiver(self._theirs.get_subscription_receiver, names, options)

    def _receiver(self, make: Any, names: tuple[str, ...], options: dict[str, Any]) -> AzureReceiver:
        if unknown := options.keys() - RECEIVER_OPTIONS:
            raise TypeError(f"the SDK, which takes any option, does not know {sorted(unknown)}")
        wait = options.pop("max_wait_time", None)
        if options.get("session_id") is OUR_NEXT_AVAILABLE_SESSION:
            options["session_id"] = NEXT_AVAILABLE_SESSION
            their_wait = wait if wait is None else max(wait, NO_SESSION_SECONDS)
        else:
            their_wait = wait or None
        with our_errors():
            return AzureReceiver(make(*names, max_wait_time=their_wait, **options), wait)


class AzureReceiver(Proxy):
    """A receiver of azure-servicebus."""

    _wait: float | None

    def __init__(self, theirs: Any, wait: float | None) -> None:
        super().__init__(theirs)
        object.__setattr__(self, "_wait", wait)

    def receive_messages(self, max_message_count: int | None = 1, max_wait_time: float | None = None) -> list[Any]:
        """Receive messages that arrive during the wait or, without one, the available ones."""
        wait = self._wait if max_wait_time is None else max_wait_time
        if wait == 0 and max_message_count is not None:
            found: list[Any] = translated(drained)(self._theirs, max_message_count)
        else:
            found = translated(self._theirs.receive_messages)(max_message_count, max_wait_time)
        return found

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        if self._wait != 0:
            return translated(self._theirs.__next__)()
        for message in self.receive_messages():
            return message
        raise StopIteration

    next = __next__

    @property
    def session(self) -> Any:
        """The session; accepts it if necessary."""
        if self._theirs.session is not None:
            translated(self._theirs._open_with_retry)()
        return Proxy(self._theirs.session) if self._theirs.session is not None else None

    def complete_messages(self, messages: Iterable[Any]) -> None:
        """Complete each of the messages."""
        self._settle_each("complete_message", messages)

    def abandon_messages(self, messages: Iterable[Any]) -> None:
        """Abandon each of the messages."""
        self._settle_each("abandon_message", messages)

    def defer_messages(self, messages: Iterable[Any]) -> None:
        """Defer each of the messages."""
        self._settle_each("defer_message", messages)

    def dead_letter_messages(self, messages: Iterable[Any], **reasons: str) -> None:
        """Dead-letter each of the messages."""
        self._settle_each("dead_letter_message", messages, **reasons)

    def _settle_each(self, verb: str, messages: Iterable[Any], **options: str) -> None:
        lost = []
        for message in messages:
            try:
                getattr(self, verb)(message, **options)
            except MessageLockLostError:
                lost.append(message.sequence_number)
        if lost:
            raise MessageLockLostError(sequence_numbers=lost)


def drained(receiver: Any, max_message_count: int) -> list[Any]:
    """Drain the link of an SDK receiver: return up to the given number of messages, without waiting for more."""
    if max_message_count < 1:
        raise ValueError("max_message_count must be 1 or greater")
    receiver._check_live()
    found: list[Any] = receiver._do_retryable_operation(lambda: _drain(receiver, max_message_count))
    return found


def _drain(receiver: Any, max_message_count: int) -> list[Any]:
    receiver._open(LIVENESS_SECONDS)
    connection, link = receiver._handler._connection, receiver._handler._link
    buffer = receiver._handler._received_messages
    wanted = max_message_count - buffer.qsize()
    end = time.monotonic() + LIVENESS_SECONDS
    answers: list[Any] = []
    receiver._receive_context.set()
    try:
        if wanted > 0:
            link._incoming_flow = answers.append
            link.flow(link_credit=wanted, drain=True)
            while not any(answer[DRAIN] for answer in answers):
                if time.monotonic() > end:
                    raise TimeoutError(f"the server does not drain the link: {answers}")
                connection.listen(wait=1)
                link.get_state()
            # The SDK ignores flow frames, and would keep its old delivery count.
            link.current_link_credit, link.delivery_count = 0, answers[-1][DELIVERY_COUNT]
        count = min(max_message_count, buffer.qsize())
        return [receiver._build_received_message(buffer.get()) for _ in range(count)]
    finally:
        receiver._receive_context.clear()
