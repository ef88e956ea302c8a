# SPDX-License-Identifier: Apache-2.0
"""The quick start of the guide: three commands, with an emulator that has no container yet."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest
from engine_azurite import azurite
from engines import missing
from stored_server import StoredPlace, StoredServer

WITHOUT_AZURITE = missing("azurite")


@pytest.mark.skipif(WITHOUT_AZURITE is not None, reason=str(WITHOUT_AZURITE))
def test_a_container_of_the_emulator_is_made() -> None:
    """`oxbus init` and `oxbus serve` need no other program; a second namespace finds the container."""
    with azurite() as engine:
        address = engine.options["endpoint"].rpartition("/")[0]
        shop = StoredPlace("az://fresh/shop", {"use_emulator": "true"}, {"AZURITE_BLOB_STORAGE_URL": address})
        for place in (shop, replace(shop, url="az://fresh/other")):
            words = ["init", place.url, "--storage-option", "use_emulator=true"]
            run = [sys.executable, "-m", "oxbus.cli", *words]
            environment = {**os.environ, **place.environment}
            done = subprocess.run(run, capture_output=True, text=True, check=False, env=environment)
            assert done.returncode == 0, done.stderr
            with StoredServer(place, standby=False) as server:
                server.wait_until_serving()
