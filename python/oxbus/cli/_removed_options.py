# SPDX-License-Identifier: Apache-2.0
"""Options of `oxbus serve` that other ones replaced: each still fails with a text that names the new form."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Final, NoReturn

from oxbus.cli._exit_codes import UsageError

if TYPE_CHECKING:
    from argparse import ArgumentParser

_GUIDE: Final = "docs/guide/one-server.md lists each old form beside its new one"

REMOVED_OPTIONS: Final = {
    "--bulk-port": "every port serves bulk clients; leave it out, and give them the connection string that is printed",
    "--bulk-key": "bulk clients use the keys of the server; use --sas-key, or --rules for keys with fewer rights",
    "--bulk-key-name": "bulk clients use the keys of the server; use --sas-key-name",
}
"""The options, and what to do in place of each."""

REMOVED_VARIABLE: Final = "OXBUS_BULK_KEY"


class _RemovedOption(argparse.Action):
    """An option that is gone."""

    def __call__(self, *_details: object) -> NoReturn:
        """Say what took its place."""
        (option,) = self.option_strings
        raise UsageError(f"{option} is gone: {REMOVED_OPTIONS[option]}. {_GUIDE}")


def add_removed_options(parser: ArgumentParser) -> None:
    """Let the parser know the options that are gone; its help does not show them."""
    for option in REMOVED_OPTIONS:
        parser.add_argument(option, action=_RemovedOption, nargs="?", help=argparse.SUPPRESS)


def reject_removed_variable() -> None:
    """Refuse the variable that is gone.

    Raises:
        UsageError: It is set.
    """
    if os.environ.get(REMOVED_VARIABLE):
        raise UsageError(
            f"the variable {REMOVED_VARIABLE} is gone: bulk clients use the keys of the server; "
            f"use OXBUS_SAS_KEY, or --rules for keys with fewer rights, and unset it. {_GUIDE}"
        )
