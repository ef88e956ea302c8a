# SPDX-License-Identifier: Apache-2.0
"""`oxbus init`: the only command that creates a namespace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from oxbus._namespace_files import CATALOG
from oxbus.cli import _values
from oxbus.cli._exit_codes import DONE
from oxbus.cli._namespace import add_rules, directory, open_directory, rules
from oxbus.cli._output import print_json

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from argparse import Namespace as Options


def add_init(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.set_defaults(run=_init)
    parser.add_argument("directory", type=Path, nargs="?", metavar="DIR", help="the directory (default: $OXBUS_DATA)")
    parser.add_argument(
        "--partitions", type=_values.count, metavar="N", help="number of partitions, 1 to 64 (default: 16)"
    )
    parser.add_argument(
        "--config", metavar="FILE", help="a config.json of the Service Bus emulator, whose entities are created"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_rules(parser)


def _init(options: Options) -> int:
    place = directory(options.directory)
    existed = (place / CATALOG).exists()
    with open_directory(place, partitions=options.partitions, config=options.config, **rules(options)) as bus:
        partitions = bus.namespace.partitions
        entities = bus.namespace.statistics()
    if options.json:
        counts = {name: entities[name] for name in ("queues", "topics")}
        print_json({"path": str(place), "created": not existed, "partitions": partitions, **counts})
    else:
        state = "exists" if existed else "is created"
        print(f"The namespace in {place} {state}: {partitions} partitions, ", end="")
        print(f"{entities['queues']} queues, {entities['topics']} topics")
    return DONE
