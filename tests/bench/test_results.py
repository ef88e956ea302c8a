# SPDX-License-Identifier: Apache-2.0
"""The single format of results: they are written, read, judged, compared and reported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import against
import pytest
import report
import results_file
from judge import judge
from metrics import P50, P99, RATE
from reporting import asyncio_table, readme_tables, tables
from results_file import Point, Row, Run, Verdict, newest_with
from targets import ASYNCIO, BEST, CEILING, NOTHING, OURS, PEEKLOCK, PEEKLOCK_TASKS, THREADS, WAKE_UP, Target

if TYPE_CHECKING:
    from pathlib import Path

SINGLE = "send_receive_complete/1KiB/single"
MACHINE = {"processor": "one", "cores": 2, "memory": "8000000 kB", "python": "3", "load_before": 0.0}


def row(case: str, contender: str, *rates: float, level: str = "memory", metric: str = RATE) -> Row:
    """A row of a result, with the rounds of one metric."""
    return Row("core", case, contender, level, {metric: list(rates)})


def run(*rows: Row, **head: Any) -> Run:
    """A result."""
    known: dict[str, Any] = {"measured_at": "2026-11-24T04:07:21+00:00", "commit": "c", "machine": MACHINE}
    rest: dict[str, Any] = {"noise": {}, "rounds": {"core": 3}, "seconds": 1.0, "about": {}, "verdicts": []}
    return Run(**{**known, **rest, "rows": list(rows), **head})


def target(**options: Any) -> Target:
    """A target of the single cycle."""
    return Target(**{"case": SINGLE, "text": "a text", "wanted": 1.0, **options})


def test_share_of_the_ceiling_is_that_of_the_rounds_that_both_took_part_in() -> None:
    """A slow contender takes part in the first round only."""
    slow = row(SINGLE, PEEKLOCK, 2.0)
    assert run(slow, row(SINGLE, CEILING, 4.0, 8.0, 16.0)).share_of_ceiling(slow) == pytest.approx(0.5)


def test_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Rows of sweeps and of distributions, verdicts, and the versions of the peers."""
    point, percentiles = Point("threads", 4, "single"), {"50": 1.0}
    verdict = Verdict("core", "a text", 1.0, 2.0, at_least=True, met=False, moonshot=None, moonshot_met=None)
    about = {"durable": {"queues": {"disk": {"file_system": "ext4"}, "versions": {}, "unavailable": {"a": "no"}}}}
    rows = [row(SINGLE, OURS, 1.0, 2.0), Row("core", "sweep", OURS, "os", {P50: [1.0]}, point, percentiles)]
    written = run(*rows, verdicts=[verdict], about=about)
    file = results_file.write(written, tmp_path / "result.json")
    found = results_file.read(file)
    assert found == written
    assert found.file == "result.json"
    assert sum(line.startswith('  {"suite"') for line in file.read_text(encoding="utf-8").splitlines()) == 3


def test_metric_without_a_unit_is_refused(tmp_path: Path) -> None:
    """A reader would not know whether a higher value is better."""
    with pytest.raises(ValueError, match="does not know speed"):
        results_file.write(run(row(SINGLE, OURS, 1.0, metric="speed")), tmp_path / "result.json")


def test_committed_results_are_of_the_one_format() -> None:
    """The pages use them."""
    assert {suite for found in results_file.newest_first() for suite in found.suites()} >= {"core", "durable", "amqp"}


