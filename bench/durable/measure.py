# SPDX-License-Identifier: Apache-2.0
"""One durable queue's share of a round, between two measurements of the disk.

A contender starts each round with an empty directory and a fresh server; opening and warming up are not timed.
The disk's append rate is measured right before and right after each, because other users of a disk come and go:
`ratio_to_append` is messages per second over appends per second.
`flushes_per_message` counts flushes of the whole device, so it is right only while no other process writes.
"""

from __future__ import annotations

import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from bodies import bodies_of
from metrics import RATE
from turns import Figures, Found

from durable import disk
from durable.sizes import LEAST_SECONDS, STEP, Sizes, long_enough, sizes_for
from durable.workload import both_sides, one_thread, warm_up

if TYPE_CHECKING:
    from collections.abc import Iterator

    from peers.line_up import Contender
    from plan import Plan

SCRATCH = Path(__file__).parents[1] / ".cache" / "data"
PROBE_SECONDS = 0.15
SECONDS = 0.5
"""How long sending and receiving take about; a hiccup of the disk is a small part of it."""
MOST = 200_000
"""The most messages that a contender gets; the quickest one in memory needs a third of a second for them."""


@dataclass(frozen=True)
class Shape:
    """Bodies of one length, and how many messages go with a call."""

    payload: str
    body_bytes: int
    name: str
    size: int

    def cases(self) -> dict[str, str]:
        """The cases that a round of it measures."""
        return {
            "send": f"send/{self.payload}/durable_{self.name}",
            "cycle": f"send_receive_complete/{self.payload}/durable_{self.name}",
            "both": f"send_receive_complete/{self.payload}/durable_2+2_{self.name}",
        }


SHAPES = tuple(
    Shape(payload, body_bytes, name, size)
    for payload, body_bytes in (("100B", 100), ("1KiB", 1024))
    for name, size in (("single", 1), ("batch_100", 100))
)


def sizes_of(contender: Contender, directory: Path, appends_per_s: float, plan: Plan) -> Sizes:
    """How many messages it gets; one by one, no fewer than `_messages_for` the disk."""
    found = sizes_for(contender, directory, SECONDS * plan.scale, plan.of(MOST, STEP))
    return Sizes(max(plan.of(_messages_for(appends_per_s), STEP), found.single), found.by_hundred)


def _messages_for(appends_per_s: float) -> int:
    """Return how many messages, one by one, take about one to a few seconds on this disk."""
    return max(STEP, min(2000, int(appends_per_s / 3)) // STEP * STEP)


def one_round(contender: Contender, directory: Path, shape: Shape, sizes: Sizes, plan: Plan) -> Iterator[Found]:
    """Sending, then the cycle, with one thread; then the cycle with two senders and two receivers."""
    bodies, least = bodies_of(shape.body_bytes, sizes.of(shape.size)), LEAST_SECONDS * plan.scale
    cases, name, level = shape.cases(), str(contender), contender.level.value
    with _Between(contender, directory, PROBE_SECONDS * plan.scale) as queue:
        passes = long_enough(lambda: one_thread(queue.opened, bodies, shape.size), lambda one: one[1], least)
    send_s, cycle_s = (sum(seconds) for seconds in zip(*passes, strict=True))
    messages = len(passes) * len(bodies)
    yield Found(cases["send"], name, queue.figures(messages, send_s, flushes=False), level)
    yield Found(cases["cycle"], name, queue.figures(messages, cycle_s), level)
    with _Between(contender, directory, PROBE_SECONDS * plan.scale) as queue:
        cycles = long_enough(lambda: both_sides(queue.opened, bodies, shape.size), float, least)
    yield Found(cases["both"], name, queue.figures(len(cycles) * len(bodies), sum(cycles)), level)


class _Between:
    """A fresh queue, open between two measurements of the disk."""

    def __init__(self, contender: Contender, directory: Path, probe_seconds: float) -> None:
        self._probe_seconds = probe_seconds
        self._contender = contender
        self._directory = directory

    def __enter__(self) -> Self:
        self._appends_per_s = [disk.appends_per_s(self._directory, self._probe_seconds)]
        self._folder = tempfile.TemporaryDirectory(dir=self._directory)
        self.opened = self._contender.open(Path(self._folder.name))
        warm_up(self.opened)
        self._flushes = [disk.flushes(self._directory)]
        return self

    def __exit__(self, *_: object) -> None:
        self._flushes.append(disk.flushes(self._directory))
        self.opened.close()
        self._folder.cleanup()
        self._appends_per_s.append(disk.appends_per_s(self._directory, self._probe_seconds))

    def figures(self, messages: int, seconds: float, *, flushes: bool = True) -> Figures:
        """Return the rate, set against the disk."""
        rate = messages / seconds
        found = {RATE: rate, "ratio_to_append": rate / statistics.mean(self._appends_per_s)}
        before, after = self._flushes
        if flushes and before is not None and after is not None:
            found["flushes_per_message"] = (after - before) / messages
        return found
