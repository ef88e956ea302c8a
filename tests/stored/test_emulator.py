# SPDX-License-Identifier: Apache-2.0
"""The quick start of the guide: three commands, with an emulator that has no container yet."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from engine_azurite import azurite, has_azurite
from oxbus import Namespace
from oxbus.management import ServiceBusAdministrationClient

OPTION = "use_emulator=true"


@pytest.mark.skipif(not has_azurite(), reason="`make engines` installs Azurite")
def test_a_container_of_the_emulator_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """`oxbus init` needs no other program; a second namespace finds the container."""
    with azurite() as place:
        address = place.options["endpoint"].rpartition("/")[0]
        monkeypatch.setenv("AZURITE_BLOB_STORAGE_URL", address)
        for url in ("az://fresh/shop", "az://fresh/other"):
            words = ["init", url, "--storage-option", OPTION]
            done = subprocess.run(
                [sys.executable, "-m", "oxbus.cli", *words], capture_output=True, text=True, check=False, env=os.environ
            )
            assert done.returncode == 0, done.stderr
            with Namespace(url, storage_options={"use_emulator": "true"}) as namespace:
                ServiceBusAdministrationClient(namespace).create_queue("orders")
