# SPDX-License-Identifier: Apache-2.0
"""`oxbus serve`: other processes reach the namespace over the network, until a signal ends it."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from oxbus._oxbus import Namespace
from oxbus.cli import _values
from oxbus.cli._outcomes import DONE, INTERRUPTED, UsageError
from oxbus.cli._output import print_json
from oxbus.cli._place import DATA_VARIABLE, Bus, add_rules, open_place, rules

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from argparse import Namespace as Options

KEY_VARIABLE: Final = "OXBUS_BULK_KEY"


def add_serve(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.set_defaults(run=_serve)
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--data", type=Path, metavar="DIR", help=f"the directory to serve (default: ${DATA_VARIABLE})")
    place.add_argument("--memory", action="store_true", help="serve a new namespace in memory; it ends with the server")
    parser.add_argument(
        "--config", metavar="FILE", help="a config.json of the Service Bus emulator; missing entities are created"
    )
    parser.add_argument("--host", default="127.0.0.1", help="where to listen (default: %(default)s)")
    parser.add_argument(
        "--bulk-port",
        type=_values.amount,
        required=True,
        metavar="PORT",
        help="the port of the bulk plane; 0 for any that is free",
    )
    parser.add_argument(
        "--bulk-key",
        metavar="KEY",
        help="what clients must know, at least 16 characters; others on this machine may see it here, "
        f"but not in ${KEY_VARIABLE}, which is the default; needed unless the host is loopback",
    )
    parser.add_argument("--bulk-key-name", metavar="NAME", help="the name of the key (default: bulk)")
    parser.add_argument("--certificate", type=Path, metavar="FILE", help="the server's certificate, PEM, for https")
    parser.add_argument("--private-key", type=Path, metavar="FILE", help="its private key, PEM")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_rules(parser)


def _serve(options: Options) -> int:
    ended = threading.Event()
    signals: list[int] = []

    def end(number: int, _frame: Any) -> None:
        signals.append(number)
        ended.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        with _open(options) as bus:
            server = bus.namespace.serve_bulk(
                options.host,
                options.bulk_port,
                key=options.bulk_key or os.environ.get(KEY_VARIABLE) or None,
                key_name=options.bulk_key_name,
                certificate=options.certificate,
                private_key=options.private_key,
            )
            with server:
                _tell(server.endpoint, server.port, as_json=options.json)
                ended.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return INTERRUPTED if signals[0] == signal.SIGINT else DONE


def _open(options: Options) -> Bus:
    if options.memory:
        return Bus(Namespace(config=options.config, **rules(options)))
    if options.data is None and not os.environ.get(DATA_VARIABLE):
        raise UsageError(f"say what to serve: --data DIR, --memory, or the variable {DATA_VARIABLE}")
    return open_place(options, config=options.config)


def _tell(endpoint: str, port: int, *, as_json: bool) -> None:
    """Say where it listens, at once: whoever started it waits for that."""
    if as_json:
        print_json({"bulk_endpoint": endpoint, "bulk_port": port})
    else:
        print(f"The bulk plane is at {endpoint}; Ctrl-C or SIGTERM ends it.", flush=True)
