# SPDX-License-Identifier: Apache-2.0
"""`oxbus demo`; its packages are an optional extra."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from oxbus.cli._exit_codes import USAGE

if TYPE_CHECKING:
    from argparse import Namespace as Options

_DEFAULT_DIRECTORY: Final = Path(".oxbus-demo")


def add_demo(commands: Any) -> None:
    """Add the command."""
    demo = commands.add_parser(
        "demo",
        help="send a year of flights through queues and a topic, and check each one",
        description=(
            "Sends the 336,776 flights that left New York City in 2013 through a queue of 16 partitions, then "
            "a part of them through sessions and a topic, and checks each received message. Spark encodes the messages "
            "and assigns them to partitions. "
            'Needs the extra "demo" and Java 17 or newer.'
        ),
    )
    demo.set_defaults(run=_demo)
    storage = demo.add_mutually_exclusive_group()
    storage.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="where to store messages and progress until the demo ends; the same command resumes a killed demo "
        f"(default: {_DEFAULT_DIRECTORY} in the current directory)",
    )
    storage.add_argument(
        "--memory", action="store_true", help="keep everything in memory; a killed demo cannot continue"
    )
    demo.add_argument("--json", action="store_true", help="print the result as one JSON object")


def _demo(options: Options) -> int:
    try:
        from oxbus.demo.main import main  # noqa: PLC0415 -- only this command needs its packages
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"numpy", "pyarrow", "pyspark", "rich"}:
            raise
        print(f'The demo needs the package {error.name}: pip install "oxbus[demo]"', file=sys.stderr)
        return USAGE
    return main(None if options.memory else options.data or _DEFAULT_DIRECTORY, as_json=options.json)
