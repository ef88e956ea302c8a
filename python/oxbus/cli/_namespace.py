# SPDX-License-Identifier: Apache-2.0
"""How a command names its namespace, and how that is opened. Only `oxbus init` creates one."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from oxbus._client import ServiceBusClient
from oxbus._connection import parse
from oxbus._namespace_files import CATALOG, has_messages
from oxbus._oxbus import Namespace, _has_namespace, _shown_store_url
from oxbus._read_progress import ReadProgress, show_reading
from oxbus.cli._bus import Bus, ServerBus
from oxbus.cli._exit_codes import CommandError, UsageError
from oxbus.cli._place import ServerString, StoreUrl, add_storage_options, place, storage_options

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from argparse import Namespace as Options

    from oxbus.management import ServiceBusAdministrationClient

DATA_VARIABLE: Final = "OXBUS_DATA"
CONNECTION_VARIABLE: Final = "OXBUS_CONNECTION_STRING"
TIER_VARIABLE: Final = "OXBUS_TIER"
TIERS: Final = ("basic", "standard", "premium", "none")
PROFILES: Final = ("current", "2019", "2017")


def add_namespace_options(parser: ArgumentParser) -> None:
    """Add the options that select a namespace."""
    group = parser.add_argument_group("namespace")
    group.add_argument(
        "--data",
        type=place,
        metavar="PLACE",
        help=f"its directory, or the URL of its store, such as s3://bucket/prefix (default: ${DATA_VARIABLE})",
    )
    group.add_argument(
        "--connection-string",
        metavar="TEXT",
        help=f"its connection string: Endpoint=file:///DIR, or Endpoint=sb://HOST;... for a server "
        f"(default: ${CONNECTION_VARIABLE})",
    )
    group.add_argument(
        "--connection-verify",
        metavar="FILE",
        help="the certificates to trust when connecting to a server (default: those of the system)",
    )
    add_storage_options(parser)
    add_rules(parser)


def add_rules(parser: ArgumentParser, *, tier: str = "none") -> None:
    """Add the options for the rules of the service; `tier` is the default tier."""
    group = parser.add_argument_group("rules of the service")
    group.add_argument(
        "--tier",
        choices=TIERS,
        help=f"the tier whose limits apply; it is not stored (default: ${TIER_VARIABLE}, else {tier})",
    )
    parser.set_defaults(usual_tier=tier)
    group.add_argument("--profile", choices=PROFILES, default="current", help="the edition of the service's rules")


def rules(options: Options) -> dict[str, Any]:
    """Return the namespace options that `add_rules` added."""
    tier = options.tier or os.environ.get(TIER_VARIABLE) or options.usual_tier
    if tier not in TIERS:
        raise UsageError(f"${TIER_VARIABLE} must be {', '.join(TIERS)} or empty: `{tier}`")
    return {"tier": None if tier == "none" else tier, "profile": options.profile}


def directory(given: Path | None) -> Path:
    """Return the directory from an option or the environment; the option precedes the variable.

    Raises:
        UsageError: No directory is given, or a store.
    """
    found = own_place(given)
    if isinstance(found, StoreUrl):
        raise UsageError(
            "the namespace is in a store, and this command works on a directory: copy it into one with `oxbus copy`"
        )
    return found


def own_place(given: Path | StoreUrl | None, connection_string: str | None = None) -> Path | StoreUrl:
    """Return the directory or the store from the options or the environment; options precede variables.

    Raises:
        UsageError: No place is given, or two are, or the connection string names a server.
    """
    found = _place(given, connection_string)
    if isinstance(found, ServerString):
        raise UsageError(
            "the connection string names a server, and this command works on a directory: "
            "use Endpoint=file:///absolute/dir, or --data DIR, where no server has the namespace open"
        )
    return found


def _place(given: Path | StoreUrl | None, connection_string: str | None) -> Path | StoreUrl | ServerString:
    """Return where the namespace is, from the options or the environment."""
    for named, text, names in (
        (given, connection_string, "--data and --connection-string"),
        (
            os.environ.get(DATA_VARIABLE),
            os.environ.get(CONNECTION_VARIABLE),
            f"the variables {DATA_VARIABLE} and {CONNECTION_VARIABLE}",
        ),
    ):
        if named and text:
            raise UsageError(f"{names} cannot both be given: each names the namespace")
        if named:
            return named if isinstance(named, Path | StoreUrl) else place(named)
        if text:
            return place_of(text)
    raise UsageError(
        f"specify the place of the namespace: --data PLACE, or the variable {DATA_VARIABLE} or {CONNECTION_VARIABLE}"
    )


def place_of(connection_string: str) -> Path | StoreUrl | ServerString:
    """Return the place that a connection string names."""
    try:
        connection = parse(connection_string)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if connection.scheme == "memory":
        raise UsageError(
            "memory:// names a namespace inside one process, which a command cannot reach: "
            "use Endpoint=file:///absolute/dir, or --data DIR"
        )
    if connection.properties.entity_path is not None:
        raise UsageError(
            "the connection string has an EntityPath, and a command names its entity itself: omit EntityPath"
        )
    if connection.scheme == "sb":
        return ServerString(connection_string)
    name = connection.properties.fully_qualified_namespace
    return StoreUrl(name) if connection.scheme == "store" else Path(name)


class OpenNamespace(Bus):
    """An open namespace with its clients; a context manager that closes it.

    Args:
        namespace: The namespace.
        options: Options of the command. If it names a missing entity, the error lists the existing ones.
    """

    def __init__(self, namespace: Namespace, options: Options | None = None) -> None:
        super().__init__(options)
        self.namespace = namespace

    @cached_property
    def admin(self) -> ServiceBusAdministrationClient:
        """Its administration client."""
        from oxbus.management import ServiceBusAdministrationClient  # noqa: PLC0415 -- not needed for `--help`

        return ServiceBusAdministrationClient(self.namespace)

    @cached_property
    def client(self) -> ServiceBusClient:
        """Its client for messages."""
        return ServiceBusClient(self.namespace)

    def close(self) -> None:
        """Close the clients and the namespace."""
        super().close()
        self.namespace.close()


def open_bus(options: Options) -> Bus:
    """Open the namespace that a command names: that in a directory, or that of a server.

    Raises:
        CommandError: The directory is not a namespace.
        UsageError: Nothing, or too much, is named.
    """
    return open_place(_place(options.data, options.connection_string), options)


def open_place(named: Path | StoreUrl | ServerString, options: Options) -> Bus:
    """Open the namespace in a directory or a store, or that of the server that a connection string names.

    Raises:
        CommandError: The place has no namespace.
    """
    return ServerBus(named, options) if isinstance(named, ServerString) else _open(named, options)


def open_namespace(options: Options, **namespace_options: Any) -> OpenNamespace:
    """Open an existing namespace; `namespace_options` are further options of `Namespace`.

    Raises:
        CommandError: The directory is not a namespace.
    """
    named = own_place(options.data, getattr(options, "connection_string", None))
    return _open(named, options, **namespace_options)


def _open(path: Path | StoreUrl, options: Options, **namespace_options: Any) -> OpenNamespace:
    if isinstance(path, StoreUrl):
        if not _has_namespace(path, storage_options(options)):
            raise CommandError(
                f"there is no namespace in `{_shown_store_url(path)}`: specify another place, or create one with "
                "`oxbus init`"
            )
        return open_stored(path, options, **namespace_options, **rules(options))
    # Opening a namespace without its catalog raises an error that explains what to do.
    if not (path / CATALOG).exists() and not has_messages(path):
        raise CommandError(
            f"there is no namespace in `{path}`: specify another directory, or create one with `oxbus init`"
        )
    return open_directory(path, options, **namespace_options, **rules(options))


def open_stored(url: StoreUrl, options: Options, **namespace_options: Any) -> OpenNamespace:
    """Open the namespace in a store, or create it."""
    return OpenNamespace(Namespace(url, storage_options=storage_options(options), **namespace_options), options)


def open_directory(path: Path, options: Options | None = None, **namespace_options: Any) -> OpenNamespace:
    """Open a directory, with a progress bar if that takes long."""
    with ReadProgress(path, show_reading):
        return OpenNamespace(Namespace(path, **namespace_options), options)
