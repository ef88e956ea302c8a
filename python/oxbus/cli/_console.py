# SPDX-License-Identifier: Apache-2.0
"""`oxbus console`: the console of a directory that nobody has open, for looking only."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

from oxbus._oxbus import Namespace
from oxbus.cli import _values
from oxbus.cli._exit_codes import DONE, INTERRUPTED
from oxbus.cli._namespace import directory
from oxbus.cli._output import print_json
from oxbus.cli._signals import Signals

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from argparse import Namespace as Options


def add_console(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.set_defaults(run=_console)
    parser.add_argument(
        "directory",
        type=Path,
        nargs="?",
        metavar="DIR",
        help="the namespace (default: $OXBUS_DATA); no process may have it open",
    )
    parser.add_argument(
        "--port", type=_values.amount, default=5380, metavar="PORT", help="the port (default: 5380; 0 for any free one)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def _console(options: Options) -> int:
    from oxbus.server import _serve_view  # noqa: PLC0415 -- not needed for `--help`

    place = directory(options.directory)
    with (
        Signals(signal.SIGTERM, signal.SIGINT) as signals,
        Namespace._view(place) as view,
        _serve_view(view, port=options.port) as serving,
    ):
        address = f"http://{serving.host}:{serving.port}/$console/"
        if options.json:
            print_json({"address": address})
        else:
            print(f"The console of {place}, for looking only: {address}")
            print("Sign in with the name RootManageSharedAccessKey and the key SAS_KEY_VALUE.")
            print("Ctrl-C or SIGTERM ends it. Nothing in the directory changes.", flush=True)
        number = signals.wait(None)
        view._close_as_it_is()
    return INTERRUPTED if number == signal.SIGINT else DONE
