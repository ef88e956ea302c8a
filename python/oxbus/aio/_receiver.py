# SPDX-License-Identifier: Apache-2.0
"""`ServiceBusReceiver` for asyncio: waiting takes no thread, and cancelling loses no message."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Self, TypeVar

from oxbus._options import explains_options
from oxbus._transaction import current
from oxbus.aio._session import ServiceBusSession
from oxbus.aio._wake_ups import wake_ups
from oxbus.exceptions import ServiceBusError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from datetime import datetime
    from types import TracebackType

    from oxbus import ServiceBusReceivedMessage
    from oxbus import ServiceBusReceiver as NativeReceiver
    from oxbus._oxbus import ArrowTable, ManualClock, _Waiter
    from oxbus.aio._auto_lock_renewer import AutoLockRenewer
    from oxbus.aio._calls import CallRunner
    from oxbus.aio._transaction import Transaction

Found = TypeVar("Found")
P = ParamSpec("P")
T = TypeVar("T")

ACCEPT_WAIT_SECONDS = 60.0
"""How long to wait for a session when the caller says nothing. Source: docs/behaviour.md B-196."""


@explains_options
class ServiceBusReceiver:
    """Receives from one queue or sub-queue; for one event loop. Made by `ServiceBusClient.get_queue_receiver`."""

    def __init__(
        self,
        receiver: NativeReceiver,
        calls: CallRunner,
        *,
        max_wait_time: float | None,
        max_message_count: int,
        locks: bool,
        auto_lock_renewer: AutoLockRenewer | None,
    ) -> None:
        """Wrap a receiver that does not wait itself."""
        self._receiver = receiver
        self._calls = calls
        self._max_wait_time = max_wait_time
        self._max_message_count = max_message_count
        self._locks = locks
        self._session = ServiceBusSession(receiver, calls, self._accept) if receiver._wants_session else None
        self._auto_lock_renewer = auto_lock_renewer if locks or self._session is not None else None
        self._accepting = asyncio.Lock()
        self._is_open = self._session is None
        self._undelivered: list[ServiceBusReceivedMessage] = []
        """Received and deleted for a call that was cancelled; for the next one."""
        self._undelivered_tables: list[ArrowTable] = []

    async def __aenter__(self) -> Self:
        """Return the receiver, open."""
        await self._accept()
        await self._calls.call(self._receiver.__enter__)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the receiver."""
        await self.close()

    def __aiter__(self) -> Self:
        """Return the receiver itself: each step waits `max_wait_time` for a next message."""
        return self

    async def __anext__(self) -> ServiceBusReceivedMessage:
        """Return the next message; the iteration ends when none comes in time."""
        messages = await self._receive(1, self._max_wait_time)
        if not messages:
            raise StopAsyncIteration
        return messages[0]

    async def receive_messages(
        self, max_message_count: int | None = 1, max_wait_time: float | None = None
    ) -> list[ServiceBusReceivedMessage]:
        """Receive up to `max_message_count` messages; wait for the first one.

        Args:
            max_message_count: At least 1; `None` for as many as the prefetch, or 1.
            max_wait_time: Seconds to wait for the first message; 0 does not wait, `None` is the receiver's own.

        Returns:
            Messages in rising order per partition; empty when the wait ends.

        Raises:
            ValueError: The receiver is closed, or an argument is out of its range.
            ServiceBusError: The queue is gone, disabled, or not served.
        """
        count = self._max_message_count if max_message_count is None else max_message_count
        return await self._receive(count, self._max_wait_time if max_wait_time is None else max_wait_time)

    async def _accept(self) -> None:
        """Accept the session, if there is one to accept: wait for it as long as the receiver waits, or a minute."""
        if self._is_open:
            return
        async with self._accepting:
            if not self._is_open:
                await self._accept_first()

    async def _accept_first(self) -> None:
        seconds = ACCEPT_WAIT_SECONDS if self._max_wait_time is None else self._max_wait_time
        is_open: bool = await self._wait_until_found(self._open, seconds)
        if not is_open:
            self._receiver._raise_timed_out()
        self._is_open = True
        if self._session is not None:
            self._session._note_accepted()
            if self._auto_lock_renewer is not None:
                self._auto_lock_renewer.register(self, self._session)

    async def _call(self, function: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> T:
        """Make a call on the receiver, open."""
        await self._accept()
        return await self._calls.call(function, *args, **options)

    async def _receive(self, count: int, seconds: float | None) -> list[ServiceBusReceivedMessage]:
        await self._accept()
        messages = await self._wait_until_found(partial(self._take, count), seconds)
        if self._auto_lock_renewer is not None and self._session is None:
            for message in messages:
                self._auto_lock_renewer.register(self, message)
        return messages

    async def _wait_until_found(
        self, look: Callable[[_Waiter | None], Awaitable[Found | float]], seconds: float | None
    ) -> Found:
        """Take what there is, or wait until there is something; nothing when the wait ends."""
        if seconds is not None and not seconds >= 0:
            raise ValueError(f"max_wait_time cannot be negative; use 0 for no wait: {seconds}")
        found = await look(None)
        if not isinstance(found, float) and (found or seconds == 0):
            return found
        return await wake_ups().wait_until_found(look, seconds)

    async def _open(self, waiter: _Waiter | None) -> bool | float:
        """Accept the session: true when it is there, false when it is not, or for how long to sleep."""
        if waiter is None:
            return await self._calls.call(self._receiver._try_open)
        return await self._calls.call(self._receiver._open_or_wait, waiter)

    async def _take(self, count: int, waiter: _Waiter | None) -> list[ServiceBusReceivedMessage] | float:
        """Receive what is there, or join those who wait: for how long to sleep."""
        if self._undelivered and not self._receiver.closed and count > 0:
            messages, self._undelivered = self._undelivered[:count], self._undelivered[count:]
            return messages
        if waiter is None:
            return await self._calls.call_or_keep(
                self._requeue, self._receiver.receive_messages, count, max_wait_time=0
            )
        return await self._calls.call_or_keep(self._requeue, self._receiver._receive_or_wait, count, waiter)

    async def _take_table(self, count: int, waiter: _Waiter | None) -> ArrowTable | float:
        """The same as a table."""
        if self._undelivered_tables and not self._receiver.closed:
            return self._undelivered_tables.pop(0)
        keep = self._requeue_table
        if waiter is None:
            return await self._calls.call_or_keep(keep, self._receiver.receive_arrow, count, max_wait_time=0)
        return await self._calls.call_or_keep(keep, self._receiver._receive_arrow_or_wait, count, waiter)

    def _requeue(self, messages: list[ServiceBusReceivedMessage] | float) -> None:
        """Give back what came for a call that was cancelled; what is gone from the queue is for the next call."""
        if isinstance(messages, float):
            return
        if not self._locks:
            self._undelivered += messages
        elif not self._receiver.closed:
            with contextlib.suppress(ServiceBusError):  # Their locks end by themselves.
                self._receiver._release(messages)

    def _requeue_table(self, table: ArrowTable | float) -> None:
        """Keep what came for a call that was cancelled for the next one."""
        if not isinstance(table, float) and table:
            self._undelivered_tables.append(table)

    async def receive_deferred_messages(
        self,
        sequence_numbers: int | list[int],
        *,
        timeout: float | None = 60.0,  # noqa: ASYNC109 (the SDK's name)
    ) -> list[ServiceBusReceivedMessage]:
        """Fetch deferred messages by number: all of them, or none."""
        await self._accept()
        messages = await self._calls.call_or_keep(
            self._requeue, self._receiver.receive_deferred_messages, sequence_numbers, timeout=timeout
        )
        if self._auto_lock_renewer is not None and self._session is None:
            for message in messages:
                self._auto_lock_renewer.register(self, message)
        return messages

    async def peek_messages(
        self,
        max_message_count: int = 1,
        *,
        sequence_number: int = 0,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> list[ServiceBusReceivedMessage]:
        """Look at messages without locking them; without a number go on where the last call ended."""
        return await self._call(
            self._receiver.peek_messages, max_message_count, sequence_number=sequence_number, timeout=timeout
        )

    async def complete_message(
        self, message: ServiceBusReceivedMessage, *, transaction: Transaction | None = None
    ) -> None:
        """Remove a locked message for good."""
        await self._call(self._receiver.complete_message, message, transaction=transaction or current())

    async def abandon_message(
        self,
        message: ServiceBusReceivedMessage,
        *,
        properties_to_modify: Mapping[str, Any] | None = None,
        transaction: Transaction | None = None,
    ) -> None:
        """Give a locked message back; a delivery is charged."""
        await self._call(
            self._receiver.abandon_message,
            message,
            properties_to_modify=properties_to_modify,
            transaction=transaction or current(),
        )

    async def defer_message(
        self,
        message: ServiceBusReceivedMessage,
        *,
        properties_to_modify: Mapping[str, Any] | None = None,
        transaction: Transaction | None = None,
    ) -> None:
        """Set a locked message aside until it is fetched by its number."""
        await self._call(
            self._receiver.defer_message,
            message,
            properties_to_modify=properties_to_modify,
            transaction=transaction or current(),
        )

    async def dead_letter_message(
        self,
        message: ServiceBusReceivedMessage,
        reason: str | None = None,
        error_description: str | None = None,
        *,
        transaction: Transaction | None = None,
    ) -> None:
        """Move a locked message to the dead-letter queue."""
        await self._call(
            self._receiver.dead_letter_message, message, reason, error_description, transaction=transaction or current()
        )

    async def complete_messages(
        self, messages: list[ServiceBusReceivedMessage], *, transaction: Transaction | None = None
    ) -> None:
        """Complete several messages."""
        await self._call(self._receiver.complete_messages, messages, transaction=transaction or current())

    async def abandon_messages(
        self,
        messages: list[ServiceBusReceivedMessage],
        *,
        properties_to_modify: Mapping[str, Any] | None = None,
        transaction: Transaction | None = None,
    ) -> None:
        """Abandon several messages."""
        await self._call(
            self._receiver.abandon_messages,
            messages,
            properties_to_modify=properties_to_modify,
            transaction=transaction or current(),
        )

    async def defer_messages(
        self,
        messages: list[ServiceBusReceivedMessage],
        *,
        properties_to_modify: Mapping[str, Any] | None = None,
        transaction: Transaction | None = None,
    ) -> None:
        """Defer several messages."""
        await self._call(
            self._receiver.defer_messages,
            messages,
            properties_to_modify=properties_to_modify,
            transaction=transaction or current(),
        )

    async def dead_letter_messages(
        self,
        messages: list[ServiceBusReceivedMessage],
        reason: str | None = None,
        error_description: str | None = None,
        *,
        transaction: Transaction | None = None,
    ) -> None:
        """Dead-letter several messages."""
        await self._call(
            self._receiver.dead_letter_messages,
            messages,
            reason,
            error_description,
            transaction=transaction or current(),
        )

    async def renew_message_lock(
        self,
        message: ServiceBusReceivedMessage,
        *,
        timeout: float | None = 60.0,  # noqa: ASYNC109
    ) -> datetime:
        """Move the end of a lock to one lock duration from now; the new end."""
        return await self._call(self._receiver.renew_message_lock, message, timeout=timeout)

    async def receive_arrow(self, max_message_count: int = 1, max_wait_time: float | None = None) -> ArrowTable:
        """Receive messages as an Arrow table; wait for the first one as `receive_messages` does."""
        seconds = self._max_wait_time if max_wait_time is None else max_wait_time
        await self._accept()
        return await self._wait_until_found(partial(self._take_table, max_message_count), seconds)

    async def settle_arrow(self, batch: Any, outcome: Literal["complete", "abandon", "defer", "dead_letter"]) -> None:
        """Settle the messages of a table."""
        await self._call(self._receiver.settle_arrow, batch, outcome)

    async def close(self) -> None:
        """Close the receiver. What it held and did not hand out goes back, and no delivery is charged."""
        self._receiver.close()

    @property
    def closed(self) -> bool:
        """True after `close`."""
        return self._receiver.closed

    @property
    def client_identifier(self) -> str:
        """The name of this receiver in error texts."""
        return self._receiver.client_identifier

    @property
    def session(self) -> ServiceBusSession | None:
        """The session; None for a receiver that was made without one."""
        return self._session

    def _now(self) -> datetime:
        return self._receiver._now()

    @property
    def _clock(self) -> ManualClock | None:
        return self._receiver._clock

    def __repr__(self) -> str:
        """Show what it receives from."""
        return f"aio.{self._receiver!r}"
