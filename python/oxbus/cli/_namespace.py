# SPDX-License-Identifier: Apache-2.0
"""The namespace that a command works on. Only `oxbus init` creates one."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from oxbus._client import ServiceBusClient
from oxbus._namespace_files import CATALOG, has_messages
from oxbus._oxbus import Namespace
from oxbus._read_progress import ReadProgress, show_reading
from oxbus.cli._exit_codes import CommandError, UsageError
from oxbus.exceptions import MessagingEntityNotFoundError

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from argparse import Namespace as Options

    from oxbus.management import ServiceBusAdministrationClient

DATA_VARIABLE: Final = "OXBUS_DATA"
TIER_VARIABLE: Final = "OXBUS_TIER"
TIERS: Final = ("basic", "standard", "premium", "none")
PROFILES: Final = ("current", "2019", "2017")


def add_namespace_options(parser: ArgumentParser) -> None:
    """Add the options that select a namespace."""
    group = parser.add_argument_group("namespace")
    group.add_argument("--data", type=Path, metavar="DIR", help=f"its directory (default: ${DATA_VARIABLE})")
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
    """Return the directory from the option or the environment."""
    named = given if given is not None else os.environ.get(DATA_VARIABLE)
    if not named:
        raise UsageError(f"specify the directory of the namespace: --data DIR, or the variable {DATA_VARIABLE}")
    return Path(named)


class OpenNamespace:
    """An open namespace with its clients; a context manager that closes it.

    Args:
        namespace: The namespace.
        options: Options of the command. If it names a missing entity, the error lists the existing ones.
    """

    def __init__(self, namespace: Namespace, options: Options | None = None) -> None:
        self.namespace = namespace
        self._options = options
        self.client = ServiceBusClient(namespace)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        missing = None
        if isinstance(error, MessagingEntityNotFoundError) and self._options is not None:
            from oxbus.cli._missing import missing_entity  # noqa: PLC0415 -- not needed for `--help`

            missing = missing_entity(self.admin, self._options)
        self.client.close()
        self.namespace.close()
        if missing is not None:
            raise CommandError(missing) from error

    @cached_property
    def admin(self) -> ServiceBusAdministrationClient:
        """Its administration client."""
        from oxbus.management import ServiceBusAdministrationClient  # noqa: PLC0415 -- not needed for `--help`

        return ServiceBusAdministrationClient(self.namespace)


def open_namespace(options: Options, **namespace_options: Any) -> OpenNamespace:
    """Open an existing namespace; `namespace_options` are further options of `Namespace`.

    Raises:
        CommandError: The directory is not a namespace.
    """
    path = directory(options.data)
    # Opening a namespace without its catalog raises an error that explains what to do.
    if not (path / CATALOG).exists() and not has_messages(path):
        raise CommandError(
            f"there is no namespace in `{path}`: specify another directory, or create one with `oxbus init`"
        )
    return open_directory(path, options, **namespace_options, **rules(options))


def open_directory(path: Path, options: Options | None = None, **namespace_options: Any) -> OpenNamespace:
    """Open a directory, with a progress bar if that takes long."""
    with ReadProgress(path, show_reading):
        return OpenNamespace(Namespace(path, **namespace_options), options)
