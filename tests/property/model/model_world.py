# SPDX-License-Identifier: Apache-2.0
"""A namespace of the naive model: entities by path, a topic's fan-out, forwarding, time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from model_entity import Entity
    from model_message import Message

GAP_MAX = 16_384
"""Numbers that a crash may skip in each partition (docs/guarantees.md)."""
TOPIC = "t"


class World:
    """All entities, and the time."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.entities: dict[str, Entity] = {}
        self.waiting: dict[int, Message] = {}
        """Scheduled messages of the topic, by number (B-241)."""

    def subscriptions(self) -> list[Entity]:
        """The subscriptions of the topic."""
        return [entity for path, entity in self.entities.items() if path.startswith(f"{TOPIC}/")]

    def accept(self, path: str, message: Message, at: datetime | None = None) -> None:
        """Add an active message; for a topic, a copy for each subscription that selects it (B-343, B-347)."""
        at = at or self.now
        if path != TOPIC:
            self._arrive(self.entities[path], message, at)
            return
        for subscription in self.subscriptions():
            if any(select(message) for select in subscription.selects.values()):
                self._arrive(subscription, message.copy(), at)

    def _arrive(self, entity: Entity, message: Message, at: datetime) -> None:
        message.enqueued_at = at
        is_dead = entity.requires_session and message.session is None
        if is_dead:
            message.reason = "Session id is null."
        entity.arrivals.append((message, is_dead))
        self.forward(entity)

    def forward(self, entity: Entity) -> None:
        """Forward ready messages of an entity (B-331, B-335)."""
        # A receive-disabled entity keeps its messages (B-339).
        if entity.forward_to is None or not entity.is_receiving:
            return
        to = self.entities.get(entity.forward_to)
        reason = (
            None
            if to is not None and to.is_sending
            else f"MessagingEntity{'NotFound' if to is None else 'Disabled'}Exception"
        )
        for number in entity.ready(None, self.now):
            if reason is not None:
                entity.dead_letter(number, reason)
            elif to is not None:
                self._arrive(to, entity.main.pop(number).copy(), self.now)
        for position, (message, is_dead) in reversed(list(enumerate(entity.arrivals))):
            if is_dead or message.is_over(self.now):
                continue
            if reason is not None:
                message.reason = reason
                entity.arrivals[position] = (message, True)
            elif to is not None:
                del entity.arrivals[position]
                entity.unseen += 1
                self._arrive(to, message.copy(), self.now)

    def advance(self, step: timedelta) -> None:
        """Advance the time: locks expire, due messages arrive (B-157, B-206, B-235)."""
        self.now += step
        for entity in self.entities.values():
            entity.end_locks(self.now)
        for path, entity in list(self.entities.items()):
            for number in self._due(entity.main):
                message = entity.main.pop(number)
                self.accept(path, message.copy(), message.due_at)
        for number in self._due(self.waiting):
            message = self.waiting.pop(number)
            self.accept(TOPIC, message.copy(), message.due_at)
        for entity in self.entities.values():
            self.forward(entity)

    def _due(self, messages: dict[int, Message]) -> list[int]:
        due = [
            (message.due_at, number)
            for number, message in messages.items()
            if message.state == "scheduled" and message.due_at is not None and message.due_at <= self.now
        ]
        return [number for _, number in sorted(due)]

    def reopen(self, *, crashed: bool) -> None:
        """Restart the process: locks end and count a delivery (B-102, B-177); fetches were counted before (B-281)."""
        for entity in self.entities.values():
            for sub_queue in (None, "deadletter"):
                for number, message in list(entity.stream(sub_queue).items()):
                    if message.holder is None:
                        continue
                    if message.state == "deferred":
                        message.holder = message.held_until = None
                    else:
                        entity.release(sub_queue, number, counted=True)
            for session in entity.sessions.values():
                session.holder = session.until = None
            if crashed:
                entity.unseen += GAP_MAX * max(entity.partitions, 1)
