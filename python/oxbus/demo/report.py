# SPDX-License-Identifier: Apache-2.0
"""What the demo prints."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rich.bar import Bar
from rich.panel import Panel
from rich.table import Table

if TYPE_CHECKING:
    from rich.console import Console

    from oxbus.demo.checks import Check
    from oxbus.demo.stories import Story

_BAR_WIDTH = 40


@dataclass(frozen=True)
class Report:
    """Everything the demo found out; `passed` is its verdict."""

    messages_per_partition: list[int]
    messages_per_receiver: list[int]
    checks: list[Check]
    stories: list[Story]
    seconds: dict[str, float]
    """How long each stage took."""

    @property
    def messages(self) -> int:
        """How many messages came out."""
        return sum(self.messages_per_receiver)

    @property
    def passed(self) -> bool:
        """Whether every check and every story held."""
        return all(check.passed for check in self.checks) and all(story.as_it_should for story in self.stories)

    def as_json(self) -> dict[str, Any]:
        """The report as plain values."""
        return {**asdict(self), "passed": self.passed}


def print_report(report: Report, console: Console) -> None:
    """Print the chart, the proofs, the rates and the stories."""
    console.print(_chart(report.messages_per_partition))
    console.print(_proofs(report.checks))
    console.print(_rates(report))
    for story in report.stories:
        _print_story(story, console)
    wrong = sum(not check.passed for check in report.checks) + sum(not story.as_it_should for story in report.stories)
    verdict = "[bold green]All counts are right.[/]" if report.passed else f"[bold red]{wrong} claims do not hold.[/]"
    console.print(f"{verdict} The demo took {report.seconds['total']:.0f} s.")


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
    for stage, key, how in (
        ("placed and encoded", "encode", "Spark on two cores, its start not counted"),
        ("sent", "send", "one sender, send_arrow"),
        ("received and completed", "receive", f"competing receivers took {shares}"),
    ):
        rates.add_row(stage, f"{report.messages / max(report.seconds[key], 1e-9):,.0f} messages/s", f"[dim]{how}[/]")
    return rates


def _print_story(story: Story, console: Console) -> None:
    steps = "\n".join(f"{number}. {step}" for number, step in enumerate(story.steps, start=1))
    colour = "green" if story.as_it_should else "red"
    console.print(Panel(steps, title=story.title, title_align="left", border_style=colour, expand=False))
