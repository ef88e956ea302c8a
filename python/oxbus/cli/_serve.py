# SPDX-License-Identifier: Apache-2.0
"""`oxbus serve`: serves a namespace over the network until a signal stops it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Final

from oxbus._oxbus import Namespace
from oxbus.cli import _values
from oxbus.cli._access_rules import RELOAD_SIGNAL, AccessRules, add_access_rules
from oxbus.cli._exit_codes import DONE, INTERRUPTED, CommandError, UsageError
from oxbus.cli._log import add_log_options, log_lines
from oxbus.cli._namespace import CONNECTION_VARIABLE, DATA_VARIABLE, OpenNamespace, add_rules, open_namespace, rules
from oxbus.cli._output import print_json
from oxbus.cli._place import add_storage_options, place
from oxbus.cli._removed_options import add_removed_options, reject_removed_variable
from oxbus.cli._service_manager import ServiceManager
from oxbus.cli._signals import Signals
from oxbus.cli._traces import add_traces, exported_spans, tracer_provider

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from argparse import Namespace as Options

    from oxbus.server import Server

_PORTS: Final = {
    "amqp": (5672, "AMQP"),
    "amqps": (5671, "AMQP in TLS"),
    "http": (5300, "HTTP"),
    "https": (None, "HTTPS"),
}
"""The default ports: those of the service and of its emulator."""


LOOK_SECONDS: Final = 1.0
"""How often to look whether another process took the namespace over."""

TELL_SECONDS: Final = 3.0
"""How long a server that was taken over still answers: a client of the SDK sees the reason within that time."""


def add_serve(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.set_defaults(run=_serve)
    served = parser.add_mutually_exclusive_group()
    served.add_argument(
        "--data",
        type=place,
        metavar="PLACE",
        help=f"the directory to serve, or the URL of a store, such as s3://bucket/prefix (default: ${DATA_VARIABLE})",
    )
    served.add_argument(
        "--memory", action="store_true", help="serve a new in-memory namespace, which ends with the server"
    )
    parser.add_argument(
        "--config", metavar="FILE", help="a config.json of the Service Bus emulator; missing entities are created"
    )
    add_storage_options(parser)
    parser.add_argument(
        "--standby",
        action="store_true",
        help="for a namespace in a store: wait until the server that has it is gone, and take it over",
    )
    parser.add_argument(
        "--take-over",
        action="store_true",
        help="for a namespace in a store: take it over at once; a server that still has it then serves no more",
    )
    parser.add_argument(
        "--advertise",
        metavar="HOST:PORT",
        help="where a standby reaches this server, to see at once when it is gone (default: the host and the first "
        "port, if the host is one address)",
    )
    parser.add_argument("--host", default="127.0.0.1", help="where to listen (default: %(default)s)")
    ports = parser.add_argument_group(
        "ports",
        "Each port speaks AMQP, HTTP and TLS, and serves bulk clients. Without these options the default ports are "
        "opened; with some, only the given ones. 0 selects a free port.",
    )
    for name, (usual, purpose) in _PORTS.items():
        ports.add_argument(
            f"--{name}-port",
            type=_values.amount,
            metavar="PORT",
            help=f"the port for {purpose} (default: {usual or 'none'})",
        )
    add_access_rules(parser)
    parser.add_argument(
        "--certificate",
        type=Path,
        metavar="FILE",
        help="the server's certificate, PEM (default: generated for development)",
    )
    parser.add_argument("--private-key", type=Path, metavar="FILE", help="its private key, PEM")
    parser.add_argument(
        "--tls-cert-out",
        type=Path,
        metavar="FILE",
        help="where to write the generated certificate for clients to trust",
    )
    parser.add_argument(
        "--drain-timeout",
        type=_values.seconds,
        default=10.0,
        metavar="DURATION",
        help="how long clients may settle their messages after SIGTERM, at most (default: 10s)",
    )
    add_traces(parser)
    parser.add_argument("--no-console", action="store_true", help="do not offer the console at /$console")
    parser.add_argument(
        "--console-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a further host name under which browsers reach the console; give it again for more",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_log_options(parser)
    add_rules(parser, tier="standard")
    add_removed_options(parser)


def _serve(options: Options) -> int:
    reject_removed_variable()
    access = AccessRules.of(options)
    provider = tracer_provider(options)
    again = [] if access.file is None or RELOAD_SIGNAL is None else [RELOAD_SIGNAL]
    with (
        Signals(signal.SIGTERM, signal.SIGINT, *again) as signals,
        log_lines(options),
        _open(options) as bus,
        _start(bus, options, access) as serving,
        exported_spans(provider, serving),
    ):
        _announce(bus, serving, options)
        _print_address(serving, options)
        number = _until_stopped(bus.namespace, serving, options, access, signals)
        # Ctrl-C ends the server at once.
        serving.close(drain_timeout=0 if number == signal.SIGINT else options.drain_timeout)
    return INTERRUPTED if number == signal.SIGINT else DONE


def _until_stopped(
    namespace: Namespace, serving: Server, options: Options, access: AccessRules, signals: Signals
) -> signal.Signals:
    """Reload the access rules and give signs of life, until a signal ends the server; return that signal."""
    port = next(port for name in _PORTS if (port := getattr(serving, f"{name}_port")))
    manager = ServiceManager.of_this_process(options.host, port)
    manager.tell_if_ready()
    look = LOOK_SECONDS if namespace._has_lease else None
    while True:
        intervals = [interval for interval in (manager.interval, look) if interval is not None]
        number = signals.wait(min(intervals, default=None))
        is_taken_over = namespace._is_taken_over()
        if number == RELOAD_SIGNAL:
            access.replace_in(serving)
        elif number is None and not is_taken_over:
            manager.tell_if_ready()
            manager.tell_if_alive()
        else:
            manager.tell("STOPPING=1")
            # Clients that are connected learn why their calls fail, and those that come find another server.
            number = number or signals.wait(TELL_SECONDS)
            if number is None:
                raise CommandError("another process took the namespace over; start this one again with --standby")
            return number


def _ports(options: Options) -> dict[str, int]:
    """Return the ports to open: those given, or the default ones if none is given."""
    named = {name: port for name in _PORTS if (port := getattr(options, f"{name}_port")) is not None}
    return named or {name: usual for name, (usual, _) in _PORTS.items() if usual is not None}


def _start(bus: OpenNamespace, options: Options, access: AccessRules) -> Server:
    from oxbus.server import serve  # noqa: PLC0415 -- not needed for `--help`

    ports = _ports(options)
    return serve(
        bus.namespace,
        host=options.host,
        rules=access.read(),
        certificate=options.certificate,
        private_key=options.private_key,
        certificate_out=options.tls_cert_out,
        amqp_port=ports.get("amqp"),
        amqps_port=ports.get("amqps"),
        http_port=ports.get("http"),
        https_port=ports.get("https"),
        console=not options.no_console,
        console_hosts=options.console_host,
    )


def _open(options: Options) -> OpenNamespace:
    if options.memory:
        return OpenNamespace(Namespace(config=options.config, slow_call_seconds=options.slow_call, **rules(options)))
    if options.data is None and not any(map(os.environ.get, (DATA_VARIABLE, CONNECTION_VARIABLE))):
        raise UsageError(f"specify what to serve: --data PLACE, --memory, or the variable {DATA_VARIABLE}")
    wanted = {"config": options.config, "slow_call_seconds": options.slow_call}
    for name in ("standby", "take_over"):
        if getattr(options, name):
            wanted[name] = True
    return open_namespace(options, **wanted)


def _announce(bus: OpenNamespace, serving: Server, options: Options) -> None:
    """Tell a standby where this server listens."""
    port = next(port for name in _PORTS if (port := getattr(serving, f"{name}_port")))
    if options.advertise is not None:
        bus.namespace._announce(options.advertise)
    elif options.host not in {"0.0.0.0", "::", ""}:  # noqa: S104 -- not bound here
        host = f"[{options.host}]" if ":" in options.host else options.host
        bus.namespace._announce(f"{host}:{port}")


def _print_address(serving: Server, options: Options) -> None:
    """Print the address at once: the parent process waits for it."""
    opened = {name: port for name in _PORTS if (port := getattr(serving, f"{name}_port"))}
    if options.json:
        print_json(
            {"connection_string": serving.connection_string} | {f"{name}_port": port for name, port in opened.items()}
        )
        return
    print(f"Serving on {options.host}: {', '.join(f'{name} {port}' for name, port in opened.items())}.")
    if AccessRules.of(options).is_development:
        print(f"Connection string: {serving.connection_string}")
    else:
        print(f"Connection string, with a key of the authorization rules: {_without_key(serving.connection_string)}")
    tier = rules(options)["tier"]
    if tier is not None:
        print(f"The limits of the tier {tier} apply; --tier none removes them.")
    print("Ctrl-C or SIGTERM ends it.", flush=True)


def _without_key(connection_string: str) -> str:
    """Return a connection string with its key masked."""
    parts = connection_string.split(";")
    return ";".join("SharedAccessKey=..." if part.startswith("SharedAccessKey=") else part for part in parts)
