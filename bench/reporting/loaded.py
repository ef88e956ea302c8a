# SPDX-License-Identifier: Apache-2.0
"""Result files as the report reads them: each table and plot comes from one run, the newest that has all of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import results_file

if TYPE_CHECKING:
    from collections.abc import Iterator

Row = dict[str, Any]
RATE = "throughput_msg_per_s"
ALL_BUT = 0.8
"""The share of the ids that makes a run a whole one, as cases come and go."""


@dataclass(frozen=True)
class Run:
    """One result file."""

    document: dict[str, Any]

    @property
    def file(self) -> str:
        """Its name."""
        return str(self.document["file"])

    @property
    def rows(self) -> list[Row]:
        """What was measured."""
        return [row for row in self.document["results"] if "id" in row]

    @property
    def judged(self) -> list[Row]:
        """What was judged."""
        return [row for row in self.document["results"] if "target" in row]

    def of(self, bench_id: str) -> list[Row]:
        """The contenders of an id."""
        return [row for row in self.rows if row["id"] == bench_id]

    def sweep(self, axis: str) -> list[Row]:
        """The points of a sweep."""
        return [row for row in self.rows if row.get("sweep") == axis]

    def about(self) -> str:
        """One line that says when, where and how quiet."""
        machine, noise = self.document["machine"], self.document.get("noise", {})
        stolen = f", {100 * noise['stolen_share']:.1f} % of the time stolen by other guests" if noise else ""
        load = f", load {machine['load_before']:.1f} before"
        return (
            f"`bench/results/{self.file}`: commit `{self.document['commit']}`, {machine['processor']}, "
            f"{machine['cores']} cores, Python {machine['python']}, {self.document['rounds']} rounds{load}{stolen}."
        )


def runs(kind: str) -> Iterator[Run]:
    """The runs of a kind, newest first."""
    for document in results_file.newest_first(kind):
        yield Run(document)


def newest_with(kind: str, *prefixes: str) -> Run | None:
    """The newest run of a kind that measured nearly as many ids with these beginnings as any: some are of one case."""
    found = [(run, [_ids(run, prefix) for prefix in prefixes]) for run in runs(kind)]
    if not found:
        return None
    most = [max(counts) for counts in zip(*[counts for _, counts in found], strict=True)]
    for run, counts in found:
        if all(had >= max(1, ALL_BUT * wanted) for had, wanted in zip(counts, most, strict=True)):
            return run
    return None


def _ids(run: Run, prefix: str) -> int:
    return len({row["id"] for row in run.rows if row["id"].startswith(prefix)})


def spread_of(row: Row, figure: str = RATE) -> tuple[float, float]:
    """How far the lowest and the highest round are from the median."""
    values, middle = row["rounds"][figure], row[figure]
    return max(0.0, middle - min(values)), max(0.0, max(values) - middle)
