# SPDX-License-Identifier: Apache-2.0
"""The parser of the command line, with errors about commands."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from oxbus.cli._exit_codes import UsageError

if TYPE_CHECKING:
    from argparse import Namespace as Options


class CommandParser(argparse.ArgumentParser):
    """A parser that lists the existing commands when one is unknown."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if not isinstance(action, argparse._SubParsersAction) or value in action.choices:
            super()._check_value(action, value)
            return
        from difflib import get_close_matches  # noqa: PLC0415 -- only errors need it

        near = get_close_matches(str(value), action.choices, n=1)
        meant = f"; did you mean `{self.prog} {near[0]}`?" if near else ""
        self.error(f"unknown command `{self.prog} {value}`; the commands are {', '.join(action.choices)}{meant}")


def apply_global_data(options: Options) -> None:
    """Give `oxbus --data DIR COMMAND` the meaning of `oxbus COMMAND --data DIR`.

    Raises:
        UsageError: The command takes no directory, or another one is given after it.
    """
    place = options.place
    if place is None or options.command is None:
        return
    attribute = "directory" if options.command in {"init", "verify", "console"} else "data"
    if not hasattr(options, attribute):
        raise UsageError(
            f"`oxbus {options.command}` takes no --data; `oxbus {options.command} --help` shows its options"
        )
    if getattr(options, attribute) not in {None, place}:
        raise UsageError("the directory is given twice, before and after the command; give it once")
    if getattr(options, "memory", False):
        raise UsageError("--data and --memory cannot both be given")
    setattr(options, attribute, place)
