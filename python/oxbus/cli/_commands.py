# SPDX-License-Identifier: Apache-2.0
"""The command tree. Building it imports nothing that `--help` does not need."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from oxbus.cli._backup import add_backup, add_restore
from oxbus.cli._console import add_console
from oxbus.cli._copy import add_copy
from oxbus.cli._dead_letters import add_dead_letter_commands
from oxbus.cli._demo import add_demo
from oxbus.cli._entity_commands import add_entity_commands
from oxbus.cli._init import add_init
from oxbus.cli._parser import CommandParser
from oxbus.cli._peek import add_peek
from oxbus.cli._receive import add_receive
from oxbus.cli._reservations import add_reservation_commands
from oxbus.cli._rule_commands import add_rule_commands
from oxbus.cli._send import add_send
from oxbus.cli._serve import add_serve
from oxbus.cli._stages import add_stage_commands
from oxbus.cli._stats import add_stats
from oxbus.cli._token import add_token
from oxbus.cli._verify import add_verify

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_EPILOG: Final = (
    "Exit codes: 0 done, 1 failed or a problem was found, 2 wrong usage or a missing package. "
    "A failure prints one line on standard error."
)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line.

    Its result has `run`, the function of the command. `run` is None without a command; then `explain` prints the help.
    """
    parser = CommandParser(
        prog="oxbus",
        description="Service Bus queues and topics in a directory, or on a server.",
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    parser.add_argument(
        "--data",
        dest="place",
        type=Path,
        metavar="DIR",
        help="the directory of the namespace; also accepted after the command",
    )
    parser.set_defaults(run=None, explain=parser.print_help)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    add_init(_add(commands, "init", "create a namespace in a directory"))
    for kind in ("queue", "topic", "subscription"):
        add_entity_commands(_group(commands, kind, f"create, show, update and delete {kind}s"), kind)
    add_rule_commands(_group(commands, "rule", "create, show, update and delete the rules of a subscription"))
    add_send(_add(commands, "send", "send messages to a queue or a topic"))
    add_receive(_add(commands, "receive", "receive messages and write their bodies"))
    add_peek(_add(commands, "peek", "show messages without removing them"))
    add_dead_letter_commands(_group(commands, "deadletter", "show, resubmit and delete dead letters"))
    add_reservation_commands(_group(commands, "reservation", "show and cancel the reservations of consumers"))
    add_stage_commands(_group(commands, "stage", "show and discard the stages of staged sends"))
    add_stats(_add(commands, "stats", "count messages and show partition health"))
    add_copy(_add(commands, "copy", "copy entities and messages into another namespace, or go on with a copy"))
    add_backup(_add(commands, "backup", "back up a namespace, also that of a running server"))
    add_restore(_add(commands, "restore", "write the namespace of a backup into a directory"))
    add_serve(_add(commands, "serve", "serve a namespace over the network"))
    add_console(_add(commands, "console", "show a directory that nobody has open in a browser, without changing it"))
    add_token(_add(commands, "token", "sign a token for a program that has no key, such as curl or Prometheus"))
    add_verify(_add(commands, "verify", "check every checksum of a namespace, without changing it"))
    _add_salvage(commands)
    add_demo(commands)
    return parser


class _Version(argparse.Action):
    """Print the version. The lookup is slow, so only `--version` does it."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,  # noqa: ARG002
        values: str | Sequence[Any] | None,  # noqa: ARG002
        option_string: str | None = None,  # noqa: ARG002
    ) -> None:
        from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

        try:
            print(f"oxbus {version('oxbus')}")
        except PackageNotFoundError:
            print("oxbus (not installed)")
        parser.exit()


def _add(commands: Any, name: str, explanation: str) -> argparse.ArgumentParser:
    """Add a command with the same description in the list of commands and in its own help."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=explanation,
        description=f"{explanation[0].upper()}{explanation[1:]}.",
        epilog=_EPILOG,
        # An abbreviation could change its meaning when an option is added.
        allow_abbrev=False,
    )
    return parser


def _group(commands: Any, name: str, explanation: str) -> Callable[..., argparse.ArgumentParser]:
    """Add a command with subcommands. Return a function that adds a subcommand by its name, its help and its `run`."""
    group = _add(commands, name, explanation)
    group.set_defaults(explain=group.print_help)
    inner = group.add_subparsers(dest="verb", metavar="COMMAND")

    def add(verb: str, explanation: str, run: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        parser = _add(inner, verb, explanation)
        parser.set_defaults(run=run)
        return parser

    return add


def _add_salvage(commands: Any) -> None:
    salvage = commands.add_parser(
        "salvage",
        help="copy the intact part of a damaged namespace",
        description=(
            "Reads the namespace in DIR without changing it, writes its intact part into a new namespace in TARGET, "
            "and lists the losses of each partition. Messages whose completion is lost are available again. "
            "Exit code 1 if anything is lost."
        ),
    )
    salvage.set_defaults(run=_salvage)
    salvage.add_argument("source", type=Path, metavar="DIR", help="the damaged namespace; no process may have it open")
    salvage.add_argument(
        "target",
        type=Path,
        nargs="?",
        metavar="TARGET",
        help="where to write the copy (default: DIR with the suffix .salvaged)",
    )
    salvage.add_argument("--json", action="store_true", help="print the result as one JSON object")


def _salvage(options: argparse.Namespace) -> int:
    from oxbus._salvage import main  # noqa: PLC0415 -- only this command needs it

    return main(options.source, options.target, as_json=options.json)
