# SPDX-License-Identifier: Apache-2.0
"""Listing reservations, and cancelling those of a consumer that does not return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from oxbus._enums import ServiceBusSubQueue
from oxbus._paging import ItemPaged

if TYPE_CHECKING:
    from datetime import datetime

    from oxbus.management._transport import AdministrationTransport


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationProperties:
    """Messages that a consumer has reserved under a number until it completes that number.

    Attributes:
        consumer: The name of the consumer.
        number: The number of the reservation.
        epoch: How often the consumer was acquired; only the latest owner may use it.
        completed_number: The highest number that the consumer completed; 0 before the first.
        message_count: Messages in the reservation.
        state: ``"live"`` while its messages are locked, ``"lapsed"`` once its time is over.
        expires_at_utc: When it expires unless it is renewed; None once it has.

    Source: docs/bulk.md.
    """

    consumer: str
    number: int
    epoch: int
    completed_number: int
    message_count: int
    state: str
    expires_at_utc: datetime | None


class ReservationCalls:
    """The reservation operations of the administration client."""

    _transport: AdministrationTransport

    def list_reservations(
        self, entity: str, *, sub_queue: ServiceBusSubQueue | str | None = None
    ) -> ItemPaged[ReservationProperties]:
        """Return the reservations of an entity, by consumer and number, as an iterator with `by_page`.

        Args:
            entity: A queue, or a subscription as ``topic/Subscriptions/subscription``.
            sub_queue: Its dead-letter queue. None: the entity itself.

        Raises:
            MessagingEntityNotFoundError: The entity does not exist; raised at the first item, like the next two.
            InvalidOperationError: The entity is a topic.
            ForkedProcessError: The namespace was opened before the process forked.
            ValueError: `sub_queue` is not the dead-letter queue, or the namespace is closed.

        Source: docs/bulk.md.
        """
        path = _path(entity, sub_queue)
        return ItemPaged(lambda: self._reservations(path))

    def _reservations(self, path: str) -> list[ReservationProperties]:
        return [
            ReservationProperties(
                consumer=info["consumer"],
                number=info["n"],
                epoch=info["epoch"],
                completed_number=info["done"],
                message_count=info["messages"],
                state=info["state"],
                expires_at_utc=info["expires_at"],
            )
            for info in self._transport.namespace_for("list_reservations")._reservations(path).reservations()
        ]

    def cancel_reservation(
        self, entity: str, consumer: str, *, sub_queue: ServiceBusSubQueue | str | None = None
    ) -> int:
        """Release all messages that a consumer has reserved, without counting a delivery.

        The consumer loses its current batch, so cancel only a consumer that no program will resume.

        Args:
            entity: A queue, or a subscription as ``topic/Subscriptions/subscription``.
            consumer: The name of the consumer.
            sub_queue: The dead-letter queue of the entity. None: the entity itself.

        Returns:
            The number of messages that can be received again.

        Raises:
            MessagingEntityNotFoundError: The entity does not exist, or has no such consumer.
            InvalidOperationError: The entity is a topic.
            PartitionUnavailableError: The store of the consumer's partition failed.
            OperationTimeoutError: Another call on the consumer did not end in time, or a store did not answer.
            ForkedProcessError: The namespace was opened before the process forked.
            ValueError: `sub_queue` is not the dead-letter queue, or the namespace is closed.

        Source: docs/bulk.md.
        """
        namespace = self._transport.namespace_for("cancel_reservation")
        return namespace._reservations(_path(entity, sub_queue)).cancel_reservation(consumer)


def _path(entity: str, sub_queue: ServiceBusSubQueue | str | None) -> str:
    if sub_queue is None:
        return entity
    if ServiceBusSubQueue(sub_queue) is not ServiceBusSubQueue.DEAD_LETTER:
        raise ValueError(f"sub_queue must be the dead-letter queue or None: {sub_queue=}")
    return f"{entity}/$DeadLetterQueue"
