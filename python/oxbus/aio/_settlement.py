# SPDX-License-Identifier: Apache-2.0
"""The settlement of one message, for asyncio, and the renewal of its lock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oxbus._oxbus import _Settlement

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from datetime import datetime, timedelta

    from oxbus import ServiceBusReceivedMessage
    from oxbus import ServiceBusReceiver as NativeReceiver
    from oxbus._oxbus import _PendingCall, _ReadyReceiver
    from oxbus.aio._calls import CallRunner
    from oxbus.aio._transaction import Transaction

_COMPLETE = _Settlement.complete()


class SettlesMessages:
    """The part of a receiver that settles single messages."""

    _receiver: NativeReceiver
    _ready: _ReadyReceiver
    _calls: CallRunner
    _call: Callable[..., Coroutine[Any, Any, Any]]

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
        # Like `_settle`, without a coroutine of its own: this is the most frequent settlement.
        done = self._ready.settle(message, _COMPLETE, transaction)
        if done is not True:
            await self._end_settling(done, message, _COMPLETE, transaction)

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
        await self._settle(message, _Settlement.abandon(properties_to_modify, delay), transaction)

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
        await self._settle(message, _Settlement.defer(properties_to_modify), transaction)

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
        await self._settle(message, _Settlement.dead_letter(reason, error_description), transaction)

    async def _settle(
        self, message: ServiceBusReceivedMessage, settlement: _Settlement, transaction: Transaction | None
    ) -> None:
        done = self._ready.settle(message, settlement, transaction)
        if done is not True:
            await self._end_settling(done, message, settlement, transaction)

    async def _end_settling(
        self,
        started: bool | _PendingCall,
        message: ServiceBusReceivedMessage,
        settlement: _Settlement,
        transaction: Transaction | None,
    ) -> None:
        """Wait for a settlement that was started, or make one that was not."""
        if isinstance(started, bool):
            await self._call(self._receiver._settle, message, settlement, transaction)
        else:
            await self._calls.result_of(started)

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
        end: datetime = await self._call(self._receiver.renew_message_lock, message, timeout=timeout)
        return end
