# SPDX-License-Identifier: Apache-2.0
"""From the arguments of the process to its exit code: every failure is one line on standard error."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from oxbus._oxbus import _mute_log
from oxbus.cli import _outcomes
from oxbus.cli._commands import make_parser
from oxbus.cli._parser import settle_place
from oxbus.cli._wording import in_commands
from oxbus.exceptions import ServiceBusError

if TYPE_CHECKING:
    from argparse import Namespace as Options
    from collections.abc import Iterator, Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: What follows the command's name; `None` takes them from the process.

    Returns:
        The exit code.
    """
    _replace_closed_streams()
    try:
        try:
            options = make_parser().parse_args(arguments)
            settle_place(options)
            if options.run is None:
                options.explain(sys.stderr)
                return _outcomes.COULD_NOT
            with _muted_log(options):
                code: int = options.run(options)
        finally:
            # Now, while a failure can still be told; `--help` leaves here too.
            sys.stdout.flush()
    except KeyboardInterrupt:
        return _outcomes.INTERRUPTED
    except BrokenPipeError:
        _let_go_of_output()
        return _outcomes.UNREAD
    except _outcomes.UsageError as error:
        return _say(error, _outcomes.COULD_NOT)
    except (_outcomes.CommandError, ServiceBusError, OSError, ValueError) as error:
        _let_go_of_output()
        return _say(error, _outcomes.WRONG)
    return code


@contextlib.contextmanager
def _muted_log(options: Options) -> Iterator[None]:
    """Keep the library from logging: a failure is one line. A command with a log of its own, `serve`, is left alone."""
    if hasattr(options, "log_level"):
        yield
        return
    _mute_log(True)
    try:
        yield
    finally:
        _mute_log(False)


def _replace_closed_streams() -> None:
    """Read nothing and write nowhere where a shell closed a stream, as with ``>&-``."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115 (for as long as the process)


def _say(error: Exception, code: int) -> int:
    # What a broken terminal would do with the bytes of a name is not shown either.
    text = in_commands(" ".join(str(error).split())) or type(error).__name__
    print(f"oxbus: {text.encode('unicode_escape').decode() if not text.isprintable() else text}", file=sys.stderr)
    return code


def _let_go_of_output() -> None:
    """When what is left cannot be written, keep the interpreter from trying that again, and complaining."""
    try:
        sys.stdout.flush()
    except OSError:
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)
