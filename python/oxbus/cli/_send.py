# SPDX-License-Identifier: Apache-2.0
"""`oxbus send`: one message from the command line or a file, or one message per line of standard input."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from oxbus import ServiceBusMessage
from oxbus.cli import _values
from oxbus.cli._exit_codes import DONE, CommandError, UsageError
from oxbus.cli._namespace import add_namespace_options, open_bus
from oxbus.cli._output import print_json
from oxbus.exceptions import MessageSizeExceededError, ServiceBusError

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from argparse import Namespace as Options
    from collections.abc import Iterable, Iterator
    from io import BufferedReader

    from oxbus import ServiceBusMessageBatch, ServiceBusSender

_CHUNK: Final = 1 << 16
_TEXTS: Final = {
    "message_id": "its id (default: generated)",
    "session_id": "its session",
    "partition_key": "the key that selects the partition",
    "subject": "its subject",
    "correlation_id": "the id of a related message",
    "content_type": "the MIME type of the body, such as application/json",
    "to": "its destination address",
    "reply_to": "the address for replies",
    "reply_to_session_id": "the session for replies",
}


def add_send(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.set_defaults(run=_send)
    parser.add_argument("entity", metavar="ENTITY", help="a queue or a topic")
    body = parser.add_mutually_exclusive_group()
    body.add_argument(
        "body", nargs="?", metavar="BODY", help="the body (default: each line of standard input is one message)"
    )
    body.add_argument("--file", metavar="FILE", help="a file with the body, read as bytes; - is standard input")
    group = parser.add_argument_group("message")
    for name, help_text in _TEXTS.items():
        group.add_argument("--" + name.replace("_", "-"), metavar="TEXT", help=help_text)
    group.add_argument(
        "--property",
        dest="application_properties",
        type=_values.named_value,
        action="append",
        metavar="NAME[:TYPE]=VALUE",
        help="an application property, such as amount:int=100; repeatable",
    )
    group.add_argument(
        "--time-to-live", type=_values.duration, metavar="DURATION", help="how long the message can be received"
    )
    group.add_argument(
        "--scheduled-enqueue-time-utc",
        "--scheduled",
        type=_values.moment,
        metavar="TIME",
        help="earliest time to receive it: a time such as 2026-03-01T12:00, or 5m from now",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_namespace_options(parser)


def _send(options: Options) -> int:
    properties = _properties(options)
    is_lines = options.body is None and options.file is None
    if is_lines and options.message_id is not None:
        raise UsageError("--message-id is for one message: pass BODY or --file")
    # Read before the namespace is opened, to lock it as briefly as possible.
    body = None if is_lines else _body(options)
    with open_bus(options) as bus, bus.client.get_queue_sender(options.entity) as sender:
        if body is None:
            count = _send_batches(sender, _lines(), properties)
        else:
            sender.send_messages(ServiceBusMessage(body, **properties))
            count = 1
    if options.json:
        print_json({"sent": count})
    else:
        print(f"{count:,} message{'' if count == 1 else 's'} sent")
    return DONE


def _properties(options: Options) -> dict[str, Any]:
    names = (*_TEXTS, "time_to_live", "scheduled_enqueue_time_utc")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    if options.application_properties:
        given["application_properties"] = dict(options.application_properties)
    return given


def _body(options: Options) -> bytes:
    if options.body is not None:
        return os.fsencode(options.body)
    return sys.stdin.buffer.read() if options.file == "-" else Path(options.file).read_bytes()


def _lines() -> Iterator[list[bytes]]:
    """Yield complete lines without their ends as soon as they are available, so a typed line is sent at once."""
    begun = b""
    source = cast("BufferedReader", sys.stdin.buffer)
    while chunk := source.read1(_CHUNK):
        *complete, begun = (begun + chunk).split(b"\n")
        if complete:
            yield [line.removesuffix(b"\r") for line in complete]
    if begun:
        yield [begun]


def _send_batches(sender: ServiceBusSender, groups: Iterable[list[bytes]], properties: dict[str, Any]) -> int:
    """Send each group in as few batches as possible; an error reports how many messages were sent before it."""
    sent = 0
    try:
        for group in groups:
            batch = sender.create_message_batch()
            for body in group:
                message = ServiceBusMessage(body, **properties)
                if _fits(message, batch):
                    continue
                sent += _send_batch(sender, batch)
                batch = sender.create_message_batch()
                if not _fits(message, batch):
                    # A single message may be larger than a batch.
                    sender.send_messages(message)
                    sent += 1
            sent += _send_batch(sender, batch)
    except ServiceBusError as error:
        if not sent:
            raise
        raise CommandError(f"{error} (sent before that: {sent:,})") from error
    return sent


def _fits(message: ServiceBusMessage, batch: ServiceBusMessageBatch) -> bool:
    """Add a message to a batch if there is space."""
    try:
        batch.add_message(message)
    except MessageSizeExceededError:
        return False
    return True


def _send_batch(sender: ServiceBusSender, batch: ServiceBusMessageBatch) -> int:
    """Send a batch unless it is empty; return its number of messages."""
    if len(batch):
        sender.send_messages(batch)
    return len(batch)
