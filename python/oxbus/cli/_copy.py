# SPDX-License-Identifier: Apache-2.0
"""`oxbus copy`: copy entities and messages from one namespace into another."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from oxbus.cli._exit_codes import DONE, UsageError
from oxbus.cli._namespace import add_rules, open_place, place_of
from oxbus.cli._output import print_json, printable
from oxbus.cli._place import ServerString, StoreUrl, add_storage_options
from oxbus.cli._table import print_table

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from argparse import Namespace as Options

    from oxbus._copy import Counts

_COLUMNS: Final = {
    "messages": "messages",
    "dead_letters": "dead letters",
    "session_states": "session states",
    "expired": "expired",
    "were_deferred": "were deferred",
    "left": "left in source",
}
_DEFAULTS: Final = dict.fromkeys(("session states", "expired", "were deferred", "left in source"), "0")
"""Values of columns that are left out where no entity has another."""
_SHOW_SECONDS: Final = 0.2


def add_copy(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.set_defaults(run=_copy)
    for name, text in (("source", "where from; nothing changes there"), ("target", "where to")):
        parser.add_argument(
            name, metavar=name.upper(), help=f"{text}: a directory, the URL of a store, or Endpoint=sb://HOST;..."
        )
    parser.add_argument(
        "--entity",
        dest="entities",
        action="append",
        default=[],
        metavar="NAME",
        help="only this queue or topic; may be repeated",
    )
    parser.add_argument(
        "--connection-verify",
        metavar="FILE",
        help="the certificates to trust when connecting to a server (default: those of the system)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_storage_options(parser)
    add_rules(parser)


def _copy(options: Options) -> int:
    from oxbus._copy import Side, copy_namespace  # noqa: PLC0415 -- not needed for `--help`

    places = [_place(text) for text in (options.source, options.target)]
    if places[0] == places[1]:
        raise UsageError("source and target are the same namespace; name another target")
    with ExitStack() as opened:
        source, target = (opened.enter_context(open_place(place, options)) for place in places)
        progress = _Shown()
        done = copy_namespace(
            Side(source.admin, source.client),
            Side(target.admin, target.client),
            only=options.entities,
            progress=progress,
        )
        progress.end()
    if options.json:
        print_json({path: asdict(counts) for path, counts in done.items()})
        return DONE
    rows = [[path, *(getattr(counts, name) for name in _COLUMNS)] for path, counts in done.items()]
    print_table(["entity", *_COLUMNS.values()], rows, right=tuple(_COLUMNS.values()), defaults=_DEFAULTS)
    return DONE


def _place(text: str) -> Path | StoreUrl | ServerString:
    """Return a directory, a store, or the connection string of a server."""
    is_path = "://" not in text and not text.lower().startswith("endpoint=")
    named = Path(text) if is_path else place_of(text)
    return named.resolve() if isinstance(named, Path) else named


class _Shown:
    """Shows the progress in a terminal, on one line."""

    def __init__(self) -> None:
        self._is_shown = sys.stderr.isatty()
        self._next = 0.0

    def __call__(self, path: str, counts: Counts) -> None:
        now = time.monotonic()
        if self._is_shown and now >= self._next:
            self._next = now + _SHOW_SECONDS
            text = f"{printable(path)}: {counts.messages:,} messages, {counts.dead_letters:,} dead letters"
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Remove the line."""
        if self._is_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
