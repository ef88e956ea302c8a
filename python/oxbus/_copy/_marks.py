# SPDX-License-Identifier: Apache-2.0
"""The marks of entities that are being copied, in their `user_metadata`."""

from __future__ import annotations

from enum import Enum
from typing import Final

_BEGINNING: Final = "oxbus copy: "


class Mark(Enum):
    """The step that an entity has reached."""

    DEAD_LETTERS = "copies dead letters"
    """All its active messages are to become dead letters."""
    MESSAGES = "copies messages"
    COPIED = "waits for other entities"

    @property
    def text(self) -> str:
        """The mark as `user_metadata`."""
        return f"{_BEGINNING}{self.value}"


def mark_of(user_metadata: str | None) -> Mark | None:
    """Return the mark of an entity that is being copied, else None."""
    text = user_metadata or ""
    return next((mark for mark in Mark if mark.text == text), None)
