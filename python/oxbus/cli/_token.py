# SPDX-License-Identifier: Apache-2.0
"""`oxbus token`: a shared access signature, for programs that have no key, such as curl or Prometheus."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from oxbus._connection import parse
from oxbus._remote._credentials import KeyCredential
from oxbus.cli import _values
from oxbus.cli._exit_codes import DONE, UsageError
from oxbus.cli._namespace import CONNECTION_VARIABLE
from oxbus.cli._output import print_json

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from argparse import Namespace as Options

_LONGEST: Final = timedelta(days=3650)
"""Ten years: a token cannot be taken back without a new key."""


def add_token(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.set_defaults(run=_token)
    parser.add_argument(
        "entity", nargs="?", default="", metavar="ENTITY", help="what the token is for (default: the whole namespace)"
    )
    parser.add_argument(
        "--connection-string",
        metavar="TEXT",
        help=f"the connection string of a server, with a key (default: ${CONNECTION_VARIABLE})",
    )
    parser.add_argument(
        "--valid-for",
        type=_values.duration,
        default=timedelta(hours=1),
        metavar="DURATION",
        help="how long it is valid, at most ten years (default: 1h)",
    )
    parser.add_argument("--json", action="store_true", help="print the token and its end as one JSON object")


def _token(options: Options) -> int:
    from oxbus.management._durations import NEVER  # noqa: PLC0415 -- not needed for `--help`

    text = options.connection_string or os.environ.get(CONNECTION_VARIABLE)
    if not text:
        raise UsageError(f"specify the server: --connection-string TEXT, or the variable {CONNECTION_VARIABLE}")
    try:
        properties = parse(text).properties
    except ValueError as error:
        raise UsageError(str(error)) from None
    name, key = properties.shared_access_key_name, properties.shared_access_key
    if not name or not key:
        raise UsageError("the connection string has no key: it needs SharedAccessKeyName=... and SharedAccessKey=...")
    if not timedelta() < options.valid_for <= _LONGEST or options.valid_for == NEVER:
        raise UsageError(f"--valid-for must be more than 0 and at most {_LONGEST.days}d: a token ends")
    host = properties.fully_qualified_namespace
    address = f"https://{host}/{options.entity.strip('/')}"
    ends = datetime.now(UTC) + options.valid_for
    token = KeyCredential(lambda: (name, key)).authorization(address, int(options.valid_for.total_seconds()))
    if options.json:
        print_json({"token": token, "expires_at_utc": ends.isoformat(timespec="seconds")})
    else:
        print(token)
    return DONE
