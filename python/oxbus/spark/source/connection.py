# SPDX-License-Identifier: Apache-2.0
"""Connections to the broker: one client per process and broker.

Spark's workers live for many tasks, so this module keeps the client; objects of a task are created again for each task.
No text of this package shows the key of a connection string.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

from oxbus._oxbus import BulkClient
from oxbus.spark.source.retries import Repeating

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_FORMS = "connectionString, connectionStringFile or connectionStringEnv"

_clients: dict[tuple[int, Connection], BulkClient] = {}
_clients_guard = threading.Lock()


@dataclass(frozen=True, kw_only=True)
class Connection:
    """The address of the broker and its key; picklable, so that tasks can connect."""

    string: str = field(repr=False)
    ca_file: str | None = None
    timeout_seconds: float = 60.0
    retry_seconds: float = 30.0

    def client(self) -> BulkClient:
        """Return the client of this process, whose calls are repeated while the broker is away."""
        key = (os.getpid(), self)
        with _clients_guard:
            client = _clients.get(key)
            if client is None:
                made = BulkClient(self.string, ca_file=self.ca_file, timeout=self.timeout_seconds)
                # It has the calls of the client.
                client = cast("BulkClient", Repeating(made, self.retry_seconds))
                _clients[key] = client
            return client


def connection_of(options: Mapping[str, Any]) -> Connection:
    """Create the connection that checked options describe.

    Raises:
        ValueError: There is not exactly one connection string, or it is empty.
    """
    given = [
        name
        for name in ("connectionString", "connectionStringFile", "connectionStringEnv")
        if options.get(name) is not None
    ]
    if not given:
        raise ValueError(f"the option connectionString is missing; give one of {_FORMS}")
    if len(given) > 1:
        raise ValueError(f"options {' and '.join(given)} are given; give only one of {_FORMS}")
    (name,) = given
    return Connection(
        string=_string(name, options[name]),
        ca_file=options.get("client.caFile"),
        timeout_seconds=options["client.timeout"],
        retry_seconds=options["client.retryTimeout"],
    )


def _string(name: str, value: str) -> str:
    if name == "connectionString":
        return value
    if name == "connectionStringEnv":
        text = os.environ.get(value, "").strip()
        if not text:
            raise ValueError(f"option connectionStringEnv: the environment of the driver has no variable `{value}`")
        return text
    try:
        text = Path(value).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"option connectionStringFile: the driver cannot read `{value}`: {error}") from None
    if not text:
        raise ValueError(f"option connectionStringFile: the file is empty: `{value}`")
    return text


def _forget_parent_clients() -> None:
    """Drop the parent's clients in a forked child: their connections belong to the parent."""
    global _clients_guard  # noqa: PLW0603 (the parent's guard may have been held when it forked)
    _clients_guard = threading.Lock()
    _clients.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parent_clients)
