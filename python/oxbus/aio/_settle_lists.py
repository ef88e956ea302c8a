# SPDX-License-Identifier: Apache-2.0
"""The settlement of several messages with one call, for asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from oxbus._oxbus import _Settlement

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from datetime import timedelta

    from oxbus import ServiceBusReceivedMessage
    from oxbus import ServiceBusReceiver as NativeReceiver
    from oxbus._oxbus import _ReadyReceiver
    from oxbus.aio._calls import CallRunner
    from oxbus.aio._transaction import Transaction

_COMPLETE = _Settlement.complete()


class SettlesLists:
    """The part of a receiver that settles lists and tables of messages."""

    _receiver: NativeReceiver
    _ready: _ReadyReceiver
    _calls: CallRunner
    _call: Callable[..., Coroutine[Any, Any, Any]]
    _accept: Callable[[], Coroutine[Any, Any, None]]

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
        await self._settle_all(messages, _COMPLETE, transaction)

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
        await self._settle_all(messages, _Settlement.abandon(properties_to_modify, delay), transaction)

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
        await self._settle_all(messages, _Settlement.defer(properties_to_modify), transaction)

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
        await self._settle_all(messages, _Settlement.dead_letter(reason, error_description), transaction)

    async def _settle_all(
        self, messages: list[ServiceBusReceivedMessage], settlement: _Settlement, transaction: Transaction | None
    ) -> None:
        done = self._ready.settle_all(messages, settlement, transaction)
        if done is False:
            await self._call(self._receiver._settle_all, messages, settlement, transaction)
        elif done is not True:
            await self._calls.result_of(done)

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
        await self._accept()
        await self._calls.start(self._receiver._settling_rows, self._receiver.settle_arrow, batch, outcome)
