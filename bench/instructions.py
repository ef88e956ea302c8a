# SPDX-License-Identifier: Apache-2.0
"""Counts the processor's instructions on the hot paths, and compares them with those of the last baseline.

Counts are the same on a busy machine and a quiet one, so that CI can refuse a change that makes a path longer.
valgrind counts. What a case in Rust takes is the difference of two runs, so that starting and ending are left out.
The paths through Python are in `counted.py`, which marks what counts; they are counted with the extension that is
installed, and each profile of it has a baseline.

    python bench/instructions.py                  compare; a case that takes over 5 % more fails
    python bench/instructions.py --update         rewrite the baseline, after an intended change
    python bench/instructions.py --profile dev    the installed extension is a dev build
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from peers.contract import UnavailableError
from peers.programs import Program, valgrind

Counts = dict[str, Any]

ROOT = Path(__file__).parents[1]
BASELINE = Path(__file__).with_suffix(".json")
COUNTED = Path(__file__).with_name("counted.py")
# Share by which a case may change before it counts as changed.
BAND = 0.05
ROUNDS = (2_000, 4_000)
# What `counted.py` calls where a counted part begins or ends, and its rounds.
MARK, COUNTED_ROUNDS = "getppid", 20
BUILD = ("cargo", "bench", "-p", "oxbus-bench", "--bench", "instructions")


def main() -> int:
    """Compare or update; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--update", action="store_true", help="rewrite the baseline")
    parser.add_argument("--profile", default="release", help="how the installed extension was built")
    options = parser.parse_args()
    try:
        counter = valgrind()
    except UnavailableError as error:
        print(f"instructions cannot be counted: {error}")
        return 1
    program = _built()
    compiler = subprocess.run(["rustc", "--version"], check=True, capture_output=True, text=True).stdout.strip()
    names = subprocess.run([program], check=True, capture_output=True, text=True).stdout.split()
    counts = {name: _count(counter, program, name) for name in names}
    of_python = {"interpreter": sys.version, "instructions": _count_python(counter)}
    baseline = json.loads(BASELINE.read_text(encoding="utf-8"))
    if options.update:
        python = {**baseline.get("python", {}), options.profile: of_python}
        baseline = {"compiler": compiler, "instructions": counts, "python": dict(sorted(python.items()))}
        BASELINE.write_text(json.dumps(baseline, indent=2) + "\n", encoding="utf-8")
        print(f"wrote {BASELINE.relative_to(ROOT)}")
        return 0
    return _compare(baseline, options.profile, {"compiler": compiler, "instructions": counts}, of_python)


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


def _count_python(counter: Program) -> dict[str, int]:
    """Count the instructions of one round of each path through Python, in one run."""
    program = [sys.executable, str(COUNTED)]
    names = subprocess.run(program, check=True, capture_output=True, text=True).stdout.split()
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder) / "part"
        tool = [str(counter.file), "--tool=callgrind", f"--callgrind-out-file={files}", f"--dump-before={MARK}"]
        # Dictionaries of strings are in the same order each time, and memory for bodies comes from the thread's own
        # list, whatever was allocated before.
        steady = {"PYTHONHASHSEED": "0", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=1000"}
        environment = counter.environment | {"LC_ALL": "C", **steady}
        subprocess.run([*tool, *program, *names], env=environment, check=True, capture_output=True)
        parts = [_part(Path(f"{files}.{number}")) for number in range(1, 2 * len(names) + 1)]
    # Each part ends at a mark, so every second one is the work of a case.
    return {name: round(part / COUNTED_ROUNDS) for name, part in zip(names, parts[1::2], strict=True)}


def _part(file: Path) -> int:
    """Return the instructions between two marks."""
    pattern = rf"(?ms)^desc: Trigger: --dump-before={MARK}$.*^totals: (\d+)$"
    found = re.search(pattern, file.read_text(encoding="utf-8"))
    if found is None:
        raise RuntimeError(f"valgrind wrote no part that ends at {MARK}: {file.name}")
    return int(found[1])


def _compare(baseline: Counts, profile: str, rust: Counts, python: Counts) -> int:
    """Print the counts beside the baseline; return 1 when one of them rose by more than the band."""
    found = [_worse(baseline, rust, "compiler")]
    if of_profile := baseline.get("python", {}).get(profile):
        found.append(_worse(of_profile, python, "interpreter"))
    else:
        _worse(python, python, "interpreter")
        print(f"not compared: there is no baseline of the {profile} profile for Python; --update makes one")
    if worse := [name for names in found for name in names]:
        print(f"longer than the baseline by more than {BAND:.0%}, or new: {', '.join(worse)}")
        print("shorten the path, or rewrite the baseline with --update and give the reason in the commit")
    return 1 if worse else 0


def _worse(baseline: Counts, now: Counts, made_by: str) -> list[str]:
    """Print the counts of one kind; return the names of those that rose, if the same program made both."""
    before, worse = baseline["instructions"], []
    for name, count in now["instructions"].items():
        change = count / before[name] - 1 if name in before else 0.0
        note = "" if abs(change) <= BAND else " longer" if change > 0 else " shorter: --update keeps it so"
        if name not in before:
            note = " new: --update takes it in"
        if name not in before or change > BAND:
            worse.append(name)
        print(f"{name:28} {count:>9,} {change:+7.1%}{note}")
    if worse and baseline[made_by] != now[made_by]:
        print(f"not compared: the baseline is of {baseline[made_by]}, this is {now[made_by]}; --update rewrites it")
        return []
    return worse


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
