# SPDX-License-Identifier: Apache-2.0
"""Azurite, the emulator of Azure's object storage, which `make engines` installs."""

from __future__ import annotations

import contextlib
import shutil
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Final

from engine_process import running
from store_signatures import azure_headers
from stored_server import LIVENESS_SECONDS, LOOPBACK, StoredPlace, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

AZURITE: Final = Path(__file__).parents[1] / "engines/node_modules/azurite/dist/src/blob/main.js"
ACCOUNT: Final = "devstoreaccount1"
KEY: Final = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The account and the key of every emulator."""

CONTAINER: Final = "messages"


def has_azurite() -> bool:
    """Return whether Azurite can be started."""
    return AZURITE.exists() and shutil.which("node") is not None


@contextlib.contextmanager
def azurite() -> Iterator[StoredPlace]:
    """Run Azurite with an empty container."""
    port = free_port()
    words = ["node", AZURITE, "--blobHost", LOOPBACK, "--blobPort", port, "--inMemoryPersistence", "--silent"]
    with running([*words, "--skipApiVersionCheck", "--disableTelemetry"], port):
        _create_container(port)
        endpoint = f"http://{LOOPBACK}:{port}/{ACCOUNT}"
        options = {"account_name": ACCOUNT, "account_key": KEY, "endpoint": endpoint}
        yield StoredPlace(f"az://{CONTAINER}/shop", options)


def _create_container(port: int) -> None:
    path = f"/{ACCOUNT}/{CONTAINER}"
    headers = azure_headers(ACCOUNT, KEY, path, query="\nrestype:container")
    url = f"http://{LOOPBACK}:{port}{path}?restype=container"
    request = urllib.request.Request(url, method="PUT", headers=headers)
    with urllib.request.urlopen(request, timeout=LIVENESS_SECONDS):  # noqa: S310
        pass
