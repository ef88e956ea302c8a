# SPDX-License-Identifier: Apache-2.0
"""The plots: what changes with threads, batches, bodies and backlogs, and the distribution of waiting times."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from metrics import RATE
from targets import ARROW, CEILING, OURS, PEEKLOCK

from reporting import style
from reporting.about import spread_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from results_file import Point, Row, Run

BODY_NAMES = {10: "10 B", 100: "100 B", 1024: "1 KiB", 10_240: "10 KiB", 102_400: "100 KiB"}
NINES = (50, 90, 99, 99.9, 99.99)


def threads(run: Run) -> str:
    """Rates by threads, a panel for each way to send."""
    rows = run.sweep("threads")
    names = {"single": "one by one", "batch_100": "by 100", "arrow_4096": "Arrow, 4096 rows"}
    figure, axes = style.panels(3, "Threads that send, receive and complete, 1 KiB, queue in memory")
    for panel, (line, title) in zip(axes, names.items(), strict=True):
        _lines(panel, [row for row in rows if line_of(row) == line])
        _rate_axes(panel, title, "threads", sorted({at(row) for row in rows}))
    _label_all(axes)
    return style.save(figure, "threads", axes[0])


def batches(run: Run) -> str:
    """Rates by messages per call."""
    rows = run.sweep("batch")
    figure, (panel,) = style.panels(1, "Messages per call, 100 B, one thread")
    figure.set_size_inches(7.5, 4.8)
    _lines(panel, rows)
    places = sorted({at(row) for row in rows})
    _rate_axes(panel, "", "messages per call", places, [f"{place:,}" for place in places])
    return style.save(figure, "batch", panel)


def bodies(run: Run) -> str:
    """Rates by bytes per message."""
    rows = run.sweep("body")
    names = {"single": "one by one", "batch_100": "by 100 (fewer from 10 KiB on)", "arrow": "Arrow, 1000 rows"}
    figure, axes = style.panels(3, "Bytes per message, send then receive and complete, one thread")
    for panel, (line, title) in zip(axes, names.items(), strict=True):
        _lines(panel, [row for row in rows if line_of(row) == line])
        places = sorted({at(row) for row in rows})
        _rate_axes(panel, title, "body", places, [BODY_NAMES.get(place, str(place)) for place in places])
    _label_all(axes)
    return style.save(figure, "body", axes[0])


def backlog(run: Run) -> str:
    """Rates by messages that wait."""
    rows = run.sweep("backlog")
    panels = {
        "send": {"send single": "one by one", "send by 100": "by 100", "Arrow in": "Arrow"},
        "receive and complete": {
            "receive + complete single": "one by one",
            "receive + complete by 100": "by 100",
            "Arrow out + complete": "Arrow",
        },
    }
    colours = {"one by one": style.BLUE, "by 100": style.ORANGE, "Arrow": style.RED}
    kinds = {
        OURS: {"linestyle": "-", "marker": "o"},
        PEEKLOCK: {"linestyle": ":", "marker": "^"},
        CEILING: {"linestyle": "--", "marker": "D"},
    }
    figure, axes = style.panels(2, "Messages that wait in the queue, 100 B, one thread")
    figure.set_size_inches(10.5, 4.8)
    for panel, (title, lines) in zip(axes, panels.items(), strict=True):
        for contender, kind in kinds.items():
            for line, name in lines.items():
                here = [row for row in rows if row.contender == contender and line_of(row) == line]
                if here:
                    _line(panel, here, f"{contender}, {name}", {**kind, "color": colours[name]})
        _rate_axes(panel, title, "messages waiting", sorted({at(row) for row in rows}))
        panel.set_ylim(bottom=0.8 * min(row[RATE] for row in rows))
    return style.save(figure, "backlog", axes[0])


def latency(run: Run) -> str:
    """Percentiles of waking up, and of each call."""
    figure, axes = style.panels(2, "How long it takes, 100 B, queue in memory")
    figure.set_size_inches(10.5, 4.8)
    wake_ups = run.of("wake_up/100B/thread")
    for row in wake_ups:
        _percentiles(axes[0], row, row.contender, style.LOOKS.get(row.contender, {}))
    calls = [row for row in run.rows if row.case.startswith("call/")]
    colours = (style.BLUE, style.ORANGE, style.GREEN, style.RED)
    for row, colour, marker in zip(calls, colours, "os^D", strict=False):
        _percentiles(axes[1], row, row.case.rpartition("/")[2], {"color": colour, "marker": marker})
    for panel, title in zip(
        axes, ("send to a receiver blocked in a thread", "one call of oxbus, and reading a body"), strict=True
    ):
        panel.set_title(title, fontsize=10.5)
        panel.set_xticks([_nines(share) for share in NINES], ["2", "10", "100", "1000", "10,000"])
        panel.set_xlabel("one in this many takes longer")
        panel.set_ylabel("µs")
        panel.set_yscale("log")
        style.rates_on(panel.yaxis)
        panel.legend(fontsize=9.5)
    return style.save(figure, "latency")


def units(run: Run) -> str:
    """Cost of one queue and one session as their number grows."""
    figure, axes = style.panels(4, "Cost of one more queue or session")
    figure.set_size_inches(15, 4.4)
    queues = {"queues": "plain queue", "partitioned_queues": "queue of 16 partitions"}
    for number, (kind, name) in enumerate(queues.items()):
        colour, marker = ((style.BLUE, "o"), (style.RED, "s"))[number]
        rows = run.sweep(kind)
        _plain(axes[0], rows, "create_us", f"create a {name}", color=colour, marker=marker)
        _plain(axes[0], rows, "cycle_us", f"cycle of a {name}", color=colour, marker=marker, linestyle=":")
        _plain(axes[1], _many(rows, 100), "bytes_used", name, color=colour, marker=marker)
    sessions = run.sweep("sessions")
    _plain(axes[2], sessions, "accept_drain_close_us", "accept, drain, close", color=style.BLUE, marker="o")
    _plain(axes[2], sessions, "send_us", "send the message", color=style.RED, marker="s")
    many = _many(sessions, 10_000)
    _plain(axes[3], many, "bytes_with_message", "session and message", color=style.BLUE, marker="o")
    _plain(axes[3], many, "bytes_beyond_message", "session alone", color=style.RED, marker="s")
    queue_counts = [at(row) for row in run.sweep("queues")]
    heads = (
        ("queues", "µs", queue_counts),
        ("queues", "bytes of memory each", [count for count in queue_counts if count >= 100]),
        ("sessions", "µs", [at(row) for row in sessions]),
        ("sessions", "bytes of memory each", [at(row) for row in many]),
    )
    for panel, (quantity, unit, places) in zip(axes, heads, strict=True):
        style.places_on(panel, places)
        panel.set_yscale("log")
        panel.margins(y=0.35)
        style.rates_on(panel.yaxis)
        panel.set_xlabel(quantity)
        panel.set_ylabel(unit)
        panel.legend(fontsize=8, loc="upper left" if quantity == "queues" else "upper right")
    return style.save(figure, "units")


def bars(
    name: str, title: str, columns: Sequence[tuple[str, dict[str, float]]], unit: str, *, better: str = "higher"
) -> str:
    """A panel of horizontal bars per column, ours in its own colour, losses as plain as wins."""
    most = max(len(values) for _, values in columns)
    figure, axes = style.panels(len(columns), title)
    figure.set_size_inches(5.4 * len(columns), 1.4 + 0.3 * most)
    for panel, (head, values) in zip(axes, columns, strict=True):
        ordered = sorted(values.items(), key=lambda one: one[1], reverse=better == "lower")
        colours = [_bar_colour(contender) for contender, _ in ordered]
        panel.barh([contender for contender, _ in ordered], [value for _, value in ordered], color=colours, log=True)
        low, high = ordered[0][1], ordered[-1][1]
        low, high = min(low, high), max(low, high)
        panel.set_xlim(low / 2, high * 6)
        for place, (_, value) in enumerate(ordered):
            panel.text(value * 1.08, place, style.short(value), va="center", fontsize=9)
        panel.set_title(head, fontsize=10.5)
        panel.set_xlabel(f"{unit}, {better} is better")
        panel.grid(visible=False, axis="y")
        style.rates_on(panel.xaxis)
    return style.save(figure, name)


def _bar_colour(contender: str) -> str:
    if contender.startswith(OURS):
        return style.BLUE
    return style.BLACK if contender.startswith(CEILING) else style.SKY


def _lines(panel: Axes, rows: Sequence[Row]) -> None:
    for contender in dict.fromkeys(row.contender for row in rows):
        here = [row for row in rows if row.contender == contender]
        _line(panel, here, contender, style.LOOKS.get(contender, {}))


def _line(panel: Axes, rows: Sequence[Row], name: str, look: dict[str, Any]) -> None:
    ordered = sorted(rows, key=at)
    low, high = zip(*[spread_of(row) for row in ordered], strict=True)
    panel.errorbar(
        [at(row) for row in ordered],
        [row[RATE] for row in ordered],
        yerr=[low, high],
        label=name,
        capsize=2.5,
        elinewidth=0.9,
        **look,
    )


def at(row: Row) -> int:
    """Where a row stands in its sweep."""
    return _point(row).at


def line_of(row: Row) -> str:
    """The line of a plot to which a row belongs."""
    return _point(row).line


def _point(row: Row) -> Point:
    if row.point is None:
        raise ValueError(f"{row.case} is of no sweep")
    return row.point


def _plain(panel: Axes, rows: Sequence[Row], figure: str, name: str, **look: Any) -> None:
    found = [(at(row), row[figure]) for row in rows if (row.get(figure) or 0) > 0]
    if found:
        panel.plot([place for place, _ in found], [value for _, value in found], label=name, **look)


def _many(rows: Sequence[Row], least: int) -> list[Row]:
    """Without those whose bytes disappear in the pages of the process."""
    return [row for row in rows if at(row) >= least]


def _percentiles(panel: Axes, row: Row, name: str, look: dict[str, Any]) -> None:
    points = [(float(share), value) for share, value in (row.percentiles or {}).items() if float(share) >= 50]
    panel.plot([_nines(share) for share, _ in points], [value for _, value in points], label=name, **look)


def _nines(share: float) -> float:
    return -math.log10(1 - share / 100)


def _rate_axes(
    panel: Axes, title: str, label: str, places: Sequence[float], names: Sequence[str] | None = None
) -> None:
    panel.set_title(title, fontsize=10.5)
    style.places_on(panel, places, names)
    panel.set_yscale("log")
    style.rates_on(panel.yaxis)
    panel.set_xlabel(label)
    panel.set_ylabel("messages per second")


def _label_all(axes: Sequence[Axes]) -> None:
    """One legend has to name the lines of all panels: the first panel gets an empty line for each that it lacks."""
    first = axes[0]
    known = set(first.get_legend_handles_labels()[1])
    for contender in (ARROW, f"{CEILING}, columns"):
        if contender not in known and any(contender in panel.get_legend_handles_labels()[1] for panel in axes):
            first.errorbar([], [], yerr=[], label=contender, **style.LOOKS[contender])


ALL: dict[str, tuple[str, Callable[[Run], str]]] = {
    "threads": ("sweep_threads/", threads),
    "batch": ("sweep_batch/", batches),
    "body": ("sweep_body/", bodies),
    "backlog": ("send_single/", backlog),
    "latency": ("wake_up/", latency),
    "units": ("sessions/", units),
}
"""Name, the cases it needs of the suite `core`, and what draws it."""
