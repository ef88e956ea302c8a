# SPDX-License-Identifier: Apache-2.0
"""Measures oxbus beside its limits and its peers, prints how they compare, and keeps it as JSON.

    python bench/run.py                                    the suite `core`: everything that lives in memory
    python bench/run.py --suite peers --suite amqp         other suites
    python bench/run.py --case hash                        one part of a suite
    python bench/run.py --case batch_100                   every case whose id has this word
    python bench/run.py --suite peers --contender redis    one peer beside ours and the ceiling
    python bench/run.py --against                          beside the newest result of this machine

The contenders of one case take turns within each round, so a busy machine slows all of them.
Figures are medians over the rounds; ratios are medians of the ratios within a round.
Servers that are not installed are fetched into bench/.cache, started on free loopback ports and stopped by their pid.
Cases that cannot run here are listed with the reason.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import against
import results_file
from judge import judge
from plan import OPEN_MESSAGES, Plan
from results_file import Row, Run, Verdict
from suites import DEFAULT, SUITES
from turns import in_turns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suites import Suite

NEWEST = "newest"


def measure(suite: Suite, plan: Plan) -> tuple[list[Row], dict[str, dict[str, Any]]]:
    """Run what the plan wants of a suite; return the rows, and what a reader needs to know of each part."""
    rows: list[Row] = []
    about: dict[str, dict[str, Any]] = {}
    rounds = plan.rounds or suite.rounds
    for part in suite.parts.values():
        for group in part(plan):
            wanted = [turn for turn in group.turns if plan.wants_contender(turn.contender)]
            found = in_turns(suite.name, replace(group, turns=wanted), rounds, warm=plan.scale == 1)
            show(found)
            rows += found
            if facts := group.about():
                about[group.part] = facts
    return rows, about


def show(rows: Sequence[Row]) -> None:
    """Print rows that were measured together."""
    together = Run("", "", {}, {}, {}, 0, {}, [], list(rows))
    for row in rows:
        cells = [f"{metric} {_short(row[metric])} ±{50 * row.spread(metric):.0f}%" for metric in row.values]
        share = together.share_of_ceiling(row)
        cells += [f"of the ceiling {share:.2f}"] if share is not None else []
        print(f"{row.case:45} {row.contender:24} {'  '.join(cells)}", flush=True)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1e3 else f"{value:.4g}"


def plan_of(options: argparse.Namespace, suites: Sequence[Suite]) -> Plan:
    """The selected cases: a word that names a part selects that part, any other word matches within ids."""
    parts = {part for suite in suites for part in suite.parts}
    words = options.case or []
    return Plan(
        parts=tuple(word for word in words if word in parts),
        words=tuple(word for word in words if word not in parts),
        contenders=tuple(options.contender or ()),
        rounds=options.rounds,
        scale=options.scale,
        open_messages=options.open_messages,
    )


def run(suites: Sequence[Suite], plan: Plan) -> Run:
    """Measure and judge."""
    began = results_file.begin()
    rows: list[Row] = []
    verdicts: list[Verdict] = []
    about: dict[str, dict[str, dict[str, Any]]] = {}
    for suite in suites:
        started = time.perf_counter()
        found, facts = measure(suite, plan)
        print(f"\nTargets of the suite {suite.name}, which took {time.perf_counter() - started:.0f} s")
        verdicts += judge(suite.name, suite.targets, found, everyone=plan.everyone)
        rows += found
        if facts:
            about[suite.name] = facts
        for part, known in facts.items():
            for name, reason in known["unavailable"].items():
                print(f"not in {suite.name}, {part}: {name}: {reason}")
    rounds = {suite.name: plan.rounds or suite.rounds for suite in suites}
    return results_file.end(began, {"rounds": rounds, "about": about, "verdicts": verdicts, "rows": rows})


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    suites = "; ".join(f"{name}: {suite.text}" for name, suite in SUITES.items())
    parser.add_argument("--suite", action="append", choices=SUITES, help=f"repeatable; {DEFAULT} by default. {suites}")
    parser.add_argument("--case", action="append", help="a part of a suite, or of the ids of cases; repeatable")
    parser.add_argument("--contender", action="append", help="a part of a name; oxbus always runs; repeatable")
    parser.add_argument("--rounds", type=int, help="5 in memory and through Spark, else 3")
    parser.add_argument("--against", nargs="?", const=NEWEST, help="a result file; else this machine's newest")
    parser.add_argument("--output", type=Path, help="write the result there instead of into bench/results")
    parser.add_argument("--no-save", action="store_true", help="write no result")
    parser.add_argument(
        "--scale", type=float, default=1, help="a share of the messages, to see that it runs: the figures mean nothing"
    )
    parser.add_argument(
        "--open-messages", type=int, default=OPEN_MESSAGES, help="messages that `open` of the suite stored opens with"
    )
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """Run what was asked for, print it, compare it, keep it."""
    options = arguments().parse_args(words)
    suites = [SUITES[name] for name in options.suite or [DEFAULT]]
    # A file that cannot be read is an error before anything is measured.
    earlier = results_file.read(Path(options.against)) if options.against not in {None, NEWEST} else None
    found = run(suites, plan_of(options, suites))
    if not found.rows:
        print(f"nothing is called {' or '.join(options.case or [])}; bench/README.md names the cases")
        return 1
    if options.against:
        earlier = earlier or against.newest_like(found)
        print(against.text(found, earlier) if earlier else "no earlier result of this machine has any of these cases")
    if options.output or not (options.no_save or options.scale != 1):
        print(f"\nwritten to {results_file.write(found, options.output)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
