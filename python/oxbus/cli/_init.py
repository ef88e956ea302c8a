# SPDX-License-Identifier: Apache-2.0
"""`oxbus init`: the only command that creates a namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oxbus._namespace_files import CATALOG
from oxbus._oxbus import _has_namespace, _shown_store_url
from oxbus.cli import _values
from oxbus.cli._exit_codes import DONE
from oxbus.cli._namespace import add_rules, open_directory, open_stored, own_place, rules
from oxbus.cli._output import print_json
from oxbus.cli._place import StoreUrl, add_storage_options, place, storage_options

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from argparse import Namespace as Options


def add_init(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.set_defaults(run=_init)
    parser.add_argument(
        "directory",
        type=place,
        nargs="?",
        metavar="PLACE",
        help="the directory, or the URL of a store, such as s3://bucket/prefix (default: $OXBUS_DATA)",
    )
    parser.add_argument(
        "--partitions", type=_values.count, metavar="N", help="number of partitions, 1 to 64 (default: 16)"
    )
    parser.add_argument(
        "--config", metavar="FILE", help="a config.json of the Service Bus emulator, whose entities are created"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_storage_options(parser)
    add_rules(parser)


def _init(options: Options) -> int:
    named = own_place(options.directory)
    wanted = {"partitions": options.partitions, "config": options.config, **rules(options)}
    if isinstance(named, StoreUrl):
        existed, shown = _has_namespace(named, storage_options(options)), _shown_store_url(named)
        opened = open_stored(named, options, **wanted)
    else:
        existed, shown = (named / CATALOG).exists(), str(named)
        opened = open_directory(named, **wanted)
    with opened as bus:
        partitions = bus.namespace.partitions
        entities = bus.namespace.statistics()
    if options.json:
        counts = {name: entities[name] for name in ("queues", "topics")}
        print_json({"path": shown, "created": not existed, "partitions": partitions, **counts})
    else:
        state = "exists" if existed else "is created"
        print(f"The namespace in {shown} {state}: {partitions} partitions, ", end="")
        print(f"{entities['queues']} queues, {entities['topics']} topics")
    return DONE
