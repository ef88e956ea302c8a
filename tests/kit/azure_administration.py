# SPDX-License-Identifier: Apache-2.0
"""The administration client of azure-servicebus, connected to a server, with the interface of oxbus.

Calls, options and attributes that only oxbus has go to a client in this process: tests need them for setup and
checks, and the SDK lacks them.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from azure.servicebus.management import ServiceBusAdministrationClient
from azure_values import Proxy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from oxbus.management import ServiceBusAdministrationClient as InsideClient
    from oxbus.server import Server


class AzureAdministration(Proxy):
    """An administration client of azure-servicebus."""

    _inside: InsideClient

    def __init__(self, server: Server, certificate: Path, inside: InsideClient) -> None:
        super().__init__(
            ServiceBusAdministrationClient.from_connection_string(
                server.connection_string, connection_verify=str(certificate), retry_total=0
            )
        )
        object.__setattr__(self, "_inside", inside)

    def __getattr__(self, name: str) -> Any:
        if not hasattr(self._theirs, name):
            return getattr(self._inside, name)
        over_http = super().__getattr__(name)
        known = inspect.signature(getattr(self._theirs, name)).parameters

        def call(*arguments: Any, **options: Any) -> Any:
            if not known.keys() >= options.keys():
                return getattr(self._inside, name)(*arguments, **options)
            found = over_http(*arguments, **options)
            if isinstance(found, Proxy):
                inside = getattr(self._inside, name.replace("create_", "get_"))
                return AzureProperties(found._theirs, lambda: inside(*arguments))
            return found

        return call


class AzureProperties(Proxy):
    """Properties of an entity; those that only oxbus has show current values and are read-only."""

    _ask_inside: Callable[[], Any]

    def __init__(self, theirs: Any, ask_inside: Callable[[], Any]) -> None:
        super().__init__(theirs)
        object.__setattr__(self, "_ask_inside", ask_inside)

    def __getattr__(self, name: str) -> Any:
        return super().__getattr__(name) if hasattr(self._theirs, name) else getattr(self._ask_inside(), name)
