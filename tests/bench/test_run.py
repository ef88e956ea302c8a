# SPDX-License-Identifier: Apache-2.0
"""The single runner: every suite and each part runs at a thousandth of its size and produces the figures of targets."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import report
import results_file
import run
import sdk_programs
from suites import SUITES, scratch

if TYPE_CHECKING:
    from results_file import Run

BENCH = Path(run.__file__)
TINY = ("--rounds", "1", "--scale", "0.001")
NEEDS_GO = {"network", "amqp"}
BESIDE = {"durable": "sqlite", "peers": "peeklock", "network": "echo", "amqp": "nobody", "client": "nobody"}
"""A contender of each suite that needs no external server."""

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(autouse=True)
def _in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep files of contenders out of the checkout."""
    monkeypatch.setattr(scratch, "SCRATCH", tmp_path / "scratch")


def cases_of(run: Run) -> set[str]:
    """The measured cases."""
    return {row.case for row in run.rows}


def judged_cases(suite: str) -> set[str]:
    """The cases of the targets of a suite."""
    return {target.case.format(word) for target in SUITES[suite].targets for word in target.worst_of}


def measured(suite: str, output: Path, *options: str) -> Run:
    """Run a part of a suite in this process, and read its result."""
    assert run.main(["--suite", suite, *TINY, "--output", str(output), *options]) == 0
    found = results_file.read(output)
    assert found.suites() == {suite}
    assert all(row.values and all(row.values.values()) for row in found.rows)
    return found


@pytest.mark.whole_suite
def test_core(tmp_path: Path) -> None:
    """Everything in memory, except cases that need a JVM."""
    parts = [option for part in SUITES["core"].parts if part != "spark" for option in ("--case", part)]
    found = measured("core", tmp_path / "core.json", *parts)
    assert cases_of(found) >= {case for case in judged_cases("core") if not case.startswith("spark_")}
    assert {row.point.axis for row in found.rows if row.point} >= {"threads", "batch", "body", "backlog", "sessions"}
    assert {verdict.suite for verdict in found.verdicts} == {"core"}


@pytest.mark.whole_suite
@pytest.mark.parametrize("suite", sorted(BESIDE))
def test_suite_beside_one_contender(suite: str, tmp_path: Path) -> None:
    """Oxbus runs every case of a target; the others are listed with their versions."""
    if suite in NEEDS_GO:
        sdk_programs.need("go")
    found = measured(suite, tmp_path / "queues.json", "--contender", BESIDE[suite])
    cases = cases_of(found)
    if suite == "durable":
        cases |= cases_of(measured(suite, tmp_path / "alone.json", "--case", "alone"))
    assert cases >= judged_cases(suite)
    facts = found.about[suite]
    assert set(facts) <= set(SUITES[suite].parts)
    assert all("oxbus" in known["versions"] for known in facts.values())


@pytest.mark.spark
@pytest.mark.whole_suite
@pytest.mark.parametrize("suite", [("core", "--case", "spark"), ("spark",)], ids=lambda suite: suite[0])
def test_spark_runs_in_a_separate_process(suite: tuple[str, ...], tmp_path: Path) -> None:
    """No other test has a session there."""
    output = tmp_path / "spark.json"
    subprocess.run([sys.executable, BENCH, "--suite", *suite, *TINY, "--output", output], check=True)
    assert cases_of(results_file.read(output)) >= {case for case in judged_cases(suite[0]) if "spark_" in case}


def test_case_is_a_part_or_a_word_of_the_ids(tmp_path: Path) -> None:
    """A word that names a part does not also select ids that contain it."""
    assert cases_of(measured("core", tmp_path / "1.json", "--case", "hash")) == {
        "partition_ids/16-36B/arrow_1m",
        "partition_ids/16-36B/list_1m",
    }
    found = measured("core", tmp_path / "2.json", "--case", "send/100B/batch_100", "--contender", "peeklock")
    assert {row.contender for row in found.rows} == {"oxbus", "ceiling (C)", "PeekLock in Python"}
    assert all("send/100B/batch_100" in case for case in cases_of(found))


def test_unknown_case_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """A word without a match would look like a run without findings."""
    assert run.main(["--case", "nothing like this", *TINY]) == 1
    assert "nothing is called nothing like this" in capsys.readouterr().out


def test_run_at_a_scale_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report would use its figures as real ones."""
    monkeypatch.setattr(results_file, "RESULTS", tmp_path)
    assert run.main(["--case", "hash", *TINY]) == 0
    assert list(tmp_path.iterdir()) == []


def test_run_is_compared_with_an_earlier_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A change is measured before and after it."""
    first = tmp_path / "first.json"
    measured("core", first, "--case", "hash")
    measured("core", tmp_path / "second.json", "--case", "hash", "--against", str(first))
    printed = capsys.readouterr().out
    assert "Against first.json" in printed
    assert "partition_ids/16-36B/arrow_1m by oxbus: throughput_msg_per_s" in printed
    assert "Of oxbus below 0.97: " in printed


@pytest.mark.whole_suite
def test_report_draws_every_table_of_peers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No committed result has all peers today."""
    monkeypatch.setattr(results_file, "RESULTS", tmp_path)
    monkeypatch.setattr("reporting.style.FOLDER", tmp_path)
    measured("peers", tmp_path / "1.json", "--contender", BESIDE["peers"])
    (found,) = results_file.newest_first()
    parts = report.peers("memory", found) | report.peers("fsync", found)
    assert {name: "| oxbus |" in "\n".join(lines) for name, lines in parts.items()} == {
        "peers-memory": True,
        "peers-synced": True,
    }
    assert sorted(file.name for file in tmp_path.glob("*.svg")) == [
        "peers-memory.svg",
        "peers-synced.svg",
        "peers-weight.svg",
    ]
