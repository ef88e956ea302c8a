# SPDX-License-Identifier: Apache-2.0
"""Tables for people, at most as wide as the terminal.

On a terminal, `rich` draws the table if it is installed and the table fits; otherwise columns are padded with spaces.
A table that is too wide loses first the columns with default values, then the spare ones; then texts are cut. If that
is not enough, each row becomes a paragraph.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from oxbus.cli._output import words

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

_NOTHING: Final = "-"
_GAP: Final = 2
_BORDER: Final = 3
_CUT_MIN: Final = 8
_INDENT: Final = "    "


@dataclass
class _Table:
    """Headings, and the cells of each row."""

    headings: list[str]
    rows: list[list[str]]

    @property
    def widths(self) -> list[int]:
        return [max(map(len, column)) for column in zip(self.headings, *self.rows, strict=True)]

    @property
    def width(self) -> int:
        return sum(self.widths) + _GAP * (len(self.headings) - 1)

    @property
    def drawn_width(self) -> int:
        return sum(self.widths) + _BORDER * len(self.headings) + 1

    def without(self, is_left_out: Callable[[str, set[str]], bool]) -> _Table:
        """Return the table without the columns for which `is_left_out` returns True, given heading and texts."""
        columns = [
            column
            for column, heading in enumerate(self.headings)
            if not is_left_out(heading, {_NOTHING, *(row[column] for row in self.rows)})
        ]
        return _Table(
            [self.headings[column] for column in columns], [[row[column] for column in columns] for row in self.rows]
        )

    def cut_to(self, limit: int, columns: Sequence[str]) -> _Table:
        """Return the table with the texts of these columns cut, in order, as far as the limit requires and allows."""
        cut = _Table(self.headings, [list(row) for row in self.rows])
        for at in (self.headings.index(heading) for heading in columns if heading in self.headings):
            if cut.width <= limit:
                break
            width = max(cut.widths[at] - (cut.width - limit), _CUT_MIN, len(self.headings[at]))
            for row in cut.rows:
                if len(row[at]) > width:
                    row[at] = f"{row[at][: width - 1].rstrip('…')}…"
        return cut


def print_table(
    headings: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Collection[str] = (),
    defaults: Mapping[str, str] | None = None,
    spare: Sequence[str] = (),
    cut: Sequence[str] = (),
    title: int = 1,
) -> None:
    """Print rows under headings.

    Args:
        headings: One for each column.
        rows: Values that `words` converts to text.
        right: Headings of right-aligned columns.
        defaults: Columns that may be omitted if every row is empty or has this value.
        spare: Columns that may be omitted, in this order.
        cut: Columns whose texts may be cut, in this order.
        title: Number of columns that identify a row; a paragraph begins with them.
    """
    table = _Table(list(headings), [[words(value) for value in row] for row in rows])
    limit = _limit()
    if limit is None:
        _print_padded(table, right)
        return
    omissible = defaults or {}
    shorter = table.without(lambda heading, texts: heading in omissible and texts <= {_NOTHING, omissible[heading]})
    for candidate in (table, shorter):
        if candidate.drawn_width <= limit and sys.stdout.isatty() and _draw(candidate, right):
            return
    candidate = table if table.width <= limit else shorter
    left_out: set[str] = set()
    for column in spare:
        if candidate.width > limit:
            left_out.add(column)
            candidate = candidate.without(lambda heading, _: heading in left_out)
    candidate = candidate.cut_to(limit, cut)
    if candidate.width <= limit:
        _print_padded(candidate, right)
    else:
        _print_paragraphs(shorter, limit, title)


def _limit() -> int | None:
    """Return the maximum line width: that of the terminal or COLUMNS; None in a pipe."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS"):
        return shutil.get_terminal_size().columns
    return None


def _print_padded(table: _Table, right: Collection[str]) -> None:
    widths = table.widths
    for line in ([heading.upper() for heading in table.headings], *table.rows):
        padded = [
            text.rjust(width) if heading in right else text.ljust(width)
            for heading, text, width in zip(table.headings, line, widths, strict=True)
        ]
        print((" " * _GAP).join(padded).rstrip())


def _print_paragraphs(table: _Table, limit: int, title: int) -> None:
    for row in table.rows:
        print(" ".join(row[:title]))
        others = zip(table.headings[title:], row[title:], strict=True)
        line = ""
        for part in (f"{heading} {text}" for heading, text in others if text != _NOTHING):
            if line and len(line) + len(part) + len(_INDENT) + 3 > limit:
                _print_indented(f"{line},", limit)
                line = part
            else:
                line = f"{line}, {part}" if line else part
        _print_indented(line, limit)


def _print_indented(text: str, limit: int) -> None:
    width = max(limit, 20)
    for line in textwrap.wrap(text, width, initial_indent=_INDENT, subsequent_indent=_INDENT, break_on_hyphens=False):
        print(line)


def _draw(table: _Table, right: Collection[str]) -> bool:
    """Draw a table; return False if `rich` is not installed."""
    try:
        from rich.console import Console  # noqa: PLC0415 -- optional
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415
    except ModuleNotFoundError:
        return False
    drawn = Table(header_style="bold")
    for heading in table.headings:
        drawn.add_column(heading, justify="right" if heading in right else "left", overflow="fold")
    for row in table.rows:
        # As Text objects, because a name may look like markup.
        drawn.add_row(*map(Text, row))
    Console().print(drawn)
    return True
