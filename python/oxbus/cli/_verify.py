# SPDX-License-Identifier: Apache-2.0
"""`oxbus verify`: check every checksum of a namespace in a directory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from oxbus._oxbus import _verify as check_namespace
from oxbus._read_progress import ReadProgress, show_reading
from oxbus._salvage import print_partitions
from oxbus.cli._exit_codes import DONE, FAILED
from oxbus.cli._namespace import directory
from oxbus.cli._output import print_json

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from argparse import Namespace as Options


def add_verify(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.set_defaults(run=_verify)
    parser.add_argument(
        "directory",
        type=Path,
        nargs="?",
        metavar="DIR",
        help="the namespace (default: $OXBUS_DATA); no process may have it open",
    )
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")


def _verify(options: Options) -> int:
    place = directory(options.directory)
    with ReadProgress(place, show_reading):
        catalog, stages, partitions = check_namespace(place)
    is_whole = not catalog and not stages and all(partition["whole"] for partition in partitions)
    if options.json:
        print_json({"whole": is_whole, "catalog": catalog, "stages": stages, "partitions": partitions})
    else:
        _print(place, catalog, stages, partitions, is_whole=is_whole)
    return DONE if is_whole else FAILED


def _print(
    place: Path, catalog: list[str], stages: list[str], partitions: list[dict[str, Any]], *, is_whole: bool
) -> None:
    for name, problems in (("catalog", catalog), ("stages", stages)):
        for problem in problems:
            print(f"{name}: {problem}")
    print_partitions(partitions, "the namespace")
    if is_whole:
        print(f"All of {place} is whole")
    else:
        print(f"A part of {place} is damaged: restore it, or copy what is intact with `oxbus salvage`")
