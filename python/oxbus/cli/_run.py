# SPDX-License-Identifier: Apache-2.0
"""From the arguments of the process to its exit code: every failure is one line on standard error."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from oxbus._oxbus import _mute_log
from oxbus.cli import _exit_codes
from oxbus.cli._commands import make_parser
from oxbus.cli._parser import apply_global_data
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
            apply_global_data(options)
            if options.run is None:
                options.explain(sys.stderr)
                return _exit_codes.USAGE
            with _muted_log(options):
                code: int = options.run(options)
        finally:
            # Now, while a failure can still be told; `--help` leaves here too.
            sys.stdout.flush()
    except KeyboardInterrupt:
        return _exit_codes.INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return _exit_codes.BROKEN_PIPE
    except _exit_codes.UsageError as error:
        return _print_error(error, _exit_codes.USAGE)
    except (_exit_codes.CommandError, ServiceBusError, OSError, ValueError) as error:
        _discard_output()
        return _print_error(error, _exit_codes.FAILED)
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


def _print_error(error: Exception, code: int) -> int:
    # What a broken terminal would do with the bytes of a name is not shown either.
    text = in_commands(" ".join(str(error).split())) or type(error).__name__
    print(f"oxbus: {text.encode('unicode_escape').decode() if not text.isprintable() else text}", file=sys.stderr)
    return code


def _discard_output() -> None:
    """When what is left cannot be written, keep the interpreter from trying that again, and complaining."""
    try:
        sys.stdout.flush()
    except OSError:
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)
