# SPDX-License-Identifier: Apache-2.0
"""Counts the processor's instructions on the hot paths, and compares them with those of the last baseline.

Counts are the same on a busy machine and a quiet one, so that CI can refuse a change that makes a path longer.
valgrind counts; what a case takes is the difference of two runs, so that starting and ending are left out.

    python bench/instructions.py             compare; a case that takes over 5 % more fails
    python bench/instructions.py --update    rewrite the baseline, after an intended change
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from peers.contract import UnavailableError
from peers.programs import Program, valgrind

ROOT = Path(__file__).parents[1]
BASELINE = Path(__file__).with_suffix(".json")
# Share by which a case may change before it counts as changed.
BAND = 0.05
ROUNDS = (2_000, 4_000)
BUILD = ("cargo", "bench", "-p", "oxbus-bench", "--bench", "instructions")


def main() -> int:
    """Compare or update; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--update", action="store_true", help="rewrite the baseline")
    update = parser.parse_args().update
    try:
        counter = valgrind()
    except UnavailableError as error:
        print(f"instructions cannot be counted: {error}")
        return 1
    program = _built()
    compiler = subprocess.run(["rustc", "--version"], check=True, capture_output=True, text=True).stdout.strip()
    names = subprocess.run([program], check=True, capture_output=True, text=True).stdout.split()
    counts = {name: _count(counter, program, name) for name in names}
    if update:
        BASELINE.write_text(
            json.dumps({"compiler": compiler, "instructions": counts}, indent=2) + "\n", encoding="utf-8"
        )
        print(f"wrote {BASELINE.relative_to(ROOT)}")
        return 0
    return _compare(json.loads(BASELINE.read_text(encoding="utf-8")), compiler, counts)


def _built() -> Path:
    """Build the program of the cases and return its file."""
    done = subprocess.run(
        [*BUILD, "--no-run", "--message-format=json"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    )
    files = (json.loads(line).get("executable") for line in done.stdout.splitlines())
    return Path(next(file for file in files if file and Path(file).name.startswith("instructions")))


def _count(counter: Program, program: Path, name: str) -> int:
    """Count the instructions of one round of a case."""
    few, many = (_instructions(counter, program, name, rounds) for rounds in ROUNDS)
    return round((many - few) / (ROUNDS[1] - ROUNDS[0]))


def _instructions(counter: Program, program: Path, name: str, rounds: int) -> int:
    done = subprocess.run(
        [counter.file, "--tool=callgrind", "--callgrind-out-file=/dev/null", program, name, str(rounds)],
        env=counter.environment | {"LC_ALL": "C"},
        check=True,
        capture_output=True,
        text=True,
    )
    found = re.search(r"Collected : (\d+)", done.stderr)
    if found is None:
        raise RuntimeError(f"valgrind counted nothing: {done.stderr[-500:]}")
    return int(found[1])


def _compare(baseline: dict[str, object], compiler: str, counts: dict[str, int]) -> int:
    """Print the counts beside the baseline; return 1 when one of them rose by more than the band."""
    before = baseline["instructions"]
    assert isinstance(before, dict)
    worse = []
    for name, count in counts.items():
        change = count / before[name] - 1 if name in before else 0.0
        note = "" if abs(change) <= BAND else " longer" if change > 0 else " shorter: --update keeps it so"
        if name not in before:
            note = " new: --update takes it in"
        if name not in before or change > BAND:
            worse.append(name)
        print(f"{name:24} {count:>9,} {change:+7.1%}{note}")
    if worse and baseline["compiler"] != compiler:
        print(f"not compared: the baseline is of {baseline['compiler']}, this is {compiler}; --update rewrites it")
        return 0
    if worse:
        print(f"longer than the baseline by more than {BAND:.0%}, or new: {', '.join(worse)}")
        print("shorten the path, or rewrite the baseline with --update and give the reason in the commit")
    return 1 if worse else 0


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
