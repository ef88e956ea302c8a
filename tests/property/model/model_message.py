# SPDX-License-Identifier: Apache-2.0
"""A message of the naive model."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from datetime import datetime, timedelta

Place = Literal["ready", "deferred", "scheduled"]


@dataclass
class Message:
    """What the model knows of one message."""

    body: str
    session: str | None = None
    key: str | None = None
    properties: dict[str, object] = field(default_factory=dict)
    life: timedelta | None = None
    place: Place = "ready"
    count: int = 0
    enqueued_at: datetime | None = None
    due_at: datetime | None = None
    holder: object = None
    """Who has it: the received message, by identity."""
    held_until: datetime | None = None
    """None under the lock of a session, too."""
    reason: str | None = None

    def copy(self) -> Message:
        """The same message in another entity: nobody has held it there."""
        return replace(self, place="ready", count=0, holder=None, held_until=None)

    @property
    def partition_key(self) -> str | None:
        """What chooses the partition without duplicate detection (B-063)."""
        return self.session if self.session is not None else self.key

    def is_free(self) -> bool:
        """In the flow, and nobody has it."""
        return self.place == "ready" and self.holder is None

    def is_over(self, now: datetime) -> bool:
        """Whether its time to live has passed (B-246)."""
        return self.life is not None and self.enqueued_at is not None and self.enqueued_at + self.life <= now
