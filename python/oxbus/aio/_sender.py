# SPDX-License-Identifier: Apache-2.0
"""`ServiceBusSender` for asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

from oxbus._options import explains_options
from oxbus._transaction import current

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from types import TracebackType

    from oxbus import ServiceBusMessage, ServiceBusMessageBatch
    from oxbus import ServiceBusSender as NativeSender
    from oxbus.aio._calls import CallRunner
    from oxbus.aio._transaction import Transaction


@explains_options
class ServiceBusSender:
    """Sends to one queue; for one event loop. Made by `ServiceBusClient.get_queue_sender`."""

    def __init__(self, sender: NativeSender, calls: CallRunner) -> None:
        """Wrap a sender."""
        self._sender = sender
        self._calls = calls

    async def __aenter__(self) -> Self:
        """Return the sender, open."""
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
        """Send one message, or several that are stored together or not at all.

        A send that is cancelled while it waits for a disk may be stored or not.

        Args:
            message: What to send; as in `oxbus.ServiceBusSender.send_messages`.
            timeout: As in `oxbus.ServiceBusSender.send_messages`.
            durability: What the send is to be safe from; the namespace's when missing.
            transaction: The transaction that it is part of; the one of the scope it is in when missing.

        Raises:
            The same as `oxbus.ServiceBusSender.send_messages`.
        """
        await self._calls.call(
            self._sender.send_messages,
            message,
            timeout=timeout,
            durability=durability,
            transaction=transaction or current(),
        )

    async def schedule_messages(
        self,
        messages: ServiceBusMessage | Iterable[ServiceBusMessage],
        schedule_time_utc: datetime,
        *,
        timeout: float | None = 60.0,  # noqa: ASYNC109
        transaction: Transaction | None = None,
    ) -> list[int]:
        """Send messages that can be received from a time on; their sequence numbers until then."""
        return await self._calls.call(
            self._sender.schedule_messages,
            messages,
            schedule_time_utc,
            timeout=timeout,
            transaction=transaction or current(),
        )

    async def cancel_scheduled_messages(
        self,
        sequence_numbers: int | list[int],
        *,
        timeout: float | None = 60.0,  # noqa: ASYNC109
    ) -> None:
        """Remove scheduled messages: all of them, or none."""
        await self._calls.call(self._sender.cancel_scheduled_messages, sequence_numbers, timeout=timeout)

    async def create_message_batch(self, max_size_in_bytes: int | None = None) -> ServiceBusMessageBatch:
        """Return an empty batch that may grow to a size."""
        return await self._calls.call(self._sender.create_message_batch, max_size_in_bytes)

    async def send_arrow(self, data: Any) -> dict[int, int]:
        """Send the rows of an Arrow object; how many were stored in each partition."""
        return await self._calls.call(self._sender.send_arrow, data)

    async def close(self) -> None:
        """Close the sender; later sends fail."""
        self._sender.close()

    @property
    def closed(self) -> bool:
        """True after `close`."""
        return self._sender.closed

    @property
    def client_identifier(self) -> str:
        """The name of this sender in error texts."""
        return self._sender.client_identifier

    @property
    def last_durability(self) -> str | None:
        """What the last send is safe from; None before the first."""
        return self._sender.last_durability

    def __repr__(self) -> str:
        """Show which queue it sends to."""
        return f"aio.{self._sender!r}"
