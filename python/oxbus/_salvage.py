# SPDX-License-Identifier: Apache-2.0
"""The command `oxbus salvage`: copies the intact part of a damaged namespace into a new one."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from oxbus._oxbus import _salvage
from oxbus._read_progress import ReadProgress, show_reading
from oxbus.exceptions import ServiceBusError

if TYPE_CHECKING:
    from pathlib import Path


def main(source: Path, target: Path | None, *, as_json: bool = False) -> int:
    """Copy the intact part and print the losses.

    Args:
        source: The damaged namespace.
        target: Where to write the copy. None: next to `source`, with the suffix ``.salvaged``.
        as_json: Print one JSON object.

    Returns:
        0 if nothing is lost, 1 if something is, 2 if nothing could be copied.
    """
    target = target or source.with_name(f"{source.name}.salvaged")
    try:
        with ReadProgress(source, show_reading):
            partitions = _salvage(source, target)
    except (ServiceBusError, OSError) as error:
        print(f"Nothing was copied: {error}", file=sys.stderr)
        return 2
    if as_json:
        print(json.dumps({"target": str(target), "partitions": partitions}))
    else:
        print_partitions(partitions, "the copy")
        print(f"The copy is in {target}")
    return 0 if all(partition["whole"] for partition in partitions) else 1


def print_partitions(partitions: list[dict[str, Any]], opened: str) -> None:
    """Print what each partition holds and what is damaged or lost; `opened` names what takes over its loaded rows."""
    for partition in partitions:
        state = "whole" if partition["whole"] else "damaged"
        print(f"partition {partition['partition_id']:>2}: {partition['messages']:>9,} messages, {state}")
        if partition["loaded_rows"]:
            print(f"    {partition['loaded_rows']:,} rows of bulk loads become messages when {opened} is opened")
        for loss in partition["losses"]:
            print(f"    {loss}")
