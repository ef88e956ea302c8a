# SPDX-License-Identifier: Apache-2.0
"""The counts of a copy, and the function that a copy calls to show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass
class Counts:
    """What was copied of an entity.

    Attributes:
        messages: Messages that are in the target, those of an earlier run included.
        dead_letters: The same for dead letters.
        session_states: Sessions whose state was set.
        expired: Messages that had expired, and were left out.
        were_deferred: Messages that were deferred, and are active in the target: their numbers changed.
        left: Messages that stay in the source: dead letters of forwarding, and what a topic is to send later.
    """

    messages: int = 0
    dead_letters: int = 0
    session_states: int = 0
    expired: int = 0
    were_deferred: int = 0
    left: int = 0


class Progress(Protocol):
    """Is told about each step."""

    def __call__(self, path: str, counts: Counts) -> None:
        """Show what was copied of an entity so far."""
