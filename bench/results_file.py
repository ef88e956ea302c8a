# SPDX-License-Identifier: Apache-2.0
"""The one format of results: reads and writes the files of `bench/results`, which bench/README.md describes."""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import machine
from metrics import METRICS, RATE
from targets import CEILING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

RESULTS = Path(__file__).parent / "results"
ALL_BUT = 0.8
"""The share of the cases that makes a run a whole one, as cases come and go."""


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of the ratios within each round: noise of the machine affects both sides of each.

    A slow contender may take part in the first rounds only; then the ratio is of those.
    """
    return statistics.median(one / other for one, other in zip(ours, theirs, strict=False))


@dataclass(frozen=True)
class Point:
    """Where a case stands in a sweep; all cases of one axis take turns within each round."""

    axis: str
    """The parameter that varies: threads, batch, body."""
    at: int
    """Its value here."""
    line: str
    """The parameter that is constant along a line of the plot, beside the contender: `single`, `batch_100`."""


@dataclass
class Row:
    """Rates of one contender of a case, round by round."""

    suite: str
    case: str
    """`operation/payload/shape`."""
    contender: str
    level: str
    """The durability: `memory`, `os`, `fsync`."""
    values: dict[str, list[float]]
    """The rounds of each metric."""
    point: Point | None = None
    """None outside of sweeps."""
    percentiles: dict[str, float] | None = None
    """The distribution of the latencies of all rounds together."""

    def __getitem__(self, metric: str) -> float:
        return statistics.median(self.values[metric])

    def get(self, metric: str) -> float | None:
        """The median of a metric; None when the row has no such metric."""
        return self[metric] if metric in self.values else None

    def spread(self, metric: str = RATE) -> float:
        """Highest less lowest over the median: how far a figure can be trusted."""
        values, middle = self.values[metric], self[metric]
        return (max(values) - min(values)) / middle if middle else 0.0


@dataclass
class Verdict:
    """A target, and the figure that it was judged by."""

    suite: str
    target: str
    found: float
    wanted: float
    at_least: bool
    met: bool
    moonshot: float | None
    moonshot_met: bool | None


@dataclass
class Run:
    """One result file."""

    measured_at: str
    commit: str
    machine: dict[str, Any]
    noise: dict[str, float]
    rounds: dict[str, int]
    """By suite."""
    seconds: float
    about: dict[str, dict[str, dict[str, Any]]]
    """By suite and part: `disk`, `versions` of the contenders, and those `unavailable` with the reason."""
    verdicts: list[Verdict]
    rows: list[Row]
    file: str = field(default="", compare=False)
    """Its name, which is not part of it."""

    def of(self, case: str) -> list[Row]:
        """The contenders of a case."""
        return [row for row in self.rows if row.case == case]

    def sweep(self, axis: str) -> list[Row]:
        """The points of a sweep."""
        return [row for row in self.rows if row.point and row.point.axis == axis]

    def share_of_ceiling(self, row: Row, metric: str = RATE) -> float | None:
        """The share of the ceiling in the same rounds; None where there is no ceiling."""
        limit = next((one for one in self.of(row.case) if one.contender == CEILING), None)
        if limit is None or not row.values.keys() & limit.values.keys() & {metric}:
            return None
        return ratio(row.values[metric], limit.values[metric])

    def suites(self) -> set[str]:
        """The suites that it has rows of."""
        return {row.suite for row in self.rows}


@dataclass(frozen=True)
class Beginning:
    """The state of the machine when a run began."""

    about: dict[str, object]
    ticks: tuple[int, int]
    clock: float


def begin() -> Beginning:
    """Look at the machine before a run."""
    return Beginning(machine.description(), machine.cpu_ticks(), time.perf_counter())


def end(began: Beginning, run_of: dict[str, Any]) -> Run:
    """Put what was found into a run, with the state of the machine."""
    return Run(
        measured_at=datetime.now(tz=UTC).isoformat(timespec="seconds"),
        commit=machine.commit(),
        machine=dict(began.about),
        noise=machine.noise_since(began.ticks),
        seconds=round(time.perf_counter() - began.clock, 1),
        **run_of,
    )


def write(run: Run, file: Path | None = None) -> Path:
    """Write a run, into `bench/results` under the time it ended when no file is named."""
    if file is None:
        RESULTS.mkdir(exist_ok=True)
        file = RESULTS / f"{datetime.fromisoformat(run.measured_at):%Y%m%dT%H%M%SZ}.json"
    document = {one.name: getattr(run, one.name) for one in fields(run) if one.compare}
    lists = {"verdicts": [asdict(one) for one in run.verdicts], "rows": [_as_document(row) for row in run.rows]}
    text = json.dumps({**document, "verdicts": [], "rows": []}, indent=1, ensure_ascii=False)
    for name, found in lists.items():
        # A row is a line, so that files stay small and differences readable.
        lines = ",\n".join(f"  {json.dumps(one, ensure_ascii=False)}" for one in found)
        text = text.replace(f'"{name}": []', f'"{name}": [\n{lines}\n ]')
    file.write_text(text + "\n", encoding="utf-8")
    return file


def _as_document(row: Row) -> dict[str, Any]:
    unknown = row.values.keys() - METRICS.keys()
    if unknown:
        raise ValueError(f"bench/metrics.py does not know {', '.join(sorted(unknown))} of {row.case}")
    return {name: value for name, value in asdict(row).items() if value is not None}


def read(file: Path) -> Run:
    """Read a result file."""
    document = json.loads(file.read_text(encoding="utf-8"))
    rows = [Row(**{**one, "point": Point(**one["point"]) if "point" in one else None}) for one in document.pop("rows")]
    verdicts = [Verdict(**one) for one in document.pop("verdicts")]
    return Run(**document, rows=rows, verdicts=verdicts, file=file.name)


def newest_first() -> Iterator[Run]:
    """All result files."""
    return map(read, sorted(RESULTS.glob("*.json"), reverse=True))


def newest_with(suite: str, *prefixes: str) -> Run | None:
    """The newest run with nearly as many cases of these beginnings as any has: some runs are of one case."""
    found = [(run, [_cases(run, suite, prefix) for prefix in prefixes]) for run in newest_first()]
    if not found:
        return None
    most = [max(counts) for counts in zip(*[counts for _, counts in found], strict=True)]
    for run, counts in found:
        if all(had >= max(1, ALL_BUT * wanted) for had, wanted in zip(counts, most, strict=True)):
            return run
    return None


def _cases(run: Run, suite: str, prefix: str) -> int:
    return len({row.case for row in run.rows if row.suite == suite and row.case.startswith(prefix)})
