# SPDX-License-Identifier: Apache-2.0
"""The audit of the fault suite: every acknowledgement of every client beside what was received and what is left.

A promise is broken if a message is *lost* (its send was acknowledged, nobody tried to remove it, and it is gone),
*forged* (nobody sent it, or it has other content), *returns* (its settlement was acknowledged, and it was handed out
later or is still there) or is *doubled* (one send left two copies).
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

CLOCK_SECONDS = 0.1
"""How far the time of a hand-out may be off: clocks tick in milliseconds, and a lock begins a bit later."""


class History:
    """What the clients logged, read while they work."""

    def __init__(self, logs: list[Path]) -> None:
        self._logs = dict.fromkeys(logs, 0)
        self._open: dict[tuple[Path, int], tuple[str, list[str], float]] = {}
        self.tried: Counter[str] = Counter()
        self.sent: set[str] = set()
        self.handed_out: list[tuple[str, bool, float, float]] = []
        self.leaving: set[str] = set()
        self.settled: dict[str, tuple[str, float]] = {}
        self.acknowledged: Counter[tuple[Path, str]] = Counter()
        self.failed = 0

    def read(self) -> None:
        """Read what was logged since the last time."""
        for log, position in self._logs.items():
            if not log.exists():
                continue
            with log.open("rb") as file:
                file.seek(position)
                whole, _, rest = file.read().rpartition(b"\n")
                self._logs[log] = file.tell() - len(rest)
            for line in whole.splitlines():
                self._take(log, *json.loads(line))

    def _take(self, log: Path, what: str, name: int, *more: Any) -> None:
        if what == "try":
            verb, uids, at = more
            self._open[log, name] = (verb, uids, at)
            if verb == "send":
                self.tried.update(uids)
            elif verb == "complete":
                self.leaving.update(uids)
            return
        verb, uids, began = self._open.pop((log, name))
        if what == "fail":
            self.failed += 1
            return
        found, at = more
        self.acknowledged[log, verb] += 1
        if verb == "send":
            self.sent.update(uids)
        elif verb == "receive":
            self.handed_out += [(uid, is_as_sent, handed_out, began) for uid, is_as_sent, handed_out in found]
        elif verb in {"complete", "dead_letter"}:
            self.settled.update(dict.fromkeys(uids, (verb, at)))


def violations(
    history: History, left: Iterable[tuple[str, bool]], dead: Iterable[tuple[str, bool]]
) -> dict[str, list[str]]:
    """Return the broken promises by kind, given the messages that are left in the queues and as dead letters."""
    left, dead = list(left), list(dead)
    there = Counter(uid for uid, _ in [*left, *dead])
    seen = [(uid, is_as_sent) for uid, is_as_sent, _, _ in history.handed_out] + left + dead
    broken: dict[str, list[str]] = {
        "lost": sorted(history.sent - history.leaving - there.keys()),
        "forged": sorted({uid for uid, is_as_sent in seen if not history.tried[uid] or not is_as_sent}),
        "doubled": sorted(uid for uid, copies in there.items() if copies > 1),
    }
    alive = {uid for uid, _ in left}
    dead_letters = {uid for uid, _ in dead}
    returned = set()
    for uid, (verb, _) in history.settled.items():
        if uid in alive or (verb == "complete" and uid in dead_letters):
            returned.add(f"{uid}: left after {verb}")
        if verb == "dead_letter" and uid not in dead_letters:
            broken["lost"].append(f"{uid}: no dead letter")
    for uid, _, handed_out, began in history.handed_out:
        verb, at = history.settled.get(uid, ("", float("inf")))
        # A client that noticed late that its connection ended may show what it was handed before.
        if began > at and handed_out > at + CLOCK_SECONDS:
            returned.add(f"{uid}: handed out {handed_out - at:.3f} s after {verb}")
    return {**broken, "returned": sorted(returned)}
