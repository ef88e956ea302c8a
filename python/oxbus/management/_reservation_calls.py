# SPDX-License-Identifier: Apache-2.0
"""Looking at reservations, and giving one back whose consumer does not come back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from oxbus._enums import ServiceBusSubQueue
from oxbus._paging import ItemPaged

if TYPE_CHECKING:
    from datetime import datetime

    from oxbus._oxbus import Namespace


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationProperties:
    """Messages that a consumer has under a number until it completes that number.

    Attributes:
        consumer: The name of the consumer.
        number: The number of the reservation.
        epoch: How often the consumer was acquired; only who did so last may use it.
        completed_number: The highest number that the consumer has completed; 0 before the first.
        message_count: Messages in the reservation.
        state: ``"live"`` while its messages are locked, ``"lapsed"`` when its time was over.
        expires_at_utc: When it lapses unless it is renewed; None when it has.
    """

    consumer: str
    number: int
    epoch: int
    completed_number: int
    message_count: int
    state: str
    expires_at_utc: datetime | None


class ReservationCalls:
    """The calls on reservations."""

    _namespace: Namespace

    def list_reservations(
        self, entity: str, *, sub_queue: ServiceBusSubQueue | str | None = None
    ) -> ItemPaged[ReservationProperties]:
        """Return the reservations of an entity, by consumer and number, as an iterator with `by_page`.

        Args:
            entity: A queue, or a subscription as ``topic/Subscriptions/subscription``.
            sub_queue: Its dead-letter queue.

        Raises:
            MessagingEntityNotFoundError: There is no such entity.
            InvalidOperationError: It is a topic.
            ValueError: `sub_queue` is another one.
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
            for info in self._namespace._reservations(path).reservations()
        ]

    def cancel_reservation(
        self, entity: str, consumer: str, *, sub_queue: ServiceBusSubQueue | str | None = None
    ) -> int:
        """Give back all that a consumer has reserved; no delivery is charged.

        Its batch at hand is forgotten, so cancel only what no program comes back for.

        Args:
            entity: A queue, or a subscription as ``topic/Subscriptions/subscription``.
            consumer: The name of the consumer.
            sub_queue: The dead-letter queue of the entity.

        Returns:
            How many messages can be received again.

        Raises:
            MessagingEntityNotFoundError: There is no such entity, or it has no such consumer.
            InvalidOperationError: It is a topic.
            ValueError: `sub_queue` is another one.
            PartitionUnavailableError: The store of the consumer's partition failed.
        """
        return self._namespace._reservations(_path(entity, sub_queue)).cancel_reservation(consumer)


def _path(entity: str, sub_queue: ServiceBusSubQueue | str | None) -> str:
    if sub_queue is None:
        return entity
    if ServiceBusSubQueue(sub_queue) is not ServiceBusSubQueue.DEAD_LETTER:
        raise ValueError(f"only the dead-letter queue has reservations of its own: {sub_queue=}")
    return f"{entity}/$DeadLetterQueue"