def test_run_of_one_case_does_not_hide_a_complete_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest file with nearly all cases counts."""
    monkeypatch.setattr(results_file, "RESULTS", tmp_path)
    assert newest_with("core", "send") is None
    results_file.write(run(row("send/a", OURS, 1.0), row("send/b", OURS, 1.0)), tmp_path / "1.json")
    results_file.write(run(row("send/a", OURS, 1.0)), tmp_path / "2.json")
    assert getattr(newest_with("core", "send/"), "file", "") == "1.json"
    assert newest_with("core", "receive/") is None
    assert newest_with("peers", "send/") is None


def found_by(judged: Target, *rows: Row, everyone: bool = True) -> float | None:
    """The figure by which a target was judged."""
    verdicts = judge("core", [judged], rows, everyone=everyone)
    return verdicts[0].found if verdicts else None


def test_target_is_judged_in_pairs_of_rounds() -> None:
    """The median of the ratios, not the ratio of the medians; without other contenders, the median."""
    rows = [row(SINGLE, OURS, 2.0, 9.0, 4.0), row(SINGLE, PEEKLOCK, 1.0, 3.0, 4.0)]
    assert found_by(target(peer=PEEKLOCK), *rows) == 2.0
    assert found_by(target(), *rows) == 4.0
    assert found_by(target(peer=CEILING), *rows) is None
    assert found_by(target(contender="nobody"), *rows) is None


def test_best_of_the_others_is_chosen_for_each_round_and_level() -> None:
    """Without all contenders the best is unknown."""
    synced = [row(SINGLE, name, *rates, level="fsync") for name, rates in (("a", (1.0, 4.0)), ("b", (2.0, 1.0)))]
    rows = [row(SINGLE, OURS, 4.0, 4.0, level="fsync"), *synced, row(SINGLE, "c", 99.0, 99.0)]
    assert found_by(target(peer=BEST), *rows) == 1.5
    assert found_by(target(peer=BEST, at_least=False), *rows) == 4.0
    assert found_by(target(peer=BEST), *rows, everyone=False) is None


def test_difference_and_the_worst_of_several_cases() -> None:
    """The extra time of a batch with a backlog; the rate that a backlog slows most."""
    rows = [row(SINGLE, OURS, 9.0, 7.0, metric="batch_ms"), row(SINGLE, NOTHING, 2.0, 2.0, metric="batch_ms")]
    added = target(peer=NOTHING, difference=True, metric="batch_ms", at_least=False)
    assert found_by(added, *rows) == 6.0
    both = target(case="{}/large", peer_case="{}/small", peer=OURS, worst_of=("send", "receive"))
    rates = {"send/small": 2.0, "send/large": 1.0, "receive/small": 4.0}
    assert found_by(both, *[row(case, OURS, rate) for case, rate in rates.items()]) is None
    rates["receive/large"] = 1.0
    assert found_by(both, *[row(case, OURS, rate) for case, rate in rates.items()]) == 0.25


def test_run_against_an_earlier_one_names_regressions() -> None:
    """Less than 1 is worse for every metric; a slower machine shows in the ceiling."""
    earlier = run(row(SINGLE, OURS, 100.0), row(SINGLE, CEILING, 200.0), row(WAKE_UP, OURS, 10.0, metric=P50))
    now = run(
        row(SINGLE, OURS, 98.0),
        row(SINGLE, CEILING, 100.0),
        Row("core", WAKE_UP, OURS, "memory", {P50: [20.0], P99: [1.0]}),
    )
    found = {(one.case, one.contender, metric): value for one, metric, value in against.ratios(now, earlier)}
    assert found == {(SINGLE, OURS, RATE): 0.98, (SINGLE, CEILING, RATE): 0.5, (WAKE_UP, OURS, P50): 0.5}
    text = against.text(now, earlier)
    assert f"{SINGLE} by {OURS}: {RATE}  of the ceiling 1.960" in text
    assert text.endswith(f"Of oxbus below 0.97: 1\n 0.500  {WAKE_UP} by {OURS}: {P50}")
    assert against.text(now, now).endswith("Of oxbus below 0.97: 0, nothing")


def test_newest_result_of_the_same_machine_is_compared_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rate of another machine is not comparable."""
    monkeypatch.setattr(results_file, "RESULTS", tmp_path)
    now = run(row(SINGLE, OURS, 1.0))
    assert against.newest_like(now) is None
    results_file.write(now, tmp_path / "1.json")
    results_file.write(run(row(SINGLE, OURS, 1.0), machine={**MACHINE, "cores": 4}), tmp_path / "2.json")
    results_file.write(run(row("another/case", OURS, 1.0)), tmp_path / "3.json")
    assert getattr(against.newest_like(now), "file", "") == "1.json"
    other = run(row(SINGLE, OURS, 1.0), machine={**MACHINE, "processor": "another"})
    assert "another machine" in against.text(other, now)


