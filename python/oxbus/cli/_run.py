# SPDX-License-Identifier: Apache-2.0
"""From the process arguments to the exit code: every failure prints one line on standard error."""

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
        arguments: The arguments after the command name. None: those of the process.

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
            # Flush here, where a failure can still be reported; `--help` exits here, too.
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
    """Mute the log of the library, so that a failure is one line; `serve` has its own log options and is exempt."""
    if hasattr(options, "log_level"):
        yield
        return
    _mute_log(True)
    try:
        yield
    finally:
        _mute_log(False)


def _replace_closed_streams() -> None:
    """Replace streams that the shell closed, as with ``>&-``, by the null device."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115 (open until the process ends)


def _print_error(error: Exception, code: int) -> int:
    # Escape control characters that a name may contain.
    text = in_commands(" ".join(str(error).split())) or type(error).__name__
    print(f"oxbus: {text.encode('unicode_escape').decode() if not text.isprintable() else text}", file=sys.stderr)
    return code


def _discard_output() -> None:
    """If the remaining output cannot be written, keep the interpreter from trying again and printing an error."""
    try:
        sys.stdout.flush()
    except OSError:
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)
