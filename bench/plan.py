# SPDX-License-Identifier: Apache-2.0
"""The options of a run: which cases and contenders it measures, how often, and at which share of the usual size."""

from __future__ import annotations

from dataclasses import dataclass

from targets import CEILING, OURS

OPEN_MESSAGES = 1_000_000


@dataclass(frozen=True)
class Plan:
    """The options that every suite shares; the default is a whole run."""

    parts: tuple[str, ...] = ()
    """Parts of a suite that run whole."""
    words: tuple[str, ...] = ()
    """Cases run whose id contains one of these; with neither parts nor words every case runs."""
    contenders: tuple[str, ...] = ()
    """Contenders take part whose name contains one of these, beside oxbus and the ceiling; empty: all."""
    rounds: int | None = None
    """None: as many as the suite usually has."""
    scale: float = 1.0
    """Below 1 for a check that a suite still runs: its figures mean nothing."""
    open_messages: int = OPEN_MESSAGES
    """Messages of the namespace in a store whose opening is measured."""

    @property
    def everyone(self) -> bool:
        """Whether no contender is left out, so that the best of the others is known."""
        return not self.contenders

    def wants(self, part: str, case: str) -> bool:
        """Whether a case of a part is measured."""
        if not self.parts and not self.words:
            return True
        return part in self.parts or any(word in case for word in self.words)

    def wants_contender(self, name: str) -> bool:
        """Whether a contender takes part."""
        if self.everyone or name.startswith(OURS) or name == CEILING:
            return True
        return any(one.lower() in name.lower() for one in self.contenders)

    def of(self, count: int, least: int = 1) -> int:
        """How many messages, keys or rows stand for `count` in this run."""
        return count if self.scale == 1 else max(min(least, count), int(count * self.scale))


WHOLE = Plan()