def test_reports_omit_cases_that_skip_bodies() -> None:
    """The omitted cases stay in the result file."""
    found = run(row("send_receive_complete/100B/single", OURS, 1e6), row(f"{SINGLE}_unread", OURS, 9e6))
    shown = "\n".join([*tables.cases(found), *readme_tables.in_memory(found)])
    assert "1 M" in shown
    assert "9 M" not in shown


def test_tasks_are_shown_beside_threads_in_a_table_of_their_own() -> None:
    """The ratio is of the same rounds, and the table of the cases leaves them out."""
    case = f"{ASYNCIO}100B/batch_100"
    found = run(row(case, OURS, 9e5, 6e5, 8e5), row(case, THREADS, 1e6, 1e6, 1e6), row(case, PEEKLOCK_TASKS, 5e5))
    shown = asyncio_table.beside_threads(found)
    assert [line for line in shown if "oxbus" in line] == [
        "| `oxbus.aio` |  | 800 k (0.80) |  |  |",
        "| oxbus by threads |  | 1 M |  |  |",
    ]
    assert case not in "\n".join(tables.cases(found))


def test_targets_show_the_newest_figure_of_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From any run; a text that is no longer a target is omitted."""
    monkeypatch.setattr(results_file, "RESULTS", tmp_path)
    assert tables.targets() == ["No run has judged a target yet: `make bench`."]
    known = "partition_ids of an Arrow array / ceiling"
    for name, text, value in (("1", known, 0.5), ("2", known, 0.9), ("3", "a text of before", 1.0)):
        verdict = Verdict("core", text, value, 0.85, at_least=True, met=True, moonshot=None, moonshot_met=None)
        results_file.write(run(verdicts=[verdict]), tmp_path / f"{name}.json")
    shown = tables.targets()
    assert shown[0] == "1 of 1 met, 0 missed. The runs: [1] `2.json`."
    assert f"| {known} | ≥ 0.85 | 0.9 | met | [1] |" in shown


def test_readme_shows_ratios_of_the_same_rounds(tmp_path: Path) -> None:
    """A part without a measurement is marked so, and keeps no earlier figure."""
    rates = [row(SINGLE, name, rate) for name, rate in ((OURS, 5e5), (PEEKLOCK, 4e5), (CEILING, 5e5 / 0.38))]
    woken = [
        Row("core", WAKE_UP, name, "memory", {P50: [p50], P99: [60.0]})
        for name, p50 in ((OURS, 22.0), (PEEKLOCK, 18.0))
    ]
    page = tmp_path / "page.md"
    part = "<!-- report: {} -->\n4.46\n<!-- end of report -->\n"
    page.write_text(part.format("speed") + part.format("other"), encoding="utf-8")
    report.fill([page], {"speed": readme_tables.in_memory(run(*rates, *woken))})
    found = page.read_text(encoding="utf-8")
    assert "| one by one, 1 KiB | 500 k | 1.25 | 0.38 |" in found
    assert "22 µs (p50) or 60 µs (p99) after the send; with the hand-written queue 18 µs (p50) or 60 µs (p99)" in found
    assert report.NOT_MEASURED[0] in found
    assert "4.46" not in found
    with pytest.raises(SystemExit, match="no page has a place for speed-on-disk"):
        report.fill([page], {"speed-on-disk": []})
