# SPDX-License-Identifier: Apache-2.0
"""The Azure SDK over a namespace of this process: a server, a client and an administration client."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import azure_pace
from azure_administration import AzureAdministration
from azure_clients import AzureClient
from oxbus.management import ServiceBusAdministrationClient
from oxbus.server import serve

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    import pytest
    from oxbus import Namespace


class AzureSdk:
    """Serves a namespace and creates clients of azure-servicebus; they close with it."""

    def __init__(self, namespace: Namespace, certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        azure_pace.hasten(monkeypatch)
        self._inside = ServiceBusAdministrationClient(namespace)
        self._certificate = certificate
        self._opened = ExitStack()
        self._server = self._opened.enter_context(serve(namespace, certificate_out=certificate))

    @property
    def client(self) -> AzureClient:
        """A client."""
        return self._opened.enter_context(AzureClient(self._server))

    @property
    def administration(self) -> AzureAdministration:
        """An administration client."""
        return self._opened.enter_context(AzureAdministration(self._server, self._certificate, self._inside))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exit_info: object) -> None:
        self._opened.close()
