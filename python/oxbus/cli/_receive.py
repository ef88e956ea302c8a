# SPDX-License-Identifier: Apache-2.0
"""`oxbus receive`: receive messages, write their bodies, and settle them once written."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from oxbus import NEXT_AVAILABLE_SESSION, ServiceBusReceiveMode
from oxbus.cli import _values
from oxbus.cli._addresses import add_receivable, receivable
from oxbus.cli._exit_codes import DONE
from oxbus.cli._messages import as_values, body_of
from oxbus.cli._namespace import add_namespace_options, open_bus
from oxbus.cli._output import print_json, printable
from oxbus.exceptions import OperationTimeoutError

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from argparse import Namespace as Options
    from collections.abc import Iterator

    from oxbus import ServiceBusReceivedMessage, ServiceBusReceiver

_AT_ONCE: Final = 100
_EMPTY: Final = 3
"""Number of consecutive empty receives that mean an empty queue; a single one may miss messages."""
SUB_QUEUES: Final = ("deadletter", "transferdeadletter")


def add_receive(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.set_defaults(run=_receive)
    add_receivable(parser)
    add_source(parser)
    number = parser.add_mutually_exclusive_group()
    number.add_argument(
        "--count", type=_values.count, default=1, metavar="N", help="upper bound for their number (default: 1)"
    )
    number.add_argument("--all", action="store_true", help="until no message is left")
    parser.add_argument(
        "--wait",
        type=_values.seconds,
        default=0.0,
        metavar="DURATION",
        help="how long to wait for a message (default: 0)",
    )
    parser.add_argument("--session", dest="session_id", metavar="ID", help="the session to receive from")
    parser.add_argument("--next-session", action="store_true", help="receive from the next available session")
    settle = parser.add_argument_group("settlement").add_mutually_exclusive_group()
    for name, help_text in {
        "complete": "remove each message after it is written (the default)",
        "delete": "remove each message before it is written; a message that is not written is lost",
        "abandon": "return the messages after all are written; the delivery counts",
        "defer": "defer the messages",
        "dead-letter": "move the messages to the dead-letter queue",
        "keep": "settle nothing; the locks end with this command, and the delivery counts",
    }.items():
        settle.add_argument(f"--{name}", dest="outcome", action="store_const", const=name, help=help_text)
    parser.set_defaults(outcome="complete")
    parser.add_argument("--reason", metavar="TEXT", help="the reason for --dead-letter")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print each message in full, as one line of JSON")
    output.add_argument("-0", "--null", action="store_true", help="end each body with a zero byte instead of a newline")
    output.add_argument("--raw", action="store_true", help="write the bodies without separators")
    add_namespace_options(parser)


def add_source(parser: ArgumentParser) -> None:
    """Add the options that restrict the source of messages."""
    parser.add_argument("--sub-queue", choices=SUB_QUEUES, help="its dead-letter queue")
    parser.add_argument(
        "--partition", type=_values.amount, dest="partition_id", metavar="ID", help="only this partition"
    )


def _receive(options: Options) -> int:
    path = receivable(options)
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE if options.outcome == "delete" else ServiceBusReceiveMode.PEEK_LOCK
    session: Any = NEXT_AVAILABLE_SESSION if options.next_session else options.session_id
    with open_bus(options) as bus:
        receiver = bus.client.get_queue_receiver(
            path,
            sub_queue=options.sub_queue,
            receive_mode=mode,
            session_id=session,
            partition_id=options.partition_id,
            max_wait_time=options.wait,
        )
        locked: list[ServiceBusReceivedMessage] = []
        for batch in _batches(receiver, options):
            for message in batch:
                _write(message, options)
            # A message is completed only after it was written: the reader may have closed the pipe.
            sys.stdout.flush()
            if options.outcome == "complete":
                receiver.complete_messages(batch)
            else:
                locked += batch
        _settle(receiver, locked, options)
    return DONE


def _batches(receiver: ServiceBusReceiver, options: Options) -> Iterator[list[ServiceBusReceivedMessage]]:
    remaining = None if options.all else options.count
    empty = 0
    while remaining != 0 and empty < (1 if options.wait else _EMPTY):
        try:
            batch = receiver.receive_messages(min(remaining or _AT_ONCE, _AT_ONCE), max_wait_time=options.wait)
        except OperationTimeoutError:
            # No session became available in time.
            return
        if remaining is not None:
            remaining -= len(batch)
        empty = 0 if batch else empty + 1
        if batch:
            yield batch


def _settle(receiver: ServiceBusReceiver, messages: list[ServiceBusReceivedMessage], options: Options) -> None:
    """Settle the remaining messages at the end, so that the command does not receive them again."""
    match options.outcome:
        case "abandon":
            receiver.abandon_messages(messages)
        case "defer":
            receiver.defer_messages(messages)
        case "dead-letter":
            receiver.dead_letter_messages(messages, reason=options.reason)


def _write(message: ServiceBusReceivedMessage, options: Options) -> None:
    if options.json:
        print_json(as_values(message))
        return
    body = body_of(message)
    if sys.stdout.isatty() and not options.raw:
        # A terminal would interpret control characters.
        text = body.decode(errors="backslashreplace")
        print("\n".join(printable(line) for line in text.split("\n")))
        return
    end = b"" if options.raw else b"\0" if options.null else b"\n"
    sys.stdout.buffer.write(body + end)
