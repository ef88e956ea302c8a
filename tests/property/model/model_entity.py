# SPDX-License-Identifier: Apache-2.0
"""A queue or a subscription of the naive model: two dicts from number to message, written from docs/behaviour.md."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import oxbus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from model_message import Message

LOW_48_BITS = (1 << 48) - 1
EXPIRED = "TTLExpiredException"
EXHAUSTED = "MaxDeliveryCountExceeded"


@dataclass
class Session:
    """A session: its holder, its lock end and its state."""

    holder: object = None
    until: datetime | None = None
    state: bytes | None = None


@dataclass
class Entity:
    """A queue or a subscription."""

    name: str
    partitions: int
    """0 without partitioning."""
    requires_session: bool = False
    max_delivery_count: int = 3
    lock: timedelta = timedelta(seconds=60)
    is_sending: bool = True
    """Whether its status allows sends, and receives."""
    is_receiving: bool = True
    forward_to: str | None = None
    selects: dict[str, Callable[[Message], bool]] = field(default_factory=dict)
    """The rules of a subscription."""
    main: dict[int, Message] = field(default_factory=dict)
    dead: dict[int, Message] = field(default_factory=dict)
    arrivals: list[tuple[Message, bool]] = field(default_factory=list)
    """Messages without a known number yet, and whether they arrive as dead letters."""
    sessions: dict[str, Session] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)
    unseen: int = 0
    """Numbers of messages that were removed before a peek showed them."""

    def stream(self, sub_queue: str | None) -> dict[int, Message]:
        """The messages, or the dead letters."""
        return self.main if sub_queue is None else self.dead

    def ready(self, sub_queue: str | None, now: datetime) -> list[int]:
        """Numbers of receivable messages; dead letters do not expire (B-138, B-254)."""
        messages = sorted(self.stream(sub_queue).items())
        return [number for number, it in messages if it.is_free() and (sub_queue is not None or not it.is_over(now))]

    def overdue(self, now: datetime) -> list[int]:
        """Numbers of expired messages that are perhaps still there (B-251)."""
        return [number for number, it in self.main.items() if it.is_free() and it.is_over(now)]

    def take_number(self, number: int, key: str | None) -> None:
        """Check a new number: it is in the key's partition and skips only unseen numbers (B-062, B-105)."""
        partition, counter = number >> 48, number & LOW_48_BITS
        if not self.partitions:
            assert partition == 0
        elif key is not None:
            assert partition == oxbus.partition_id(key, self.partitions)
        skipped = counter - self.last.get(partition, 0) - 1
        assert 0 <= skipped <= self.unseen, (self.name, number, self.last, self.unseen)
        self.unseen -= skipped
        self.last[partition] = counter

    def release(self, sub_queue: str | None, number: int, *, counted: bool) -> None:
        """End a delivery without a settlement (B-163, B-157, B-178, B-282)."""
        message = self.stream(sub_queue)[number]
        message.holder = message.held_until = None
        message.count += counted and message.state == "ready"
        if counted and sub_queue is None and message.count >= self.max_delivery_count:
            self.dead_letter(number, EXHAUSTED)

    def dead_letter(self, number: int, reason: str) -> None:
        """Move a message to the dead-letter queue; it keeps number and count (B-111)."""
        message = self.main.pop(number)
        message.state, message.reason = "ready", reason
        message.holder = message.held_until = None
        self.dead[number] = message

    def settle(self, sub_queue: str | None, number: int, verb: str) -> None:
        """End a delivery by a settlement (B-162 to B-165)."""
        if verb == "complete":
            del self.stream(sub_queue)[number]
        elif verb == "abandon":
            self.release(sub_queue, number, counted=True)
        elif verb == "defer":
            message = self.stream(sub_queue)[number]
            message.state = "deferred"
            message.holder = message.held_until = None
        else:
            self.dead_letter(number, "tested")

    def end_session(self, session_id: str, *, counted: bool) -> None:
        """Take a session from its holder (B-205, B-206)."""
        session = self.sessions[session_id]
        session.holder = session.until = None
        for number, message in list(self.main.items()):
            if message.session == session_id and message.holder is not None:
                self.release(None, number, counted=counted)

    def end_locks(self, now: datetime) -> None:
        """End expired locks (B-157, B-206)."""
        for sub_queue in (None, "deadletter"):
            for number, message in list(self.stream(sub_queue).items()):
                if message.held_until is not None and message.held_until <= now:
                    self.release(sub_queue, number, counted=True)
        for session_id, session in self.sessions.items():
            if session.until is not None and session.until <= now:
                self.end_session(session_id, counted=True)

    def learn(self, now: datetime, main: Mapping[int, str], dead: Mapping[int, str]) -> None:
        """Take over new numbers and removals from peeked messages, given as bodies by number."""
        for number in self.overdue(now):
            if number not in main:
                self.dead_letter(number, EXPIRED)
        late = [(message, is_dead) for message, is_dead in self.arrivals if message.is_over(now)]
        self.unseen += len(late)
        shown = [(number, body, False) for number, body in main.items()]
        shown += [(number, body, True) for number, body in dead.items()]
        for number, body, is_dead in sorted(shown):
            if number in self.main or number in self.dead:
                continue
            found = [it for it in self.arrivals if it[0].body == body and (is_dead or not it[1])]
            assert found, (self.name, number, body, self.arrivals)
            message, was_dead = found[0]
            self.arrivals.remove(found[0])
            self.unseen -= message.is_over(now)
            self.take_number(number, message.partition_key)
            if is_dead and not was_dead:
                assert message.is_over(now)
                message.reason = EXPIRED
            (self.dead if is_dead else self.main)[number] = message
        assert not self.arrivals, (self.name, self.arrivals)
