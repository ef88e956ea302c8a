# SPDX-License-Identifier: Apache-2.0
"""`oxbus backup` and `oxbus restore`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from oxbus.cli._exit_codes import DONE
from oxbus.cli._output import print_json

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from argparse import Namespace as Options

_SHOW_SECONDS: Final = 0.2


def add_backup(parser: ArgumentParser) -> None:
    """Add the options of `backup`."""
    parser.set_defaults(run=_backup)
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="what to back up: a directory that no process has open, or Endpoint=sb://HOST;... for a running server",
    )
    parser.add_argument("target", metavar="TARGET", type=Path, help="the directory of the backups; created if missing")
    parser.add_argument("--keep", type=int, metavar="N", help="remove all but the newest N backups afterwards")
    parser.add_argument(
        "--connection-verify",
        metavar="FILE",
        help="the certificates to trust when connecting to a server (default: those of the system)",
    )
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")


def add_restore(parser: ArgumentParser) -> None:
    """Add the options of `restore`."""
    parser.set_defaults(run=_restore)
    parser.add_argument(
        "source",
        metavar="BACKUP",
        type=Path,
        help="a backup, or the directory of several, of which the newest is taken",
    )
    parser.add_argument("directory", metavar="DIR", type=Path, help="where to: a directory that is empty or missing")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")


def _backup(options: Options) -> int:
    from oxbus.backups import backup  # noqa: PLC0415 -- not needed for `--help`

    shown = _Shown("copied")
    done = backup(
        options.source, options.target, keep=options.keep, connection_verify=options.connection_verify, progress=shown
    )
    shown.end()
    if options.json:
        print_json(
            {
                "directory": str(done.directory),
                "files": done.files,
                "bytes": done.bytes,
                "copied_bytes": done.copied_bytes,
            }
        )
    else:
        print(f"{done.directory}: {done.files} files, {done.bytes:,} bytes, of which {done.copied_bytes:,} were copied")
    return DONE


def _restore(options: Options) -> int:
    from oxbus.backups import restore  # noqa: PLC0415 -- not needed for `--help`

    shown = _Shown("restored")
    found = restore(options.source, options.directory, progress=shown)
    shown.end()
    if options.json:
        print_json({"backup": str(found), "directory": str(options.directory)})
    else:
        print(f"The backup {found} is in {options.directory}")
    return DONE


class _Shown:
    """Shows the progress in a terminal, on one line."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._is_shown = sys.stderr.isatty()
        self._next = 0.0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if self._is_shown and now >= self._next:
            self._next = now + _SHOW_SECONDS
            text = f"{self._verb} {done / 1e6:,.1f} of {total / 1e6:,.1f} MB"
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Remove the line."""
        if self._is_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
