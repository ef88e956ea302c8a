# SPDX-License-Identifier: Apache-2.0
"""The output of the demo."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rich.bar import Bar
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

from oxbus.demo import aircraft_sessions, carrier_topic, scenarios

if TYPE_CHECKING:
    from rich.console import Console

    from oxbus.demo.checks import Check
    from oxbus.demo.stories import Story

_BAR_WIDTH = 40


@dataclass(frozen=True)
class Runs:
    """The runs of the demo: one, or several if earlier ones were killed."""

    count: int = 1
    directory: str | None = None
    """Directory of messages and progress log; None: in memory."""
    recovery_seconds: float = 0.0
    """Seconds to open the namespace again."""
    frames_recovered: int = 0
    """Journal frames that were read when it was opened."""
    found_in_queue: int = 0
    """Messages found in the queue without an acknowledgement, and not sent again."""
    redelivered: int = 0
    """Rows of all runs with a delivery count above 0."""
    noted_again: int = 0
    """Those of them that a killed run had recorded; they count once."""

    @property
    def resumed(self) -> bool:
        """Whether this run continued an earlier one."""
        return self.count > 1


@dataclass(frozen=True)
class Report:
    """All results of the demo; `passed` is the verdict."""

    messages_per_partition: list[int]
    messages_per_receiver: list[int]
    """Messages that each receiver got first; the receivers of earlier runs come first."""
    checks: list[Check]
    stories: list[Story]
    seconds: dict[str, float]
    """Seconds of each stage of this run."""
    rows: dict[str, int]
    """Messages of each stage in this run."""
    runs: Runs

    @property
    def messages(self) -> int:
        """Number of received messages."""
        return sum(self.messages_per_receiver)

    @property
    def passed(self) -> bool:
        """Whether every check and every story passed."""
        return all(check.passed for check in self.checks) and all(story.as_it_should for story in self.stories)

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return {**asdict(self), "resumed": self.runs.resumed, "passed": self.passed}


def print_report(report: Report, console: Console) -> None:
    """Print the chart, the checks, the rates and the stories."""
    if report.runs.resumed:
        _print_runs(report.runs, console)
    console.print(_chart(report.messages_per_partition))
    console.print(_proofs(report.checks))
    console.print(_rates(report))
    for story in report.stories:
        _print_story(story, console)
    wrong = sum(not check.passed for check in report.checks) + sum(not story.as_it_should for story in report.stories)
    verdict = "[bold green]All counts are right.[/]" if report.passed else f"[bold red]{wrong} claims do not hold.[/]"
    took = "This run" if report.runs.resumed else "The demo"
    console.print(f"{verdict} {took} took {report.seconds['total']:.0f} s.")
    if not report.passed and report.runs.directory:
        text = f"The next run starts from the beginning; until then all files stay in {escape(report.runs.directory)}."
        console.print(text, highlight=False, soft_wrap=True)


def _print_runs(runs: Runs, console: Console) -> None:
    before = "run 1 was" if runs.count == 2 else f"runs 1 to {runs.count - 1} were"  # noqa: PLR2004 -- one before
    steps = [
        f"run {runs.count}; {before} killed",
        f"opened again in {runs.recovery_seconds:.2f} s, {runs.frames_recovered:,} frames read",
        f"{runs.found_in_queue:,} messages were in the queue without an acknowledgement and were not sent again",
        f"{runs.redelivered:,} messages were delivered again; {runs.noted_again:,} were noted before and count once",
    ]
    console.print(Panel("\n".join(steps), title="Resumed", title_align="left", border_style="yellow", expand=False))


def _chart(counts: list[int]) -> Table:
    chart = Table(title="Messages per partition", box=None, title_justify="left")
    chart.add_column("partition", justify="right")
    chart.add_column("messages", justify="right")
    chart.add_column("")
    for partition, count in enumerate(counts):
        chart.add_row(
            str(partition), f"{count:,}", Bar(max(counts, default=0) or 1, 0, count, width=_BAR_WIDTH, color="cyan")
        )
    return chart


def _proofs(checks: list[Check]) -> Table:
    proofs = Table(title="\nProofs", box=None, title_justify="left", show_header=False)
    proofs.add_column("verdict", no_wrap=True)
    proofs.add_column("claim")
    for check in checks:
        verdict = "[green]ok[/]" if check.passed else "[bold red]WRONG[/]"
        proofs.add_row(verdict, f"{check.claim} [dim]({check.finding})[/]")
    return proofs


def _rates(report: Report) -> Table:
    rates = Table(title="\nRates on this machine", box=None, title_justify="left", show_header=False)
    rates.add_column("stage")
    rates.add_column("rate", justify="right")
    rates.add_column("how")
    shares = " + ".join(f"{count:,}" for count in report.messages_per_receiver)
    journal = ", each list synced to disk" if report.runs.directory else ""
    notes = " and noted each list" if report.runs.directory else ""
    some = f"{scenarios.SHARE:.0%} of the flights, in memory"
    for stage, key, conditions in (
        ("placed and encoded", "encode", "Spark on two cores, its start not counted"),
        ("loaded in bulk", "bulk", "Spark's tasks into a directory, reading the file and a second try included"),
        ("sent", "send", f"one sender, send_arrow{journal}"),
        ("received and completed", "receive", f"competing receivers took {shares}{notes}"),
        ("through sessions", "sessions", f"{aircraft_sessions.RECEIVERS} receivers, {some}"),
        ("through a topic", "topic", f"copies of {len(carrier_topic.SUBSCRIPTIONS)} subscriptions, {some}"),
    ):
        if report.rows[key]:
            rate = f"{report.rows[key] / max(report.seconds[key], 1e-9):,.0f} messages/s"
            rates.add_row(stage, rate, f"[dim]{conditions}[/]")
        else:
            rates.add_row(stage, "-", "[dim]done by an earlier run[/]")
    return rates


def _print_story(story: Story, console: Console) -> None:
    steps = "\n".join(f"{number}. {step}" for number, step in enumerate(story.steps, start=1))
    colour = "green" if story.as_it_should else "red"
    console.print(Panel(steps, title=story.title, title_align="left", border_style=colour, expand=False))
