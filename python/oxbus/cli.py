# SPDX-License-Identifier: Apache-2.0
"""The command `oxbus`.

Exit codes: 0 done and right, 1 done and something is wrong, 2 could not be done (wrong usage, something missing).
"""

from __future__ import annotations

import argparse
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

DONE, WRONG, COULD_NOT = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: What follows the command's name; `None` takes them from the process.

    Returns:
        The exit code.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command == "demo":
        return _demo(None if options.memory else options.data, as_json=options.json)
    if options.command == "salvage":
        from oxbus._salvage import main as salvage  # noqa: PLC0415 -- only this command needs it

        return salvage(options.source, options.target, as_json=options.json)
    parser.print_help(sys.stderr)
    return COULD_NOT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="oxbus",
        description="Service Bus queues in this process.",
        epilog="Exit codes: 0 right, 1 something is wrong, 2 could not run.",
    )
    parser.add_argument("--version", action="version", version=f"oxbus {_version()}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    demo = commands.add_parser(
        "demo",
        help="send a year of flights through queues and a topic and check every one",
        description=(
            "Sends the 336,776 flights that left New York City in 2013 through a queue of 16 partitions, placed and "
            "encoded by Spark, then some of them through sessions and a topic, and checks each message that comes out. "
            'Needs the extra "demo" and Java 17 or newer.'
        ),
    )
    place = demo.add_mutually_exclusive_group()
    place.add_argument(
        "--data",
        type=Path,
        default=Path(".oxbus-demo"),
        metavar="DIR",
        help="where messages and progress are kept until the demo is over; after a kill the same command goes on "
        "(default: %(default)s in the current directory)",
    )
    place.add_argument("--memory", action="store_true", help="keep everything in memory; a killed demo is gone")
    demo.add_argument("--json", action="store_true", help="print the findings as one JSON object")
    salvage = commands.add_parser(
        "salvage",
        help="copy what is intact out of a damaged namespace",
        description=(
            "Reads the namespace in DIR, changes nothing there, writes what is intact into a new namespace in TARGET, "
            "and says for each partition what is lost. Messages whose completion is lost are there again. "
            "Exit code 1 when something is lost."
        ),
    )
    salvage.add_argument("source", type=Path, metavar="DIR", help="the damaged namespace; nobody may have it open")
    salvage.add_argument(
        "target",
        type=Path,
        nargs="?",
        metavar="TARGET",
        help="where to write the copy (default: DIR with the ending .salvaged)",
    )
    salvage.add_argument("--json", action="store_true", help="print the findings as one JSON object")
    return parser


def _version() -> str:
    try:
        return version("oxbus")
    except PackageNotFoundError:
        return "(not installed)"


def _demo(directory: Path | None, *, as_json: bool) -> int:
    try:
        from oxbus.demo.main import main as demo  # noqa: PLC0415 -- only this command needs its packages
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"numpy", "pyarrow", "pyspark", "rich"}:
            raise
        print(f'The demo needs the package {error.name}: pip install "oxbus[demo]"', file=sys.stderr)
        return COULD_NOT
    return demo(directory, as_json=as_json)


if __name__ == "__main__":
    sys.exit(main())
