# SPDX-License-Identifier: Apache-2.0
"""`oxbus peek`: show messages without removing them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from oxbus.cli import _values
from oxbus.cli._addresses import add_receivable, receivable
from oxbus.cli._exit_codes import DONE
from oxbus.cli._messages import as_values, preview
from oxbus.cli._namespace import add_namespace_options, open_bus
from oxbus.cli._output import print_json, shown_time
from oxbus.cli._receive import add_source
from oxbus.cli._table import print_table

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from argparse import Namespace as Options
    from collections.abc import Iterator

    from oxbus import ServiceBusReceivedMessage
    from oxbus.cli._bus import Bus

_AT_ONCE: Final = 250
_COLUMNS: Final = ("sequence number", "partition", "enqueued", "state", "session", "message id", "bytes", "body")
DEFAULTS: Final = {"session": "-", "state": "active"}
CUT: Final = ("message id", "body")


def add_peek(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.set_defaults(run=_peek)
    add_receivable(parser)
    add_source(parser)
    parser.add_argument(
        "--session", dest="session_id", metavar="ID", help="only this session, which the command accepts"
    )
    add_range(parser)
    parser.add_argument("--json", action="store_true", help="print each message in full, as one line of JSON")
    add_namespace_options(parser)


def add_range(parser: ArgumentParser) -> None:
    """Add the options for the number of messages and the first one."""
    number = parser.add_mutually_exclusive_group()
    number.add_argument(
        "--count", type=_values.count, default=10, metavar="N", help="upper bound for their number (default: 10)"
    )
    number.add_argument("--all", action="store_true", help="all messages")
    parser.add_argument(
        "--from",
        dest="sequence_number",
        type=_values.amount,
        default=0,
        metavar="NUMBER",
        help="the first sequence number",
    )


def _peek(options: Options) -> int:
    with open_bus(options) as bus:
        found = peeked(bus, options, sub_queue=options.sub_queue)
        if options.json:
            for message in found:
                print_json(as_values(message))
        else:
            print_table(_COLUMNS, map(_row, found), right=("bytes",), defaults=DEFAULTS, cut=CUT)
    return DONE


def peeked(bus: Bus, options: Options, *, sub_queue: str | None) -> Iterator[ServiceBusReceivedMessage]:
    """Yield the requested messages."""
    source: dict[str, Any] = {"sub_queue": sub_queue, "partition_id": getattr(options, "partition_id", None)}
    source["session_id"] = getattr(options, "session_id", None)
    remaining = None if options.all else options.count
    number = options.sequence_number
    with bus.client.get_queue_receiver(receivable(options), **source) as receiver:
        while remaining != 0:
            messages = receiver.peek_messages(min(remaining or _AT_ONCE, _AT_ONCE), sequence_number=number)
            if not messages:
                return
            # Continue after the last message.
            number = 0
            if remaining is not None:
                remaining -= len(messages)
            yield from messages


def _row(message: ServiceBusReceivedMessage) -> list[object]:
    return [
        # No separators, so that the number can be copied.
        str(message.sequence_number),
        message.partition_id,
        shown_time(message.enqueued_time_utc),
        message.state.name.lower(),
        message.session_id,
        message.message_id,
        len(memoryview(message)),
        preview(message),
    ]
