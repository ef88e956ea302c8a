# SPDX-License-Identifier: Apache-2.0
"""`ServiceBusSender` for asyncio."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self

from oxbus._options import explains_options
from oxbus._oxbus import _ReadySender

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from types import TracebackType

    from oxbus import ServiceBusMessage, ServiceBusMessageBatch
    from oxbus import ServiceBusSender as NativeSender
    from oxbus.aio._calls import CallRunner
    from oxbus.aio._transaction import Transaction


@partial(explains_options, hot=("send_messages",))
class ServiceBusSender:
    """Sends messages to a queue or a topic, for one event loop.

    Made by `ServiceBusClient.get_queue_sender` and `get_topic_sender`; usable as an asynchronous context manager.

    Source: docs/behaviour.md B-061 to B-084; `azure.servicebus.aio.ServiceBusSender`; differences in
    docs/compat.md#send.
    """

    def __init__(self, sender: NativeSender, calls: CallRunner) -> None:
        """Wrap a native sender.

        Args:
            sender: The native sender.
            calls: Runs its calls.

        Raises nothing.
        """
        self._sender = sender
        self._calls = calls
        self._ready = _ReadySender(sender, calls.turn)

    async def __aenter__(self) -> Self:
        """Look the entity up and return the sender."""
        await self._calls.call(self._sender.__enter__)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the sender."""
        await self.close()

    async def send_messages(
        self,
        message: ServiceBusMessage | ServiceBusMessageBatch | Iterable[ServiceBusMessage],
        *,
        timeout: float | None = 60.0,  # noqa: ASYNC109 (the SDK's name)
        durability: Literal["os", "fsync"] | None = None,
        transaction: Transaction | None = None,
    ) -> None:
        """Store one message, or several as one atomic batch.

        The key of a message (session id, else partition key) selects its partition. A message or batch without a key
        goes to the next available partition in turn.
        If a send is cancelled while it waits for a disk or a server, its messages may have been stored.

        Args:
            message: One message, several, or a batch. On a partitioned entity the messages of a batch need the same
                key.
            timeout: Seconds to wait for an unresponsive disk, more than 0. None: no limit. A message without a
                key goes to another partition after 5 s; for that the timeout must be more than 15 s.
            durability: ``"os"`` or ``"fsync"`` for this call. None: the level of the namespace.
            transaction: The transaction to join. None: the transaction of the current `Transaction.scope`, if there is
                one.

        Raises:
            MessagingEntityNotFoundError: The entity does not exist or was deleted.
            MessagingEntityDisabledError: The status of the entity forbids sending.
            MessageSizeExceededError: A message or the batch is too large.
            PartitionKeyMismatchError: Session id and partition key of a message differ.
            InvalidOperationError: The keys of a batch differ; the entity requires sessions and a message has no session
                id; the entity is a subscription; a message was received before; or the transaction is over or covers
                another entity or partition.
            PartitionUnavailableError: The partition of the key is out of service; without a key, every partition is.
            ServiceBusServerBusyError: Too many sends wait for the store of the partition. Wait, then send again.
            OperationTimeoutError: The store did not answer in time, or the transaction has been open for more than two
                minutes. The message is stored at most once; `effect` shows whether it may have been stored.
            ServiceBusQuotaExceededError: The partition of the key or every partition is full, the memory limit is
                reached, or the transaction holds 100 messages.
            ForkedProcessError: The sender was created before the process forked.
            TypeError: `message` holds something that is not a message, or `transaction` is not a transaction.
            ValueError: The sender is closed, `timeout` is not more than 0, or `durability` is unknown.

        Source: docs/behaviour.md B-061 to B-084; differences in docs/compat.md#send.
        """
        sent = self._ready.send_messages(message, timeout, durability, transaction)
        if sent is False:
            await self._calls.call(
                self._sender.send_messages, message, timeout=timeout, durability=durability, transaction=transaction
            )
        elif sent is not True:
            await self._calls.result_of(sent)

    async def schedule_messages(
        self,
        messages: ServiceBusMessage | Iterable[ServiceBusMessage],
        schedule_time_utc: datetime,
        *,
        timeout: float | None = 60.0,  # noqa: ASYNC109
        transaction: Transaction | None = None,
    ) -> list[int]:
        """Store messages that become available at a later time.

        Args:
            messages: One message or several.
            schedule_time_utc: The earliest time to receive them; a time without a time zone counts as UTC.
            timeout: Seconds to wait for an unresponsive disk, more than 0. None: no limit.
            transaction: The transaction to join. None: the transaction of the current `Transaction.scope`, if there is
                one.

        Returns:
            Their sequence numbers, for `cancel_scheduled_messages`. A message gets a new number when it becomes
            available. In a transaction the commit fills the list.

        Raises:
            MessagingEntityNotFoundError: The entity does not exist or was deleted.
            MessagingEntityDisabledError: The status of the entity forbids sending.
            MessageSizeExceededError: A message or the batch is too large.
            PartitionKeyMismatchError: Session id and partition key of a message differ.
            InvalidOperationError: The keys of a batch differ; the entity requires sessions and a message has no session
                id; the entity is a subscription; a message was received before; or the transaction is over or covers
                another entity or partition.
            PartitionUnavailableError: The partition of the key is out of service; without a key, every partition is.
            ServiceBusServerBusyError: Too many sends wait for the store of the partition. Wait, then send again.
            OperationTimeoutError: The store did not answer in time, or the transaction has been open for more than two
                minutes. The message is stored at most once; `effect` shows whether it may have been stored.
            ServiceBusQuotaExceededError: The partition of the key or every partition is full, the memory limit is
                reached, or the transaction holds 100 messages.
            ForkedProcessError: The sender was created before the process forked.
            TypeError: `messages` holds something that is not a message, `schedule_time_utc` is not a datetime, or
                `transaction` is not a transaction.
            ValueError: The sender is closed, or `timeout` is not more than 0.

        Source: docs/behaviour.md B-232 to B-237.
        """
        return await self._calls.start(
            self._sender._scheduling,
            self._sender.schedule_messages,
            messages,
            schedule_time_utc,
            timeout=timeout,
            transaction=transaction,
        )

    async def cancel_scheduled_messages(
        self,
        sequence_numbers: int | list[int],
        *,
        timeout: float | None = 60.0,  # noqa: ASYNC109
    ) -> None:
        """Delete scheduled messages before their time: all of them, or none.

        Args:
            sequence_numbers: Numbers that `schedule_messages` returned, all from one partition.
            timeout: Seconds to wait for an unresponsive disk, more than 0. None: no limit.

        Raises:
            MessageNotFoundError: A message does not exist or is active already; the text names it, and none is deleted.
            MessagingEntityNotFoundError: The entity does not exist or was deleted.
            MessagingEntityDisabledError: The status of the entity forbids sending.
            InvalidOperationError: The numbers are from several partitions, or the call is inside `Transaction.scope`.
            PartitionUnavailableError: The partition is out of service, or its store failed; `effect` shows whether the
                messages may have been deleted.
            OperationTimeoutError: The store did not answer in time; either all are deleted, or none is.
            ServiceBusQuotaExceededError: The disk of the partition is full.
            ForkedProcessError: The sender was created before the process forked.
            TypeError: A sequence number is not an int.
            ValueError: The sender is closed, a number is out of range, or `timeout` is not more than 0.

        Source: docs/behaviour.md B-238, B-239.
        """
        await self._calls.start(
            self._sender._cancelling, self._sender.cancel_scheduled_messages, sequence_numbers, timeout=timeout
        )

    async def create_message_batch(self, max_size_in_bytes: int | None = None) -> ServiceBusMessageBatch:
        """Return an empty batch.

        Args:
            max_size_in_bytes: The largest size of the batch, in bytes. None: 1 MiB, or the entity's limit if that is
                lower.

        Raises:
            MessagingEntityNotFoundError: The entity does not exist.
            InvalidOperationError: The entity is a subscription.
            ForkedProcessError: The sender was created before the process forked.
            ValueError: `max_size_in_bytes` is more than the entity accepts, or the sender is closed.

        Source: docs/behaviour.md B-054, B-079.
        """
        return await self._calls.call(self._sender.create_message_batch, max_size_in_bytes)

    async def send_arrow(self, data: Any) -> dict[int, int]:
        """Store each row of a table as a message.

        Rows are grouped by partition; each group is stored whole and in row order. Rows without a key are distributed
        over the partitions. Columns are message properties: `body` (binary or string), `message_id`, `session_id`,
        `partition_key`, `subject`, `correlation_id`, `content_type`, `to`, `reply_to` (strings),
        `application_properties` (map of string to string, or a JSON object as a string, whose members keep their
        types), `scheduled_enqueue_time_utc` (timestamp), `time_to_live` (duration).

        Args:
            data: Anything with the Arrow C stream or array interface: pyarrow, polars, pandas.

        Returns:
            The number of rows stored in each partition, by partition id.

        Raises:
            PartialSendError: Some rows were not stored; `rows` names them.
            MessagingEntityNotFoundError: The entity does not exist or was deleted.
            MessagingEntityDisabledError: The status of the entity forbids sending.
            MessageSizeExceededError: A row is too large.
            PartitionKeyMismatchError: Session id and partition key of a row differ.
            InvalidOperationError: The call is inside `Transaction.scope`, a row lacks the session id that the entity
                requires, or the entity is a subscription.
            PartitionUnavailableError: No row was stored: the partitions are out of service.
            ServiceBusServerBusyError: No row was stored: too many sends wait for the store.
            OperationTimeoutError: No row is known to be stored: the store did not answer in time.
            ServiceBusQuotaExceededError: No row was stored: the partitions are full, or the memory limit is reached.
            ForkedProcessError: The sender was created before the process forked.
            TypeError: `data` has no Arrow interface.
            ValueError: A column is unknown or has the wrong type (the text names it), or the sender is closed.

        Source: docs/compat.md#arrow.
        """
        return await self._calls.start(self._sender._sending_rows, self._sender.send_arrow, data)

    async def close(self) -> None:
        """Close the sender; later sends fail. Closing twice is harmless. Raises nothing."""
        self._sender.close()

    @property
    def closed(self) -> bool:
        """Whether `close` was called. Raises nothing."""
        return self._sender.closed

    @property
    def client_identifier(self) -> str:
        """The name of this sender in error texts. Raises nothing."""
        return self._sender.client_identifier

    @property
    def last_durability(self) -> str | None:
        """The level that the last send reached: ``"memory"``, ``"os"`` or ``"fsync"``; None before the first one.

        Raises nothing.
        """
        return self._sender.last_durability

    def __repr__(self) -> str:
        """Show which entity it sends to."""
        return f"aio.{self._sender!r}"
