# SPDX-License-Identifier: Apache-2.0
"""The demo command: input, data directory and output."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from oxbus.demo.data_directory import DataDirectory, DataDirectoryError
from oxbus.demo.encoding import encode_with_spark
from oxbus.demo.flights import InputMissingError
from oxbus.demo.progress_log import DurableProgressLog, ProgressLog
from oxbus.demo.report import print_report
from oxbus.demo.run import run
from oxbus.exceptions import NamespaceInUseError
from oxbus.spark.local import SparkDidNotStartError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def main(directory: Path | None = None, *, as_json: bool = False) -> int:
    """Run the demo on the flights and print the result.

    Args:
        directory: Where messages and progress are stored until the report is printed. None: in memory.
        as_json: Print one JSON object, and nothing else on standard output.

    Returns:
        0 if every count is right, 1 if one is not, 2 if the demo could not run.
    """
    console = Console()
    errors = Console(stderr=True)
    try:
        with _open_notes(directory, errors if as_json else console) as notes:
            return _run_and_print(notes, console, errors, as_json=as_json)
    except (DataDirectoryError, InputMissingError, NamespaceInUseError, SparkDidNotStartError) as error:
        errors.print(f"[bold red]The demo cannot run:[/] {escape(str(error))}", highlight=False)
        return 2


@contextlib.contextmanager
def _open_notes(path: Path | None, console: Console) -> Iterator[ProgressLog]:
    if path is None:
        yield ProgressLog()
        return
    with DataDirectory(path) as directory:
        place, runs = escape(str(directory.path)), directory.progress.runs
        text = f"Messages are stored in {place}; if this run is killed, the same command continues it."
        if runs:
            text = f"Continuing in {place}, where run {runs} ended early."
        console.print(text, highlight=False, soft_wrap=True)
        yield DurableProgressLog(directory)


def _run_and_print(notes: ProgressLog, console: Console, errors: Console, *, as_json: bool) -> int:
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=errors if as_json else console) as progress:
        report = run(progress, encode_with_spark, notes=notes)
    if as_json:
        print(json.dumps(report.as_json()), flush=True)
    else:
        print_report(report, console)
    notes.finish(passed=report.passed)
    return 0 if report.passed else 1
