# SPDX-License-Identifier: Apache-2.0
"""Measures durable queues in turn, each between two looks at the disk.

A contender starts each round with an empty directory and a fresh server; opening and warming up are not timed.
The disk's append rate is measured right before and right after each, because other users of a disk come and go:
`ratio_to_append` is messages per second over appends per second.
`flushes_per_message` counts flushes of the whole device, so it is right only while nobody else writes.
"""

from __future__ import annotations

import statistics
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from bodies import bodies_of
from cases.bus import BATCH
from peers.contract import Level

from durable import disk
from durable.contenders import Contender, LineUp, line_up
from durable.sizes import STEP, Sizes, long_enough, sizes_for
from durable.workload import both_sides, one_thread, warm_up

if TYPE_CHECKING:
    from collections.abc import Iterator

SCRATCH = Path(__file__).parents[1] / ".cache" / "data"
PAYLOADS = {"100B": 100, "1KiB": 1024}
SHAPES = {"single": 1, "batch_100": BATCH}
PROBE_SECONDS = 0.15
SECONDS = 0.5
"""How long sending and receiving take about; a hiccup of the disk is a small part of it."""
MOST = 200_000
"""How many messages a contender gets at most: what the quickest does in memory in a third of a second."""
BY_HUNDRED = 5
"""How many times more messages go through by the hundred than one by one when their number is told."""

Figures = dict[str, float]


@dataclass
class Durable:
    """What a run found."""

    disk: dict[str, float | str]
    line_up: LineUp
    rounds: dict[tuple[str, Contender], list[Figures]]
    """What each round found, by bench id and contender."""

    def rows(self) -> list[dict[str, Any]]:
        """Return the medians, one row per bench id and contender."""
        found = []
        for (bench_id, contender), rounds in self.rounds.items():
            medians = {name: statistics.median(figures[name] for figures in rounds) for name in rounds[0]}
            row = {"id": bench_id, "contender": str(contender), "sync_mode": contender.level.value}
            found.append({**row, "latency_us_p50": None, "latency_us_p99": None, **medians})
        return found

    def ours(self, bench_id: str, figure: str) -> list[float]:
        """Return a figure of oxbus at the level `fsync`, round by round; empty when it was not measured."""
        return next((rounds for contender, rounds in self._synced(bench_id, figure) if contender.ours), [])

    def os_share(self) -> list[float]:
        """Return the rate of lists of 100 bodies of 100 bytes at the level `os` over that in memory, round by round."""
        rates = {
            contender.level: [figures["throughput_msg_per_s"] for figures in rounds]
            for (bench_id, contender), rounds in self.rounds.items()
            if contender.ours and bench_id == "send/100B/durable_batch_100"
        }
        if not {Level.OS, Level.MEMORY} <= rates.keys():
            return []
        return [one / other for one, other in zip(rates[Level.OS], rates[Level.MEMORY], strict=True)]

    def best_peer(self, bench_id: str, figure: str) -> list[float]:
        """Return the highest figure of the peers at the level `fsync`, round by round."""
        peers = [rounds for contender, rounds in self._synced(bench_id, figure) if not contender.ours]
        return [max(one) for one in zip(*peers, strict=True)]

    def _synced(self, bench_id: str, figure: str) -> Iterator[tuple[Contender, list[float]]]:
        for (its_id, contender), rounds in self.rounds.items():
            if its_id == bench_id and contender.level is Level.FSYNC and figure in rounds[0]:
                yield contender, [figures[figure] for figures in rounds]


def measure(rounds: int, directory: Path = SCRATCH, only: str = "", messages: int | None = None) -> Durable:
    """Measure the disk below `directory` and every contender that can run, in turn within each round.

    Args:
        rounds: How often each is measured; figures are medians.
        directory: Where all of them keep their files.
        only: Part of the name or level of those that take part.
        messages: How many go through one by one, five times as many by the hundred; None: as many as each contender
            does in half a second, one by one at least what suits the disk.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        place = Path(folder)
        found = Durable(disk.figures(place), line_up(place, only), defaultdict(list))
        sizes = {contender: _sizes(contender, place, found, messages) for contender in found.line_up.ready}
        for payload, body_bytes in PAYLOADS.items():
            for shape, size in SHAPES.items():
                for number in range(rounds):
                    turns = found.line_up.ready if number % 2 == 0 else reversed(found.line_up.ready)
                    for contender in turns:
                        bodies = bodies_of(body_bytes, sizes[contender].of(size))
                        for operation, threads, figures in _round(contender, place, bodies, size):
                            bench_id = f"{operation}/{payload}/durable_{threads}{shape}"
                            found.rounds[bench_id, contender].append(figures)
                counts = [one.of(size) for one in sizes.values()]
                print(f"measured {payload} {shape}: {min(counts):,} to {max(counts):,} messages, {rounds} rounds")
    return found


def _sizes(contender: Contender, place: Path, found: Durable, messages: int | None) -> Sizes:
    if messages is not None:
        return Sizes(messages, BY_HUNDRED * messages)
    fitting = sizes_for(contender, place, SECONDS, MOST)
    least = _messages_for(float(found.disk["append_fdatasync_per_s"]))
    return Sizes(max(least, fitting.single), fitting.by_hundred)


def _messages_for(appends_per_s: float) -> int:
    """Return how many messages one by one take a second or a few on this disk."""
    return max(STEP, min(2000, int(appends_per_s / 3)) // STEP * STEP)


def _round(contender: Contender, place: Path, bodies: list[bytes], size: int) -> Iterator[tuple[str, str, Figures]]:
    """Yield operation, threads and figures: sending, then the cycle, with one thread; the cycle with two and two."""
    with _Between(contender, place) as queue:
        passes = long_enough(lambda: one_thread(queue.opened, bodies, size), lambda one: one[1])
    send_s, cycle_s = (sum(seconds) for seconds in zip(*passes, strict=True))
    messages = len(passes) * len(bodies)
    yield "send", "", queue.figures(messages, send_s, flushes=False)
    yield "send_receive_complete", "", queue.figures(messages, cycle_s)
    with _Between(contender, place) as queue:
        cycles = long_enough(lambda: both_sides(queue.opened, bodies, size), float)
    yield "send_receive_complete", "2+2_", queue.figures(len(cycles) * len(bodies), sum(cycles))


class _Between:
    """A fresh queue, open between two looks at the disk."""

    def __init__(self, contender: Contender, place: Path) -> None:
        self._contender = contender
        self._place = place

    def __enter__(self) -> Self:
        self._appends_per_s = [disk.appends_per_s(self._place, PROBE_SECONDS)]
        self._folder = tempfile.TemporaryDirectory(dir=self._place)
        self.opened = self._contender.open(Path(self._folder.name))
        warm_up(self.opened)
        self._flushes = [disk.flushes(self._place)]
        return self

    def __exit__(self, *_: object) -> None:
        self._flushes.append(disk.flushes(self._place))
        self.opened.close()
        self._folder.cleanup()
        self._appends_per_s.append(disk.appends_per_s(self._place, PROBE_SECONDS))

    def figures(self, messages: int, seconds: float, *, flushes: bool = True) -> Figures:
        """Return the rate, set against the disk."""
        rate = messages / seconds
        found = {"throughput_msg_per_s": rate, "ratio_to_append": rate / statistics.mean(self._appends_per_s)}
        before, after = self._flushes
        if flushes and before is not None and after is not None:
            found["flushes_per_message"] = (after - before) / messages
        return found
