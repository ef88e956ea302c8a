# SPDX-License-Identifier: Apache-2.0
"""`oxbus reservation list | cancel`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from oxbus.cli._addresses import add_receivable, receivable
from oxbus.cli._exit_codes import DONE
from oxbus.cli._namespace import add_namespace_options, open_bus
from oxbus.cli._output import plain, print_json
from oxbus.cli._receive import SUB_QUEUES
from oxbus.cli._table import print_table

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from argparse import Namespace as Options
    from collections.abc import Callable, Iterable

HEADINGS: Final = ("consumer", "number", "epoch", "completed", "messages", "state", "expires")
COUNTED: Final = ("number", "epoch", "completed", "messages")


def add_reservation_commands(add: Callable[..., ArgumentParser]) -> None:
    """Add the commands."""
    listing = add("list", "show the reservations of an entity", _list)
    _add_entity(listing)
    cancel = add("cancel", "release the reservations of a consumer without counting a delivery", _cancel)
    _add_entity(cancel)
    cancel.add_argument("consumer", metavar="CONSUMER", help="the name of the consumer")


def _add_entity(parser: ArgumentParser) -> None:
    add_receivable(parser)
    parser.add_argument("--sub-queue", choices=SUB_QUEUES[:1], help="its dead-letter queue")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_namespace_options(parser)


def as_rows(reservations: Iterable[dict[str, Any]]) -> list[list[object]]:
    """Return the table rows of reservations."""
    return [list(reservation.values()) for reservation in reservations]


def _list(options: Options) -> int:
    with open_bus(options) as bus:
        found = list(bus.admin.list_reservations(receivable(options), sub_queue=options.sub_queue))
    shown = [asdict(reservation) for reservation in found]
    if options.json:
        print_json(plain(shown))
    else:
        print_table(HEADINGS, as_rows(shown), right=COUNTED)
    return DONE


def _cancel(options: Options) -> int:
    with open_bus(options) as bus:
        count = bus.admin.cancel_reservation(receivable(options), options.consumer, sub_queue=options.sub_queue)
    if options.json:
        print_json({"given_back": count})
    else:
        print(f"{count:,} message{'' if count == 1 else 's'} released")
    return DONE
