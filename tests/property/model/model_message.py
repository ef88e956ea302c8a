# SPDX-License-Identifier: Apache-2.0
"""A message of the naive model."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from datetime import datetime, timedelta

State = Literal["ready", "deferred", "scheduled"]


@dataclass
class Message:
    """The model's knowledge of one message."""

    body: str
    session: str | None = None
    key: str | None = None
    properties: dict[str, object] = field(default_factory=dict)
    life: timedelta | None = None
    state: State = "ready"
    count: int = 0
    enqueued_at: datetime | None = None
    due_at: datetime | None = None
    holder: object = None
    """The received message that holds the lock, compared by identity."""
    held_until: datetime | None = None
    """None also under a session lock."""
    reason: str | None = None

    def copy(self) -> Message:
        """A copy of the message for another entity, without a holder."""
        return replace(self, state="ready", count=0, holder=None, held_until=None)

    @property
    def partition_key(self) -> str | None:
        """The key of the message without duplicate detection (B-063)."""
        return self.session if self.session is not None else self.key

    def is_free(self) -> bool:
        """Whether the message is ready and not locked."""
        return self.state == "ready" and self.holder is None

    def is_over(self, now: datetime) -> bool:
        """Whether its time to live has passed (B-246)."""
        return self.life is not None and self.enqueued_at is not None and self.enqueued_at + self.life <= now
