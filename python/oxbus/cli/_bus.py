# SPDX-License-Identifier: Apache-2.0
"""What a command works on: a namespace in a directory, or the namespace of a server."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self

from oxbus._client import ServiceBusClient
from oxbus.cli._exit_codes import CommandError, UsageError
from oxbus.exceptions import MessagingEntityNotFoundError

if TYPE_CHECKING:
    from argparse import Namespace as Options

    from oxbus.management import ServiceBusAdministrationClient

_RETRIES: Final = 1
"""A person waits for the command, so it fails sooner than a program."""


class Bus:
    """A namespace with its clients; a context manager that closes them.

    Args:
        options: Options of the command. If it names a missing entity, the error lists the existing ones.
    """

    def __init__(self, options: Options | None = None) -> None:
        self._options = options

    @cached_property
    def admin(self) -> ServiceBusAdministrationClient:
        """Its administration client."""
        raise NotImplementedError

    @cached_property
    def client(self) -> ServiceBusClient:
        """Its client for messages."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the clients that the command used, and whatever the bus has opened."""
        for name in ("client", "admin"):
            if name in self.__dict__:
                self.__dict__[name].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        missing = None
        if isinstance(error, MessagingEntityNotFoundError) and self._options is not None:
            from oxbus.cli._missing import missing_entity  # noqa: PLC0415 -- not needed for `--help`

            missing = missing_entity(self.admin, self._options)
        self.close()
        if missing is not None:
            raise CommandError(missing) from error


class ServerBus(Bus):
    """The namespace of a server."""

    def __init__(self, connection_string: str, options: Options) -> None:
        super().__init__(options)
        if options.tier is not None or options.profile != "current":
            raise UsageError("a server has its own tier and profile: omit --tier and --profile")
        self._connection_string = connection_string
        self._connection: dict[str, Any] = {"retry_total": _RETRIES, "connection_verify": options.connection_verify}

    @cached_property
    def admin(self) -> ServiceBusAdministrationClient:
        """Its administration client."""
        from oxbus.management import ServiceBusAdministrationClient  # noqa: PLC0415 -- not needed for `--help`

        return ServiceBusAdministrationClient.from_connection_string(self._connection_string, **self._connection)

    @cached_property
    def client(self) -> ServiceBusClient:
        """Its client for messages."""
        return ServiceBusClient.from_connection_string(self._connection_string, **self._connection)
