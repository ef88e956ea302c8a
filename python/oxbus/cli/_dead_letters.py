# SPDX-License-Identifier: Apache-2.0
"""`oxbus deadletter list | resubmit | purge`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from oxbus.cli import _values
from oxbus.cli._addresses import add_receivable, receivable
from oxbus.cli._exit_codes import DONE
from oxbus.cli._messages import as_values, preview
from oxbus.cli._namespace import add_namespace_options, open_bus
from oxbus.cli._output import print_json, shown_time
from oxbus.cli._peek import CUT, add_range, peeked
from oxbus.cli._receive import SUB_QUEUES
from oxbus.cli._rule_options import add_parameters, sql_filter
from oxbus.cli._table import print_table

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from argparse import Namespace as Options
    from collections.abc import Callable

    from oxbus import ServiceBusReceivedMessage
    from oxbus.management import SqlRuleFilter

_COLUMNS: Final = (
    "sequence number",
    "partition",
    "enqueued",
    "deliveries",
    "reason",
    "description",
    "message id",
    "body",
)
_CUT: Final = (*CUT, "description")
_DEFAULTS: Final = {"reason": "-", "description": "-"}


def add_dead_letter_commands(add: Callable[..., ArgumentParser]) -> None:
    """Add the commands."""
    listing = add("list", "show dead letters with their reasons", _list)
    add_receivable(listing)
    listing.add_argument(
        "--sub-queue", choices=SUB_QUEUES, default=SUB_QUEUES[0], help="which sub-queue (default: %(default)s)"
    )
    add_range(listing)
    listing.add_argument("--json", action="store_true", help="print each message in full, as one line of JSON")
    add_namespace_options(listing)
    resubmit = add("resubmit", "move dead letters back into their entity as new messages", _resubmit)
    _add_choice(resubmit)
    resubmit.add_argument("--rate", type=_values.positive, metavar="N", help="messages per second (default: no limit)")
    purge = add("purge", "delete dead letters: all, or those that the options select", _purge)
    _add_choice(purge)
    purge.add_argument("--before", type=_values.moment, metavar="TIME", help="only those stored before that time")


def _add_choice(parser: ArgumentParser) -> None:
    add_receivable(parser)
    parser.add_argument(
        "--where", metavar="CONDITION", help="only those that a SQL condition selects, with the syntax of rules"
    )
    add_parameters(parser)
    parser.add_argument("--limit", type=_values.amount, metavar="N", help="upper bound for their number")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_namespace_options(parser)


def _list(options: Options) -> int:
    with open_bus(options) as bus:
        found = peeked(bus, options, sub_queue=options.sub_queue)
        if options.json:
            for message in found:
                print_json(as_values(message))
        else:
            print_table(_COLUMNS, map(_row, found), right=("deliveries",), defaults=_DEFAULTS, cut=_CUT)
    return DONE


def _row(message: ServiceBusReceivedMessage) -> list[object]:
    return [
        str(message.sequence_number),
        message.partition_id,
        shown_time(message.enqueued_time_utc),
        message.delivery_count,
        message.dead_letter_reason,
        message.dead_letter_error_description,
        message.message_id,
        preview(message),
    ]


def _resubmit(options: Options) -> int:
    where = _where(options)
    with open_bus(options) as bus:
        count = bus.admin.resubmit_dead_letters(
            receivable(options), where=where, rate=options.rate, limit=options.limit
        )
    return _print_count("resubmitted", count, options)


def _purge(options: Options) -> int:
    choice: dict[str, Any] = {"where": _where(options), "limit": options.limit}
    with open_bus(options) as bus:
        count = bus.admin.purge_messages(
            receivable(options), sub_queue=SUB_QUEUES[0], before_enqueued_time_utc=options.before, **choice
        )
    return _print_count("deleted", count, options)


def _where(options: Options) -> SqlRuleFilter | None:
    return None if options.where is None else sql_filter(options.where, options)


def _print_count(action: str, count: int, options: Options) -> int:
    if options.json:
        print_json({action: count})
    else:
        print(f"{count:,} dead letter{'' if count == 1 else 's'} {action}")
    return DONE
