# SPDX-License-Identifier: Apache-2.0
"""The authorization rules of a server: from a file, or one key from the environment."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from oxbus.cli._exit_codes import CommandError, UsageError
from oxbus.exceptions import ServiceBusError

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from argparse import Namespace as Options

    from oxbus.management import AuthorizationRule
    from oxbus.server import Server

SAS_KEY_VARIABLE: Final = "OXBUS_SAS_KEY"
RELOAD_SIGNAL: Final[signal.Signals | None] = getattr(signal, "SIGHUP", None)
"""The signal that makes the server read the file again. Windows has none."""

_NAME: Final = "RootManageSharedAccessKey"
_KEYS: Final = ("key_name", "primary_key", "secondary_key", "rights")


def add_access_rules(parser: ArgumentParser) -> None:
    """Add the options for authorization rules."""
    group = parser.add_argument_group(
        "access", "Without these options the emulator's development key has all rights, on loopback only."
    )
    group.add_argument(
        "--rules",
        type=Path,
        metavar="FILE",
        help="authorization rules: a JSON list of objects with key_name, primary_key, secondary_key and rights "
        "(Send, Listen, Manage); read again after SIGHUP",
    )
    group.add_argument(
        "--sas-key",
        metavar="KEY",
        help=f"a key with all rights (default: ${SAS_KEY_VARIABLE}, which, unlike "
        "this option, other users of this machine cannot see)",
    )
    group.add_argument("--sas-key-name", metavar="NAME", help=f"the name of that key (default: {_NAME})")


@dataclass(frozen=True, slots=True)
class AccessRules:
    """The origin of a server's authorization rules.

    Attributes:
        file: The file with all rules.
        name: The name of the single key that is used without a file.
        key: That key; None for the development key.
    """

    file: Path | None
    name: str
    key: str | None

    @classmethod
    def of(cls, options: Options) -> Self:
        """Read them from the options and the environment.

        Raises:
            UsageError: Both a file and a key are given.
        """
        key = options.sas_key or os.environ.get(SAS_KEY_VARIABLE) or None
        if options.rules is not None and options.sas_key:
            raise UsageError("--rules and --sas-key exclude each other: put the key into the file")
        return cls(options.rules, options.sas_key_name or _NAME, key)

    @property
    def is_development(self) -> bool:
        """Whether the server uses the emulator's public development key."""
        return self.file is None and self.key is None

    def read(self) -> list[AuthorizationRule]:
        """Return the rules; none for the development key.

        Raises:
            CommandError: The file does not contain a valid list of rules.
            OSError: The file cannot be read.
        """
        if self.file is not None:
            return _read(self.file)
        if self.key is None:
            return []
        from oxbus.management import AuthorizationRule  # noqa: PLC0415 -- not needed for `--help`

        return [AuthorizationRule(key_name=self.name, primary_key=self.key, rights=["Manage", "Send", "Listen"])]

    def replace_in(self, server: Server) -> None:
        """Read the file again and apply its rules. If it has a mistake, report it and keep the current rules."""
        from oxbus.server import replace_authorization_rules  # noqa: PLC0415 -- not needed for `--help`

        if self.file is None:
            return
        try:
            replace_authorization_rules(server, _read(self.file))
        except (CommandError, ServiceBusError, OSError, ValueError) as error:
            print(f"oxbus: the authorization rules are unchanged: {error}", file=sys.stderr, flush=True)


def _read(file: Path) -> list[AuthorizationRule]:
    try:
        rules = json.loads(file.read_bytes())
    except ValueError as error:
        raise CommandError(f"`{file}` is not valid JSON: {error}") from error
    if not isinstance(rules, list) or not rules:
        raise CommandError(f"`{file}` must be a list of at least one authorization rule")
    return [_rule(file, index, rule) for index, rule in enumerate(rules)]


def _rule(file: Path, index: int, rule: object) -> AuthorizationRule:
    from oxbus.management import AuthorizationRule  # noqa: PLC0415 -- not needed for `--help`

    where = f"`{file}`: rule {index}"
    if not isinstance(rule, dict):
        raise CommandError(f"{where} must be an object with {', '.join(_KEYS)}")
    if unknown := sorted(rule.keys() - set(_KEYS)):
        raise CommandError(f"{where} has an unknown key; use {', '.join(_KEYS)}: `{unknown[0]}`")
    if not isinstance(rule.get("rights"), list) or not all(isinstance(right, str) for right in rule["rights"]):
        raise CommandError(f"{where} must have rights: a list of Send, Listen or Manage")
    for key in _KEYS[:3]:
        if key in rule and not isinstance(rule[key], str):
            raise CommandError(f"{where}: {key} must be a string")
    if "key_name" not in rule or "primary_key" not in rule:
        raise CommandError(f"{where} must have key_name and primary_key")
    return AuthorizationRule(**rule)
