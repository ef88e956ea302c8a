# SPDX-License-Identifier: Apache-2.0
"""`ServiceBusReceiver` for asyncio: waiting occupies no thread, and cancellation loses no message."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, Self, TypeVar

from oxbus._options import explains_options
from oxbus._oxbus import _Columns, _ReadyReceiver
from oxbus.aio._calls import CallRunner, Keeper
from oxbus.aio._session import ServiceBusSession
from oxbus.aio._settle_lists import SettlesLists
from oxbus.aio._settlement import SettlesMessages
from oxbus.aio._wake_ups import wake_ups
from oxbus.exceptions import ServiceBusError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import datetime
    from types import TracebackType

    from oxbus import ServiceBusReceivedMessage
    from oxbus import ServiceBusReceiver as NativeReceiver
    from oxbus._oxbus import ArrowTable, ManualClock, _ReceivedRows, _Waiter
    from oxbus.aio._auto_lock_renewer import AutoLockRenewer

Found = TypeVar("Found")
P = ParamSpec("P")
T = TypeVar("T")

ACCEPT_WAIT_SECONDS = 60.0
"""How long to wait for a session without `max_wait_time`. Source: docs/behaviour.md B-196."""


@partial(explains_options, hot=("receive_messages", "complete_message", "complete_messages"))
class ServiceBusReceiver(SettlesMessages, SettlesLists):
    """Receives messages from a queue, a subscription or a sub-queue, for one event loop.

    Made by `ServiceBusClient.get_queue_receiver` and `get_subscription_receiver`; usable as an asynchronous context
    manager.
    Iterating yields one message at a time and ends when `max_wait_time` passes without one.

    The first call looks the entity up and accepts the session. It can also raise:

        MessagingEntityNotFoundError: The entity does not exist.
        SessionCannotBeLockedError: Another receiver holds the session.
        OperationTimeoutError: No session became available within `max_wait_time`, or within a minute if that is None.
        InvalidOperationError: The entity is a topic, forwards its messages, or does not require sessions.
        ValueError: The entity has no partition of that id, or `session_id` is too long.

    Source: docs/behaviour.md B-125 to B-149; `azure.servicebus.aio.ServiceBusReceiver`; differences in
    docs/compat.md#receive.
    """

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
        """Wrap a native receiver. Its calls return at once; waiting is done here.

        Args:
            receiver: The native receiver.
            calls: Runs its calls.
            max_wait_time: Seconds that iteration and receives wait by default; None: no limit.
            max_message_count: Upper bound for a receive that gives no count.
            locks: Whether messages are locked (peek-lock mode).
            auto_lock_renewer: Renews the locks of received messages, or of the session.

        Raises nothing.
        """
        self._receiver = receiver
        self._calls = calls
        self._ready = _ReadyReceiver(receiver, calls.turn)
        self._max_wait_time = max_wait_time
        self._max_message_count = max_message_count
        self._locks = locks
        self._session = ServiceBusSession(receiver, calls, self._accept) if receiver._wants_session else None
        self._auto_lock_renewer = auto_lock_renewer if locks or self._session is not None else None
        self._accepting = asyncio.Lock()
        # The first call in a store opens the receiver, so that receives can be suspended.
        self._is_open = self._session is None and not calls.is_in_store
        self._undelivered: list[ServiceBusReceivedMessage] = []
        """Messages received and deleted by a cancelled call; the next call returns them."""
        self._undelivered_rows: list[_ReceivedRows] = []
        self._cancelled = Keeper(self._requeue)
        self._cancelled_rows = Keeper(self._requeue_rows)

    async def __aenter__(self) -> Self:
        """Accept the session, if there is one, and return the receiver."""
        await self._accept()
        await self._calls.call(self._receiver.__enter__)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the receiver."""
        await self.close()

    def __aiter__(self) -> Self:
        """Return the receiver itself; each step waits up to `max_wait_time` for the next message."""
        return self

    async def __anext__(self) -> ServiceBusReceivedMessage:
        """Return the next message; the iteration ends when none arrives in time."""
        messages = await self.receive_messages()
        if not messages:
            raise StopAsyncIteration
        return messages[0]

    async def receive_messages(
        self, max_message_count: int | None = 1, max_wait_time: float | None = None
    ) -> list[ServiceBusReceivedMessage]:
        """Receive up to `max_message_count` messages, and lock each one in peek-lock mode.

        Returns as soon as a message is ready, and may leave ready messages for the next call. A cancelled call loses no
        message. In peek-lock mode its messages return to the queue; in receive-and-delete mode the next call returns
        them.

        Args:
            max_message_count: Upper bound, at least 1. None: the prefetch count, or 1.
            max_wait_time: Seconds to wait for the first message; 0 does not wait. None: the receiver's own
                `max_wait_time`; without one the call waits until a message arrives.

        Returns:
            Messages in sequence-number order within each partition; empty when the wait ends.

        Raises:
            MessagingEntityNotFoundError: The entity does not exist or was deleted.
            MessagingEntityDisabledError: The status of the entity forbids receiving.
            InvalidOperationError: The entity is a topic, forwards its messages, or requires sessions and the receiver
                has none.
            SessionLockLostError: The lock on the receiver's session expired.
            ServiceBusQuotaExceededError: The disk has no space to record the delivery of the ready messages. They stay
                in the queue. Free disk space, then receive again.
            PartitionUnavailableError: The partition of the session is out of service. Receive-and-delete mode also
                raises it when a removal could not be written; if other partitions had messages, the next receive raises
                it. `sequence_numbers` names the messages. If `effect` is ``"unknown"``, they return when the partition
                is healed, unless the process ends first.
            OperationTimeoutError: A store did not answer in time, and no other partition had messages.
            ServiceBusError: The receiver's `AutoLockRenewer` is closed.
            ForkedProcessError: The receiver was created before the process forked.
            ValueError: The receiver is closed, `max_message_count` is not 1 to 1,048,576, or `max_wait_time` is
                negative.

        Source: docs/behaviour.md B-125 to B-140.
        """
        messages = None
        if not self._undelivered:
            messages = self._ready.receive_messages(max_message_count, max_wait_time)
        if messages is None:
            count = self._max_message_count if max_message_count is None else max_message_count
            messages = await self._wait_until_found(partial(self._take, count), max_wait_time)
        if self._auto_lock_renewer is not None:
            self._renew(messages)
        return messages

    def _renew(self, messages: list[ServiceBusReceivedMessage]) -> None:
        """Renew the locks of messages automatically, if the renewer does so. It renews a session as a whole."""
        if self._auto_lock_renewer is not None and self._session is None:
            for message in messages:
                self._auto_lock_renewer.register(self, message)

    async def _accept(self) -> None:
        """Open the receiver and accept its session. Wait up to `max_wait_time`, or a minute if that is None."""
        async with self._accepting:
            if not self._is_open:
                await self._accept_first()

    async def _accept_first(self) -> None:
        seconds = ACCEPT_WAIT_SECONDS if self._max_wait_time is None else self._max_wait_time
        is_open: bool = await wake_ups().wait_until_found(self._open, seconds)
        if not is_open:
            self._receiver._raise_timed_out()
        self._is_open = True
        if self._session is not None:
            self._session._note_accepted()
            if self._auto_lock_renewer is not None:
                self._auto_lock_renewer.register(self, self._session)

    async def _call(self, function: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> T:
        """Make a call on the open receiver."""
        if not self._is_open:
            await self._accept()
        return await self._calls.call(function, *args, **options)

    async def _wait_until_found(
        self, step: Callable[[_Waiter], Awaitable[Found | float]], seconds: float | None
    ) -> Found:
        """Accept the session, then return what `step` finds, or an empty result when the wait ends."""
        if not self._is_open:
            await self._accept()
        return await wake_ups().wait_until_found(step, self._max_wait_time if seconds is None else seconds)

    async def _open(self, waiter: _Waiter) -> bool | float:
        """Accept the session: True when accepted, False when the wait is over, or the seconds to sleep."""
        return await self._calls.step_or_keep(None, self._receiver._open_or_wait, waiter)

    async def _take(self, count: int, waiter: _Waiter) -> list[ServiceBusReceivedMessage] | float:
        """Receive what is ready, or join the wait queue and return the seconds to sleep."""
        if self._cancelled.pending and not self._locks:
            await asyncio.wait(self._cancelled.pending)
        if self._undelivered and not self._receiver.closed and count > 0:
            messages, self._undelivered = self._undelivered[:count], self._undelivered[count:]
            return messages
        call = self._receiver._receiving(count, waiter) if self._calls.is_in_store else None
        if call is not None:
            taken: list[ServiceBusReceivedMessage] | float = await self._calls.result_of(
                call, None if self._locks else self._cancelled
            )
            return taken
        return await self._calls.step_or_keep(self._cancelled, self._receiver._receive_or_wait, count, waiter)

    async def _take_rows(self, count: int, columns: _Columns, waiter: _Waiter) -> _ReceivedRows | float:
        """Receive what is ready like `_take`, but as rows of an Arrow table."""
        if self._cancelled_rows.pending and not self._locks:
            await asyncio.wait(self._cancelled_rows.pending)
        if self._undelivered_rows and not self._receiver.closed:
            return self._undelivered_rows.pop(0)
        call = self._receiver._receiving(count, waiter, columns) if self._calls.is_in_store else None
        if call is not None:
            rows: _ReceivedRows | float = await self._calls.result_of(
                call, None if self._locks else self._cancelled_rows
            )
            return rows
        return await self._calls.step_or_keep(
            self._cancelled_rows, self._receiver._receive_rows_or_wait, count, columns, waiter
        )

    def _requeue(self, messages: list[ServiceBusReceivedMessage] | float) -> None:
        """Release the messages of a cancelled call. In receive-and-delete mode, keep them for the next call."""
        if isinstance(messages, float):
            return
        if not self._locks:
            self._undelivered += messages
        elif not self._receiver.closed:
            with contextlib.suppress(ServiceBusError):  # Their locks expire.
                self._receiver._release(messages)

    def _requeue_rows(self, rows: _ReceivedRows | float) -> None:
        """Keep the rows of a cancelled call for the next call."""
        if not isinstance(rows, float) and rows:
            self._undelivered_rows.append(rows)

    async def receive_deferred_messages(
        self,
        sequence_numbers: int | list[int],
        *,
        timeout: float | None = 60.0,  # noqa: ASYNC109 (the SDK's name)
    ) -> list[ServiceBusReceivedMessage]:
        """Receive deferred messages by sequence number: all of them, or none.

        Args:
            sequence_numbers: One number or several; on a partitioned entity all from one partition. At most 250 in
                receive-and-delete mode.
            timeout: Seconds to wait for an unresponsive disk, more than 0. None: no limit.

        Returns:
            The messages, in the order of their numbers.

        Raises:
            MessageNotFoundError: A message does not exist, is not deferred, or is locked; the text names it.
            InvalidOperationError: The numbers are from several partitions; or the entity is a topic, forwards its
                messages, or requires sessions and the receiver has none.
            MessagingEntityNotFoundError: The entity does not exist or was deleted.
            MessagingEntityDisabledError: The status of the entity forbids receiving.
            SessionLockLostError: The lock on the receiver's session expired.
            PartitionUnavailableError: The partition is out of service, or the delivery could not be written; `effect`
                shows whether a restart may still count the delivery.
            OperationTimeoutError: The store did not answer in time; nothing was delivered.
            ServiceBusQuotaExceededError: The disk has no space to record the delivery.
            ServiceBusError: The receiver's `AutoLockRenewer` is closed.
            ForkedProcessError: The receiver was created before the process forked.
            TypeError: A sequence number is not an int.
            ValueError: The receiver is closed, a number is out of range, or `timeout` is not more than 0.

        Source: docs/behaviour.md B-275 to B-288.
        """
        await self._accept()
        messages = await self._calls.start_or_keep(
            self._cancelled,
            self._receiver._receiving_deferred,
            self._receiver.receive_deferred_messages,
            sequence_numbers,
            timeout=timeout,
        )
        self._renew(messages)
        return messages

    async def peek_messages(
        self,
        max_message_count: int = 1,
        *,
        sequence_number: int = 0,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> list[ServiceBusReceivedMessage]:
        """Return messages without locking or removing them.

        Args:
            max_message_count: Upper bound, at least 1; one call returns at most 250.
            sequence_number: The sequence number to start with. 0 continues after the last message that this receiver
                peeked and merges the partitions by enqueued time.
            timeout: Seconds, more than 0, or None. Peeking never waits for a store, so it has no effect.

        Returns:
            Active, locked, deferred and scheduled messages. Their `lock_token` is None.

        Raises:
            MessagingEntityNotFoundError: The entity does not exist or was deleted.
            ForkedProcessError: The receiver was created before the process forked.
            ValueError: The receiver is closed, or an argument is out of range.

        Source: docs/behaviour.md B-290 to B-305; differences in docs/compat.md#peek.
        """
        return await self._call(
            self._receiver.peek_messages, max_message_count, sequence_number=sequence_number, timeout=timeout
        )

    async def receive_arrow(
        self, max_message_count: int = 1, max_wait_time: float | None = None, *, columns: Sequence[str] | None = None
    ) -> ArrowTable:
        """Receive messages as Arrow columns.

        A cancelled call loses no message, as for `receive_messages`.

        Args:
            max_message_count: Upper bound, at least 1.
            max_wait_time: Seconds to wait for the first message; 0 does not wait. None: the receiver's own
                `max_wait_time`; without one the call waits until a message arrives.
            columns: Names of the columns to return; None: all. The table has them in the order below. `settle_arrow`
                needs `lock_token`.

        Returns:
            A table with the columns of `ServiceBusSender.send_arrow` and `sequence_number` (int64), `partition_id`
            (int16), `enqueued_time_utc`, `locked_until_utc` (timestamps), `delivery_count` (int32), `lock_token` (16
            bytes), `state`, `dead_letter_reason`, `dead_letter_error_description`.

        Raises:
            MessagingEntityNotFoundError: The entity does not exist or was deleted.
            MessagingEntityDisabledError: The status of the entity forbids receiving.
            InvalidOperationError: The entity is a topic, forwards its messages, or requires sessions and the receiver
                has none.
            SessionLockLostError: The lock on the receiver's session expired.
            ServiceBusQuotaExceededError: The disk has no space to record the delivery of the ready messages. They stay
                in the queue. Free disk space, then receive again.
            PartitionUnavailableError: The partition of the session is out of service. Receive-and-delete mode also
                raises it when a removal could not be written; if other partitions had messages, the next receive raises
                it. `sequence_numbers` names the messages. If `effect` is ``"unknown"``, they return when the partition
                is healed, unless the process ends first.
            OperationTimeoutError: A store did not answer in time, and no other partition had messages.
            ServiceBusError: The receiver's `AutoLockRenewer` is closed.
            ForkedProcessError: The receiver was created before the process forked.
            TypeError: `columns` is no sequence of names.
            ValueError: The receiver is closed, `max_message_count` is not 1 to 1,048,576, `max_wait_time` is negative,
                or `columns` is empty or has an unknown name. No message was received.

        Source: docs/behaviour.md B-125 to B-140; docs/compat.md#arrow.
        """
        selected = _Columns(columns)
        rows = await self._wait_until_found(partial(self._take_rows, max_message_count, selected), max_wait_time)
        return rows.table(selected)

    async def close(self) -> None:
        """Close the receiver. Prefetched messages return to the queue; their delivery counts stay the same.

        Messages that the receiver returned stay locked until another receiver settles them or their locks end. The lock
        of its session ends. Closing twice is harmless. Raises nothing.

        Source: docs/behaviour.md B-129, B-163, B-177.
        """
        self._receiver.close()

    @property
    def closed(self) -> bool:
        """Whether `close` was called. Raises nothing."""
        return self._receiver.closed

    @property
    def client_identifier(self) -> str:
        """The name of this receiver in error texts. Raises nothing."""
        return self._receiver.client_identifier

    @property
    def session(self) -> ServiceBusSession | None:
        """The session; None for a receiver without one. Raises nothing."""
        return self._session

    def _now(self) -> datetime:
        return self._receiver._now()

    @property
    def _clock(self) -> ManualClock | None:
        return self._receiver._clock

    def __repr__(self) -> str:
        """Show what it receives from."""
        return f"aio.{self._receiver!r}"
