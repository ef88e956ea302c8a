# SPDX-License-Identifier: Apache-2.0
"""Removed options of `oxbus serve`: each fails with a text that names its replacement."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Final, NoReturn

from oxbus.cli._exit_codes import UsageError

if TYPE_CHECKING:
    from argparse import ArgumentParser

_GUIDE: Final = "docs/guide/one-server.md lists each old form with its replacement"

REMOVED_OPTIONS: Final = {
    "--bulk-port": "every port serves bulk clients; omit it, and give them the printed connection string",
    "--bulk-key": "bulk clients use the keys of the server; use --sas-key, or --rules for keys with fewer rights",
    "--bulk-key-name": "bulk clients use the keys of the server; use --sas-key-name",
}
"""The removed options with their replacements."""

REMOVED_VARIABLE: Final = "OXBUS_BULK_KEY"


class _RemovedOption(argparse.Action):
    """An option that was removed."""

    def __call__(self, *_details: object) -> NoReturn:
        """Raise an error that names the replacement."""
        (option,) = self.option_strings
        raise UsageError(f"{option} was removed: {REMOVED_OPTIONS[option]}. {_GUIDE}")


def add_removed_options(parser: ArgumentParser) -> None:
    """Register the removed options; the help does not show them."""
    for option in REMOVED_OPTIONS:
        parser.add_argument(option, action=_RemovedOption, nargs="?", help=argparse.SUPPRESS)


def reject_removed_variable() -> None:
    """Reject the removed environment variable.

    Raises:
        UsageError: The variable is set.
    """
    if os.environ.get(REMOVED_VARIABLE):
        raise UsageError(
            f"the variable {REMOVED_VARIABLE} was removed: bulk clients use the keys of the server; "
            f"use OXBUS_SAS_KEY, or --rules for keys with fewer rights, and unset it. {_GUIDE}"
        )
