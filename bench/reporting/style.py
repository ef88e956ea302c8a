# SPDX-License-Identifier: Apache-2.0
"""The style of plots: colours for colour-blind readers (Okabe and Ito), and a marker for each contender."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from PIL import Image
from targets import ARROW, CEILING, OURS, PEEKLOCK, SIMPLE_QUEUE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FOLDER = Path(__file__).parents[2] / "docs" / "performance"
BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, RED, PINK = (
    *("#000000", "#E69F00", "#56B4E9", "#009E73"),
    *("#B8A800", "#0072B2", "#D55E00", "#CC79A7"),
)
LOOKS: dict[str, dict[str, Any]] = {
    OURS: {"color": BLUE, "marker": "o", "linewidth": 2.4},
    ARROW: {"color": RED, "marker": "s", "linewidth": 2.4},
    PEEKLOCK: {"color": GREEN, "marker": "^"},
    CEILING: {"color": BLACK, "marker": "D", "linestyle": "--"},
    f"{CEILING}, columns": {"color": "#777777", "marker": "v", "linestyle": ":"},
    SIMPLE_QUEUE: {"color": PINK, "marker": "v", "linestyle": "-."},
}
OTHERS = (ORANGE, SKY, YELLOW, PINK)
PANEL_INCHES = (4.2, 3.5)
DOTS_PER_INCH = 110
PNG_COLOURS = 64
LEGEND_COLUMNS = 5
LEGEND_LINE_INCHES = 0.3
LABELS_EACH_DECADE = 1.7
"""An axis of fewer decades has labels at 2 and 5 as well."""

mpl.rcParams.update(
    {
        "font.size": 10,
        "axes.grid": True,
        "grid.color": "#dddddd",
        "grid.linewidth": 0.7,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "lines.linewidth": 1.6,
        "lines.markersize": 5.5,
        "legend.frameon": False,
        "svg.fonttype": "none",
        "svg.hashsalt": "oxbus",
    }
)


def panels(count: int, title: str) -> tuple[Figure, Sequence[Axes]]:
    """A row of panels."""
    figure, axes = plt.subplots(1, count, figsize=(PANEL_INCHES[0] * count, PANEL_INCHES[1] + 0.6), squeeze=False)
    figure.suptitle(title, fontsize=12, fontweight="bold")
    return figure, list(axes[0])


def save(figure: Figure, name: str, legend_from: Axes | None = None) -> str:
    """Write it as PNG and SVG; a legend for all panels stands below them."""
    bottom = 0.0
    if legend_from is not None:
        handles, labels = legend_from.get_legend_handles_labels()
        columns = len(labels) if len(labels) <= LEGEND_COLUMNS else LEGEND_COLUMNS - 1
        bottom = LEGEND_LINE_INCHES * -(-len(labels) // columns) / figure.get_figheight()
        figure.legend(handles, labels, loc="lower center", ncols=columns, fontsize=9.5)
    figure.tight_layout(rect=(0, bottom, 1, 1))
    FOLDER.mkdir(parents=True, exist_ok=True)
    figure.savefig(FOLDER / f"{name}.svg", metadata={"Date": None})
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=DOTS_PER_INCH, format="png")
    plt.close(figure)
    # A plot has few colours, and with as few its file is half as large.
    Image.open(drawn).convert("RGB").quantize(PNG_COLOURS).save(FOLDER / f"{name}.png", optimize=True)
    svg = FOLDER / f"{name}.svg"
    svg.write_text(
        "".join(f"{line.rstrip()}\n" for line in svg.read_text(encoding="utf-8").splitlines()), encoding="utf-8"
    )
    return name


def short(value: float) -> str:
    """1,200,000 as 1.2 M, and 999.7 as 1 k."""
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size * 0.9995:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def rates_on(axis: Any) -> None:
    """A logarithmic axis of counts, with short numbers."""
    low, high = axis.get_view_interval()
    few = math.log10(high / low) < LABELS_EACH_DECADE if low > 0 else False
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axis.set_minor_formatter(NullFormatter())


def places_on(panel: Axes, places: Sequence[float], names: Sequence[str] | None = None) -> None:
    """Ticks of the horizontal axis where something was measured, and nowhere else."""
    panel.set_xscale("log")
    panel.set_xticks(list(places), list(names or [short(place) for place in places]))
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.tick_params(axis="x", which="minor", length=0)
