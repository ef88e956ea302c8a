# SPDX-License-Identifier: Apache-2.0
"""`ServiceBusReceiver` for asyncio: waiting occupies no thread, and cancellation loses no message."""

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
    from datetime import datetime, timedelta
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
"""How long to wait for a session without `max_wait_time`. Source: docs/behaviour.md B-196."""


@explains_options
class ServiceBusReceiver:
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
        self._max_wait_time = max_wait_time
        self._max_message_count = max_message_count
        self._locks = locks
        self._session = ServiceBusSession(receiver, calls, self._accept) if receiver._wants_session else None
        self._auto_lock_renewer = auto_lock_renewer if locks or self._session is not None else None
        self._accepting = asyncio.Lock()
        self._is_open = self._session is None
        self._undelivered: list[ServiceBusReceivedMessage] = []
        """Messages received and deleted by a cancelled call; the next call returns them."""
        self._undelivered_tables: list[ArrowTable] = []

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
        messages = await self._receive(1, self._max_wait_time)
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
        count = self._max_message_count if max_message_count is None else max_message_count
        return await self._receive(count, self._max_wait_time if max_wait_time is None else max_wait_time)

    async def _accept(self) -> None:
        """Accept the session unless it is accepted. Wait up to `max_wait_time`, or a minute if that is None."""
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
        """Make a call on the open receiver."""
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
        """Return what `look` finds, at once or after a wait. Return an empty result when the wait ends."""
        if seconds is not None and not seconds >= 0:
            raise ValueError(f"max_wait_time cannot be negative; use 0 for no wait: {seconds}")
        result = await look(None)
        if not isinstance(result, float) and (result or seconds == 0):
            return result
        return await wake_ups().wait_until_found(look, seconds)

    async def _open(self, waiter: _Waiter | None) -> bool | float:
        """Accept the session: True when accepted, False when not available, or the seconds to sleep."""
        if waiter is None:
            return await self._calls.call(self._receiver._try_open)
        return await self._calls.call(self._receiver._open_or_wait, waiter)

    async def _take(self, count: int, waiter: _Waiter | None) -> list[ServiceBusReceivedMessage] | float:
        """Receive what is ready, or join the wait queue and return the seconds to sleep."""
        if self._undelivered and not self._receiver.closed and count > 0:
            messages, self._undelivered = self._undelivered[:count], self._undelivered[count:]
            return messages
        if waiter is None:
            return await self._calls.call_or_keep(
                self._requeue, self._receiver.receive_messages, count, max_wait_time=0
            )
        return await self._calls.call_or_keep(self._requeue, self._receiver._receive_or_wait, count, waiter)

    async def _take_table(self, count: int, waiter: _Waiter | None) -> ArrowTable | float:
        """Receive what is ready like `_take`, but as an Arrow table."""
        if self._undelivered_tables and not self._receiver.closed:
            return self._undelivered_tables.pop(0)
        keep = self._requeue_table
        if waiter is None:
            return await self._calls.call_or_keep(keep, self._receiver.receive_arrow, count, max_wait_time=0)
        return await self._calls.call_or_keep(keep, self._receiver._receive_arrow_or_wait, count, waiter)

    def _requeue(self, messages: list[ServiceBusReceivedMessage] | float) -> None:
        """Release the messages of a cancelled call. In receive-and-delete mode, keep them for the next call."""
        if isinstance(messages, float):
            return
        if not self._locks:
            self._undelivered += messages
        elif not self._receiver.closed:
            with contextlib.suppress(ServiceBusError):  # Their locks expire.
                self._receiver._release(messages)

    def _requeue_table(self, table: ArrowTable | float) -> None:
        """Keep the table of a cancelled call for the next call."""
        if not isinstance(table, float) and table:
            self._undelivered_tables.append(table)

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

    async def complete_message(
        self, message: ServiceBusReceivedMessage, *, transaction: Transaction | None = None
    ) -> None:
        """Remove a message that was processed.

        Args:
            message: A message that `receive_messages` returned.
            transaction: The transaction to join. None: the transaction of the current `Transaction.scope`, if there is
                one.

        Raises:
            MessageAlreadySettled: This message object was settled before, or in the same transaction.
            MessageLockLostError: The lock expired, or the message belongs to another entity.
            SessionLockLostError: The lock on the receiver's session expired.
            MessagingEntityNotFoundError: The entity was deleted.
            InvalidOperationError: The entity requires sessions and the receiver has none; or the transaction is over or
                covers another entity or partition.
            OperationTimeoutError: The store did not answer in time, or the transaction has been open for more than two
                minutes.
            PartitionUnavailableError: The partition is out of service or its store failed; `effect` shows whether the
                message may have been settled.
            ServiceBusQuotaExceededError: The disk of the partition is full. The message is settled in memory; the end
                of the process undoes that.
            ForkedProcessError: The receiver was created before the process forked.
            TypeError: `message` is not a received message, or `transaction` is not a transaction.
            ValueError: The message has no lock, or the receiver is closed or in receive-and-delete mode.

        Source: docs/behaviour.md B-162, B-173.
        """
        await self._call(self._receiver.complete_message, message, transaction=transaction or current())

    async def abandon_message(
        self,
        message: ServiceBusReceivedMessage,
        *,
        properties_to_modify: Mapping[str, Any] | None = None,
        delay: float | timedelta | None = None,
        transaction: Transaction | None = None,
    ) -> None:
        """Return a message to the queue, at once or after a delay.

        It keeps its position, and its delivery count rises by one.

        Args:
            message: A message that `receive_messages` returned.
            properties_to_modify: Application properties to add or replace. None changes nothing.
            delay: Seconds or a timedelta, up to a year. The message is not delivered before; until then
                `peek_messages` shows it as scheduled. Later messages of its session wait for it. None or 0: no delay.
            transaction: The transaction to join. None: the transaction of the current `Transaction.scope`, if there is
                one.

        Raises:
            MessageAlreadySettled: This message object was settled before, or in the same transaction.
            MessageLockLostError: The lock expired, or the message belongs to another entity.
            SessionLockLostError: The lock on the receiver's session expired.
            MessagingEntityNotFoundError: The entity was deleted.
            InvalidOperationError: The entity requires sessions and the receiver has none; or the transaction is over or
                covers another entity or partition.
            OperationTimeoutError: The store did not answer in time, or the transaction has been open for more than two
                minutes.
            PartitionUnavailableError: The partition is out of service or its store failed; `effect` shows whether the
                message may have been settled.
            ServiceBusQuotaExceededError: The disk of the partition is full. The message is settled in memory; the end
                of the process undoes that.
            ForkedProcessError: The receiver was created before the process forked.
            TypeError: `message` is not a received message, a property value has the wrong type, or `transaction` is not
                a transaction.
            ValueError: The message has no lock, the receiver is closed or in receive-and-delete mode, a property is out
                of range, or the message grows beyond the entity's limit.

        Source: docs/behaviour.md B-163, B-166, B-178.
        """
        await self._call(
            self._receiver.abandon_message,
            message,
            properties_to_modify=properties_to_modify,
            delay=delay,
            transaction=transaction or current(),
        )

    async def defer_message(
        self,
        message: ServiceBusReceivedMessage,
        *,
        properties_to_modify: Mapping[str, Any] | None = None,
        transaction: Transaction | None = None,
    ) -> None:
        """Defer a message: only `receive_deferred_messages` returns it.

        Args:
            message: A message that `receive_messages` returned.
            properties_to_modify: Application properties to add or replace. None changes nothing.
            transaction: The transaction to join. None: the transaction of the current `Transaction.scope`, if there is
                one.

        Raises:
            MessageAlreadySettled: This message object was settled before, or in the same transaction.
            MessageLockLostError: The lock expired, or the message belongs to another entity.
            SessionLockLostError: The lock on the receiver's session expired.
            MessagingEntityNotFoundError: The entity was deleted.
            InvalidOperationError: The entity requires sessions and the receiver has none; or the transaction is over or
                covers another entity or partition.
            OperationTimeoutError: The store did not answer in time, or the transaction has been open for more than two
                minutes.
            PartitionUnavailableError: The partition is out of service or its store failed; `effect` shows whether the
                message may have been settled.
            ServiceBusQuotaExceededError: The disk of the partition is full. The message is settled in memory; the end
                of the process undoes that.
            ForkedProcessError: The receiver was created before the process forked.
            TypeError: `message` is not a received message, a property value has the wrong type, or `transaction` is not
                a transaction.
            ValueError: The message has no lock, the receiver is closed or in receive-and-delete mode, a property is out
                of range, or the message grows beyond the entity's limit.

        Source: docs/behaviour.md B-164, B-275.
        """
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
        """Move a message to the dead-letter queue.

        Args:
            message: A message that `receive_messages` returned.
            reason: Why the message is dead-lettered, at most 4,096 characters.
            error_description: What went wrong, at most 4,096 characters.
            transaction: The transaction to join. None: the transaction of the current `Transaction.scope`, if there is
                one.

        Raises:
            MessageAlreadySettled: This message object was settled before, or in the same transaction.
            MessageLockLostError: The lock expired, or the message belongs to another entity.
            SessionLockLostError: The lock on the receiver's session expired.
            MessagingEntityNotFoundError: The entity was deleted.
            InvalidOperationError: The receiver reads a dead-letter queue. The entity requires sessions and the receiver
                has none; or the transaction is over or covers another entity or partition.
            OperationTimeoutError: The store did not answer in time, or the transaction has been open for more than two
                minutes.
            PartitionUnavailableError: The partition is out of service or its store failed; `effect` shows whether the
                message may have been settled.
            ServiceBusQuotaExceededError: The disk of the partition is full. The message is settled in memory; the end
                of the process undoes that.
            ForkedProcessError: The receiver was created before the process forked.
            TypeError: `message` is not a received message, or `transaction` is not a transaction.
            ValueError: The message has no lock, the receiver is closed or in receive-and-delete mode, or a text is too
                long.

        Source: docs/behaviour.md B-165, B-168, B-259 to B-267.
        """
        await self._call(
            self._receiver.dead_letter_message, message, reason, error_description, transaction=transaction or current()
        )

    async def complete_messages(
        self, messages: list[ServiceBusReceivedMessage], *, transaction: Transaction | None = None
    ) -> None:
        """Complete several messages.

        Args:
            messages: Messages that `receive_messages` returned.
            transaction: The transaction to join. None: the transaction of the current `Transaction.scope`, if there is
                one.

        Raises:
            MessageLockLostError: Some messages were not completed; `sequence_numbers` names them. The others were.
            PartitionUnavailableError: A partition failed or is out of service. `sequence_numbers` names the messages
                that are not known to be settled; `effect` shows whether they may have been. The others were settled.
            MessageAlreadySettled: A message object was settled before; this call settles nothing.
            SessionLockLostError: The lock on the receiver's session expired.
            MessagingEntityNotFoundError: The entity was deleted.
            InvalidOperationError: The entity requires sessions and the receiver has none; or the transaction is over or
                covers another entity or partition.
            OperationTimeoutError: A store did not answer in time, or the transaction has been open for more than two
                minutes.
            ServiceBusQuotaExceededError: The disk of a partition is full; `sequence_numbers` names its messages.
            ForkedProcessError: The receiver was created before the process forked.
            TypeError: `messages` holds something that is not a received message, or `transaction` is not a transaction.
            ValueError: A message has no lock, or the receiver is closed or in receive-and-delete mode.

        Source: docs/behaviour.md B-095, B-162, B-173.
        """
        await self._call(self._receiver.complete_messages, messages, transaction=transaction or current())

    async def abandon_messages(
        self,
        messages: list[ServiceBusReceivedMessage],
        *,
        properties_to_modify: Mapping[str, Any] | None = None,
        delay: float | timedelta | None = None,
        transaction: Transaction | None = None,
    ) -> None:
        """Abandon several messages, at once or with a delay.

        Args:
            messages: Messages that `receive_messages` returned.
            properties_to_modify: Application properties to add or replace. None changes nothing.
            delay: Seconds or a timedelta, up to a year. The message is not delivered before; until then
                `peek_messages` shows it as scheduled. Later messages of its session wait for it. None or 0: no delay.
            transaction: The transaction to join. None: the transaction of the current `Transaction.scope`, if there is
                one.

        Raises:
            MessageLockLostError: Some messages were not abandoned; `sequence_numbers` names them. The others were.
            PartitionUnavailableError: A partition failed or is out of service. `sequence_numbers` names the messages
                that are not known to be settled; `effect` shows whether they may have been. The others were settled.
            MessageAlreadySettled: A message object was settled before; this call settles nothing.
            SessionLockLostError: The lock on the receiver's session expired.
            MessagingEntityNotFoundError: The entity was deleted.
            InvalidOperationError: The entity requires sessions and the receiver has none; or the transaction is over or
                covers another entity or partition.
            OperationTimeoutError: A store did not answer in time, or the transaction has been open for more than two
                minutes.
            ServiceBusQuotaExceededError: The disk of a partition is full; `sequence_numbers` names its messages.
            ForkedProcessError: The receiver was created before the process forked.
            TypeError: `messages` holds something that is not a received message, a property value has the wrong type,
                or `transaction` is not a transaction.
            ValueError: A message has no lock, the receiver is closed or in receive-and-delete mode, a property is out
                of range, or the message grows beyond the entity's limit.

        Source: docs/behaviour.md B-095, B-163, B-166.
        """
        await self._call(
            self._receiver.abandon_messages,
            messages,
            properties_to_modify=properties_to_modify,
            delay=delay,
            transaction=transaction or current(),
        )

    async def defer_messages(
        self,
        messages: list[ServiceBusReceivedMessage],
        *,
        properties_to_modify: Mapping[str, Any] | None = None,
        transaction: Transaction | None = None,
    ) -> None:
        """Defer several messages.

        Args:
            messages: Messages that `receive_messages` returned.
            properties_to_modify: Application properties to add or replace. None changes nothing.
            transaction: The transaction to join. None: the transaction of the current `Transaction.scope`, if there is
                one.

        Raises:
            MessageLockLostError: Some messages were not deferred; `sequence_numbers` names them. The others were.
            PartitionUnavailableError: A partition failed or is out of service. `sequence_numbers` names the messages
                that are not known to be settled; `effect` shows whether they may have been. The others were settled.
            MessageAlreadySettled: A message object was settled before; this call settles nothing.
            SessionLockLostError: The lock on the receiver's session expired.
            MessagingEntityNotFoundError: The entity was deleted.
            InvalidOperationError: The entity requires sessions and the receiver has none; or the transaction is over or
                covers another entity or partition.
            OperationTimeoutError: A store did not answer in time, or the transaction has been open for more than two
                minutes.
            ServiceBusQuotaExceededError: The disk of a partition is full; `sequence_numbers` names its messages.
            ForkedProcessError: The receiver was created before the process forked.
            TypeError: `messages` holds something that is not a received message, a property value has the wrong type,
                or `transaction` is not a transaction.
            ValueError: A message has no lock, the receiver is closed or in receive-and-delete mode, a property is out
                of range, or the message grows beyond the entity's limit.

        Source: docs/behaviour.md B-095, B-164.
        """
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
        """Dead-letter several messages.

        Args:
            messages: Messages that `receive_messages` returned.
            reason: Why the message is dead-lettered, at most 4,096 characters.
            error_description: What went wrong, at most 4,096 characters.
            transaction: The transaction to join. None: the transaction of the current `Transaction.scope`, if there is
                one.

        Raises:
            MessageLockLostError: Some messages were not moved; `sequence_numbers` names them. The others were.
            PartitionUnavailableError: A partition failed or is out of service. `sequence_numbers` names the messages
                that are not known to be settled; `effect` shows whether they may have been. The others were settled.
            MessageAlreadySettled: A message object was settled before; this call settles nothing.
            SessionLockLostError: The lock on the receiver's session expired.
            MessagingEntityNotFoundError: The entity was deleted.
            InvalidOperationError: The receiver reads a dead-letter queue. The entity requires sessions and the receiver
                has none; or the transaction is over or covers another entity or partition.
            OperationTimeoutError: A store did not answer in time, or the transaction has been open for more than two
                minutes.
            ServiceBusQuotaExceededError: The disk of a partition is full; `sequence_numbers` names its messages.
            ForkedProcessError: The receiver was created before the process forked.
            TypeError: `messages` holds something that is not a received message, or `transaction` is not a transaction.
            ValueError: A message has no lock, the receiver is closed or in receive-and-delete mode, or a text is too
                long.

        Source: docs/behaviour.md B-095, B-165, B-168.
        """
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
        """Extend the lock of a message to one lock duration from now.

        Args:
            message: A message that `receive_messages` returned.
            timeout: Seconds to wait for an unresponsive disk, more than 0. None: no limit.

        Returns:
            The new end of the lock, in UTC; also the message's `locked_until_utc`.

        Raises:
            MessageAlreadySettled: This message object was settled before.
            MessageLockLostError: The lock expired, or the message belongs to another entity.
            MessagingEntityNotFoundError: The entity was deleted.
            InvalidOperationError: The message belongs to a session; renew `receiver.session` instead.
            PartitionUnavailableError: The partition is out of service.
            OperationTimeoutError: The store did not answer in time.
            ForkedProcessError: The receiver was created before the process forked.
            TypeError: `message` is not a received message.
            ValueError: The message has no lock, the receiver is closed or in receive-and-delete mode, or `timeout` is
                not more than 0.

        Source: docs/behaviour.md B-154 to B-156.
        """
        return await self._call(self._receiver.renew_message_lock, message, timeout=timeout)

    async def receive_arrow(self, max_message_count: int = 1, max_wait_time: float | None = None) -> ArrowTable:
        """Receive messages as Arrow columns.

        A cancelled call loses no message, as for `receive_messages`.

        Args:
            max_message_count: Upper bound, at least 1.
            max_wait_time: Seconds to wait for the first message; 0 does not wait. None: the receiver's own
                `max_wait_time`; without one the call waits until a message arrives.

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
            ValueError: The receiver is closed, `max_message_count` is not 1 to 1,048,576, or `max_wait_time` is
                negative.

        Source: docs/behaviour.md B-125 to B-140; docs/compat.md#arrow.
        """
        seconds = self._max_wait_time if max_wait_time is None else max_wait_time
        await self._accept()
        return await self._wait_until_found(partial(self._take_table, max_message_count), seconds)

    async def settle_arrow(self, batch: Any, outcome: Literal["complete", "abandon", "defer", "dead_letter"]) -> None:
        """Settle the messages of a table by its columns `sequence_number` and `lock_token`.

        Args:
            batch: The table that `receive_arrow` returned, or some of its rows.
            outcome: ``"complete"``, ``"abandon"``, ``"defer"`` or ``"dead_letter"``.

        Raises:
            MessageLockLostError: Some messages were not settled; `sequence_numbers` names them. The others were.
            PartitionUnavailableError: A partition failed or is out of service. `sequence_numbers` names the messages
                that are not known to be settled; `effect` shows whether they may have been. The others were settled.
            SessionLockLostError: The lock on the receiver's session expired.
            MessagingEntityNotFoundError: The entity was deleted.
            InvalidOperationError: The receiver reads a dead-letter queue and `outcome` is ``"dead_letter"``; or the
                entity requires sessions and the receiver has none.
            OperationTimeoutError: A store did not answer in time.
            ServiceBusQuotaExceededError: The disk of a partition is full; `sequence_numbers` names its messages.
            ForkedProcessError: The receiver was created before the process forked.
            TypeError: `batch` has no Arrow interface.
            ValueError: A column is missing, `outcome` is unknown, or the receiver is closed or in receive-and-delete
                mode.

        Source: docs/behaviour.md B-095, B-162 to B-168; docs/compat.md#arrow.
        """
        await self._call(self._receiver.settle_arrow, batch, outcome)

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
