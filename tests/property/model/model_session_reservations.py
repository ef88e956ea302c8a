# SPDX-License-Identifier: Apache-2.0
"""A naive model of a queue with sessions: who holds which session and message, until when, and what is left.

A hold is that of a receiver or of a live reservation. Both have sessions of their own, and messages of these.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

COUNTER_BITS = 48
Place = Literal["queue", "dead", "gone"]


@dataclass
class Message:
    """What the model knows of a message."""

    session: str
    count: int = 0
    place: Place = "queue"


@dataclass(eq=False)
class Hold:
    """Sessions and messages that no one else can get until a time."""

    until: float
    sessions: set[str]
    numbers: set[int] = field(default_factory=set)


@dataclass(eq=False)
class Reservation:
    """The content of a number, which outlives its hold."""

    id: str
    content: set[int]
    created: int
    """How often the consumer was acquired before."""
    settled: int = 0
    initial: int = 0
    hold: Hold | None = None


class Model:
    """Messages, holds and states of sessions."""

    def __init__(self, max_delivery_count: int) -> None:
        self.now = 0.0
        self.max_delivery_count = max_delivery_count
        self.messages: dict[int, Message] = {}
        self.states: dict[str, bytes] = {}
        self.holds: list[Hold] = []

    def in_place(self, place: Place) -> dict[int, Message]:
        """The messages of the queue, or its dead letters, or those that are gone."""
        return {number: message for number, message in self.messages.items() if message.place == place}

    def holder_of(self, session: str) -> Hold | None:
        """The holder of a session."""
        found = [hold for hold in self.holds if session in hold.sessions]
        assert len(found) <= 1, "a session has at most one holder"
        return found[0] if found else None

    def ready(self, session: str, upto: list[int] | None = None) -> list[int]:
        """The messages of a session that no one has locked, in order, with counters below a bound by partition."""
        locked: set[int] = set().union(*(hold.numbers for hold in self.holds))
        numbers = sorted(number for number, it in self.in_place("queue").items() if it.session == session)
        free = [number for number in numbers if number not in locked]
        return [number for number in free if upto is None or in_bounds(number, upto)]

    def available(self, upto: list[int] | None = None) -> dict[str, list[int]]:
        """The free sessions with ready messages, and these."""
        sessions = {message.session for message in self.in_place("queue").values()}
        runs = {session: self.ready(session, upto) for session in sessions if self.holder_of(session) is None}
        return {session: run for session, run in runs.items() if run}

    def sessions_of(self, numbers: Iterable[int]) -> set[str]:
        """The sessions of messages."""
        return {self.messages[number].session for number in numbers}

    def take(self, until: float, numbers: set[int], sessions: set[str]) -> Hold:
        """Lock sessions, and messages of them."""
        assert all(self.holder_of(session) is None for session in sessions), "a session has at most one holder"
        assert self.sessions_of(numbers) <= sessions
        hold = Hold(until, set(sessions), set(numbers))
        self.holds.append(hold)
        return hold

    def left_for(self, reservation: Reservation) -> set[int]:
        """What a reservation that expired can have again: what no one took and no one's session has."""
        available = self.available()
        return {n for n in reservation.content if n in available.get(self.messages[n].session, ())}

    def settle(self, hold: Hold, numbers: set[int], outcome: str) -> None:
        """Settle locked messages."""
        assert numbers <= hold.numbers
        hold.numbers -= numbers
        for number in numbers:
            if outcome == "abandon":
                self.count(number)
            else:
                self.messages[number].place = "gone" if outcome == "complete" else "dead"

    def count(self, number: int) -> None:
        """Count a delivery; too many dead-letter the message."""
        message = self.messages[number]
        message.count += 1
        if message.count >= self.max_delivery_count:
            message.place = "dead"

    def end(self, hold: Hold, *, counted: bool) -> None:
        """Free the sessions and messages of a hold."""
        self.holds.remove(hold)
        for number in hold.numbers if counted else ():
            self.count(number)

    def set_state(self, session: str, state: bytes | None) -> None:
        """Set or clear a state."""
        self.states.pop(session, None)
        if state is not None:
            self.states[session] = state

    def advance(self, seconds: float) -> None:
        """Let time pass; what expires counts a delivery."""
        self.now += seconds
        for hold in [hold for hold in self.holds if hold.until <= self.now]:
            self.end(hold, counted=True)


def in_bounds(number: int, upto: list[int]) -> bool:
    """True if the counter of a message is below the bound of its partition."""
    return number % (1 << COUNTER_BITS) < upto[number >> COUNTER_BITS]
