# SPDX-License-Identifier: Apache-2.0
"""Where a namespace is: a directory, or a store that a URL names."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from oxbus._oxbus import _is_store_url

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from argparse import Namespace as Options


class StoreUrl(str):
    """The URL of a store, such as ``s3://bucket/prefix``."""

    __slots__ = ()


class ServerString(str):
    """The connection string of a server."""

    __slots__ = ()


def place(text: str) -> Path | StoreUrl:
    """Return the place that an argument names; the type of such arguments."""
    return StoreUrl(text) if _is_store_url(text) else Path(text)


def add_storage_options(parser: ArgumentParser) -> None:
    """Add the option for the options of a store."""
    parser.add_argument(
        "--storage-option",
        dest="storage_options",
        action="append",
        default=[],
        type=_name_and_value,
        metavar="NAME=VALUE",
        help="for a namespace in a store: an option such as region=eu-west-1; may be repeated. Credentials are better "
        "in the environment, where other users do not see them",
    )


def storage_options(options: Options) -> dict[str, str] | None:
    """Return the options that `add_storage_options` added; None if there is none."""
    return dict(getattr(options, "storage_options", ())) or None


def _name_and_value(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError("write NAME=VALUE, such as region=eu-west-1")
    return name, value
