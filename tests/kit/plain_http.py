# SPDX-License-Identifier: Apache-2.0
"""Plain HTTP requests to a test server."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from signatures import KEY, KEY_NAME, token

if TYPE_CHECKING:
    from oxbus.server import Server

BATCH: Final = "application/vnd.microsoft.servicebus.json"
"""The content type of a batch."""


@dataclass(frozen=True)
class Answer:
    """A response of a server."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def properties(self) -> dict[str, Any]:
        """The decoded header `BrokerProperties`."""
        found: dict[str, Any] = json.loads(self.headers["brokerproperties"])
        return found


class Http:
    """A persistent connection with a token of the namespace."""

    def __init__(self, server: Server, *, name: str = KEY_NAME, key: str = KEY) -> None:
        self.connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
        self.token: str | None = token(f"sb://{server.host}", name, key)

    def __call__(self, method: str, path: str, body: bytes | str = b"", **headers: str) -> Answer:
        """Send a request and read the whole response."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token is not None:
            named.setdefault("Authorization", self.token)
        self.connection.request(method, path, body, named)
        answer = self.connection.getresponse()
        return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
