# SPDX-License-Identifier: Apache-2.0
"""Any single wrong message makes the demo fail.

A few made-up flights go through a real queue.
For each kind of fault, a client between demo and queue causes it once.
"""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import oxbus
import pyarrow as pa
import pytest
from oxbus.demo import aircraft_sessions, carrier_topic, exchange, main, run
from oxbus.demo.checks import Check
from oxbus.demo.encoded import PARTITIONS, SCHEMA, EncodedFlights
from oxbus.demo.flights import InputMissingError
from oxbus.demo.report import Report, Runs, print_report
from oxbus.demo.scenarios import ScenarioResult
from rich.console import Console
from rich.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from oxbus.demo.progress_log import ProgressLog

FLIGHTS, AIRCRAFT, BATCHES = 600, 25, 3
KEYLESS = FLIGHTS // 30


def cargo(*, spark_partition_of: Callable[[int], int | None] | None = None) -> EncodedFlights:
    """Made-up flights as the Spark stage returns them, every thirtieth without a tail number."""
    tails = [None if row % 30 == 0 else f"N{row % AIRCRAFT:05}" for row in range(FLIGHTS)]
    partitions = [None if tail is None else oxbus.partition_id(tail, PARTITIONS) for tail in tails]
    if spark_partition_of is not None:
        partitions = [spark_partition_of(row) if tail else None for row, tail in enumerate(tails)]
    table = pa.table(
        {
            "message_id": [f"flight-{row}" for row in range(FLIGHTS)],
            "partition_key": tails,
            "body": [b'{"flight":%d,"carrier":"UA","origin":"JFK","dest":"SEA"}' % row for row in range(FLIGHTS)],
            "spark_partition": partitions,
        },
        schema=SCHEMA,
    )
    return EncodedFlights(table.to_batches(max_chunksize=FLIGHTS // BATCHES), FLIGHTS, KEYLESS)


class Tampering:
    """Forwards all calls, and changes columns that are sent or received."""

    def __init__(self, inner: Any, *, out: Callable[[pa.Table], pa.Table], into: Callable[[Any], Any]) -> None:
        self._inner, self._out, self._into = inner, out, into

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __enter__(self) -> Self:
        self._inner.__enter__()
        return self

    def __exit__(self, *details: object) -> None:
        self._inner.__exit__(*details)

    def get_queue_sender(self, name: str) -> Tampering:
        """A sender that changes messages."""
        return Tampering(self._inner.get_queue_sender(name), out=self._out, into=self._into)

    def get_queue_receiver(self, name: str) -> Tampering:
        """A receiver that changes messages."""
        return Tampering(self._inner.get_queue_receiver(name), out=self._out, into=self._into)

    def send_arrow(self, data: Any) -> Any:
        """Send the changed table."""
        return self._inner.send_arrow(self._into(data))

    def receive_arrow(self, count: int, *, max_wait_time: float) -> pa.Table:
        """Return the changed table."""
        table = pa.table(self._inner.receive_arrow(count, max_wait_time=max_wait_time))
        return self._out(table) if table.num_rows else table


class Once:
    """Applies a change to the first columns to which it applies."""

    def __init__(self, change: Callable[[pa.Table], pa.Table | None]) -> None:
        self._change, self._done = change, False

    def __call__(self, columns: Any) -> Any:
        """The columns, changed if the change applies now."""
        if self._done:
            return columns
        changed = self._change(pa.table(columns))
        self._done = changed is not None
        return changed if changed is not None else columns


def untouched(columns: Any) -> Any:
    """No change."""
    return columns


def run_demo(
    encoded: EncodedFlights | None = None,
    *,
    out: Callable[[pa.Table], pa.Table | None] | None = None,
    into: Callable[[pa.Table], pa.Table | None] | None = None,
) -> Report:
    """Run the demo on the small cargo, with at most one fault in each direction."""
    tamper_out: Any = Once(out) if out else untouched
    tamper_in: Any = Once(into) if into else untouched

    def make_client(namespace: oxbus.Namespace) -> Any:
        return Tampering(oxbus.ServiceBusClient(namespace), out=tamper_out, into=tamper_in)

    with Progress(console=Console(file=io.StringIO())) as progress:
        return run.run(progress, encode=lambda _progress: encoded or cargo(), make_client=make_client)


def failed_claims(report: Report) -> str:
    """The failed claims, as one text."""
    return "; ".join(check.claim for check in report.checks if not check.passed)


def replaced(table: pa.Table, name: str, row: int, value: object) -> pa.Table:
    """The table with one value changed."""
    values = table[name].to_pylist()
    values[row] = value
    column = pa.array(values, table.schema.field(name).type)
    return table.set_column(table.schema.get_field_index(name), table.schema.field(name), column)


@pytest.fixture(autouse=True)
def short_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """All messages are sent before the receivers start, so an empty queue is final."""
    monkeypatch.setattr(exchange, "QUIET_SECONDS", 0.2)


def test_honest_queue_passes() -> None:
    """Every check and both stories hold when nothing is changed."""
    report = run_demo()
    assert report.passed, failed_claims(report)
    assert report.messages == sum(report.messages_per_partition) == FLIGHTS
    assert len(report.messages_per_partition) == PARTITIONS


def test_stories_show_their_results() -> None:
    """The lock expiry shows the rejected settlement, the dead letters their reasons."""
    lock, letters = run_demo().stories
    assert any("MessageLockLostError" in step for step in lock.steps)
    assert any("MaxDeliveryCountExceeded" in step for step in letters.steps)
    assert any("UnknownAircraft" in step for step in letters.steps)


def test_lost_message_fails() -> None:
    """A row that a receiver never returns is lost, and the check finds it in the queue."""
    report = run_demo(out=lambda table: table.slice(1))
    assert not report.passed
    assert "exactly once" in failed_claims(report)
    assert "the queue is empty afterwards" in failed_claims(report)


def test_message_lost_before_the_queue_fails() -> None:
    """A row that never reached the queue is lost, although the queue is empty at the end."""
    report = run_demo(into=lambda table: table.slice(1))
    assert "exactly once" in failed_claims(report)
    assert "the queue is empty afterwards" not in failed_claims(report)


def test_duplicated_message_fails() -> None:
    """A row that is stored twice is received twice."""
    report = run_demo(into=lambda table: pa.concat_tables([table, table.slice(0, 1)]))
    assert "exactly once" in failed_claims(report)


def test_unknown_message_fails() -> None:
    """A message that the demo did not send does not count."""
    report = run_demo(out=lambda table: replaced(table, "message_id", 0, "flight-x"))
    assert "exactly once" in failed_claims(report)


def test_changed_body_fails() -> None:
    """One altered byte is found."""
    report = run_demo(out=lambda table: replaced(table, "body", 0, b"{}"))
    assert failed_claims(report) == "every body and key is as it was sent"


def test_misrouted_message_fails() -> None:
    """A message in another partition than its key's is found."""

    def change(table: pa.Table) -> pa.Table | None:
        keys = table["partition_key"].to_pylist()
        row = next((row for row, key in enumerate(keys) if key is not None), None)
        if row is None:
            return None
        elsewhere = (table["partition_id"][row].as_py() + 1) % PARTITIONS
        return replaced(table, "partition_id", row, elsewhere)

    assert "sit in one partition" in failed_claims(run_demo(out=change))


def test_message_sent_under_another_key_fails() -> None:
    """A key that is replaced before the queue leads to another partition."""

    def change(table: pa.Table) -> pa.Table:
        own = oxbus.partition_id("N00001", PARTITIONS)
        other = next(key for key in map(str, range(100)) if oxbus.partition_id(key, PARTITIONS) != own)
        return replaced(table, "partition_key", 1, other)

    claims = failed_claims(run_demo(into=change))
    assert "sit in one partition" in claims
    assert "every body and key" in claims


def test_wrong_order_fails() -> None:
    """Two flights of one aircraft that are swapped before the queue are found."""

    def change(table: pa.Table) -> pa.Table:
        rows = list(range(table.num_rows))
        first, second = 1, 1 + AIRCRAFT  # the same aircraft
        rows[first], rows[second] = rows[second], rows[first]
        return table.take(rows)

    assert failed_claims(run_demo(into=change)) == "and in the order they were sent"


def test_falling_sequence_numbers_fail() -> None:
    """A receiver that gets two numbers of one partition in reverse order is found."""

    def change(table: pa.Table) -> pa.Table | None:
        partition = table["partition_id"].to_pylist()
        rows = [row for row, one in enumerate(partition) if one == partition[0]]
        if len(rows) < 2:
            return None
        order = list(range(table.num_rows))
        order[rows[0]], order[rows[1]] = order[rows[1]], order[rows[0]]
        return table.take(order)

    assert "sequence numbers rise" in failed_claims(run_demo(out=change))


def test_different_placement_by_spark_fails() -> None:
    """Another placement by Spark is found, whatever the queue does."""
    encoded = cargo(spark_partition_of=lambda row: row % PARTITIONS)
    assert failed_claims(run_demo(encoded)) == "Spark's partition ids equal ours"


@pytest.mark.parametrize("missing", ["flights", "keyless"])
def test_incomplete_input_fails(missing: str) -> None:
    """The known size of the data set is checked, so half a file fails."""
    encoded = cargo()
    counts = {"flights": FLIGHTS, "keyless": KEYLESS}
    counts[missing] += 1
    assert "were encoded and sent" in failed_claims(
        run_demo(EncodedFlights(encoded.batches, counts["flights"], counts["keyless"]))
    )


def test_report_shows_verdict_and_chart() -> None:
    """The printed report names the errors."""
    paper = io.StringIO()
    print_report(run_demo(out=lambda table: table.slice(1)), Console(file=paper, width=120))
    text = paper.getvalue()
    assert "WRONG" in text
    assert "claims do not hold" in text
    assert "Messages per partition" in text


def test_report_shows_that_the_run_was_resumed() -> None:
    """Redeliveries after kills are shown, and a stage that this run skipped has no rate."""
    report = run_demo()
    assert not report.as_json()["resumed"]
    runs = Runs(count=3, directory="/somewhere", redelivered=17, noted_again=11)
    resumed = replace(report, runs=runs, rows={**report.rows, "encode": 0})
    paper = io.StringIO()
    print_report(resumed, Console(file=paper, width=120))
    text = paper.getvalue()
    assert "runs 1 to 2 were killed" in text
    assert "17 messages were delivered again; 11 were noted before" in text
    assert "done by an earlier run" in text
    assert resumed.as_json()["resumed"]


@pytest.mark.parametrize("passed", [True, False])
def test_directory_is_shown_and_removed_when_all_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, passed: bool
) -> None:
    """After wrong counts the files stay for inspection."""
    report = run_demo(out=None if passed else lambda table: table.slice(1))
    directory = tmp_path / "demo"

    def run(_progress: Progress, _encode: object, *, notes: ProgressLog) -> Report:
        notes.encoded(cargo)
        return replace(report, runs=Runs(directory=str(directory)))

    monkeypatch.setattr(main, "run", run)
    assert main.main(directory) == (0 if passed else 1)
    printed = capsys.readouterr().out
    assert f"stored in {directory}" in printed
    assert directory.exists() == (not passed)
    assert ("starts from the beginning" in printed) == (not passed)


def test_directory_of_another_program_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A directory with other files is not used; the exit code is 2."""
    (tmp_path / "letter").touch()
    assert main.main(tmp_path) == 2
    assert "cannot run" in capsys.readouterr().err


@pytest.mark.parametrize(("fault", "code"), [(None, 0), (lambda table: table.slice(1), 1)])
def test_exit_code_follows_the_checks(monkeypatch: pytest.MonkeyPatch, fault: Any, code: int) -> None:
    """0 if every count is right, else 1."""
    report = run_demo(out=fault)
    monkeypatch.setattr(main, "run", lambda *_arguments, **_options: report)
    assert main.main() == code


def test_missing_input_is_explained(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without the flights the demo names what to install and ends with 2."""

    def run(*_arguments: Any, **_options: Any) -> Report:
        raise InputMissingError("pip install it")

    monkeypatch.setattr(main, "run", run)
    assert main.main() == 2
    assert "pip install it" in capsys.readouterr().err


@pytest.mark.parametrize("module", [aircraft_sessions, carrier_topic])
def test_wrong_scenario_fails(monkeypatch: pytest.MonkeyPatch, module: Any) -> None:
    """One wrong claim of the sessions or the topic fails the whole demo."""
    wrong = ScenarioResult([Check("nothing is wrong", passed=False, finding="1 is")], rows=1, seconds=1.0)
    monkeypatch.setattr(module, "run_scenario", lambda _messages: wrong)
    report = run_demo()
    assert not report.passed
    assert failed_claims(report) == "nothing is wrong"
    paper = io.StringIO()
    print_report(report, Console(file=paper, width=120))
    assert "nothing is wrong" in paper.getvalue()
    assert "50% of the flights, in memory" in paper.getvalue()
