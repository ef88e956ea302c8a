# SPDX-License-Identifier: Apache-2.0
"""The commands that fetch a peer into this project's own cache."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from peers.contract import UnavailableError

CACHE = Path(__file__).parents[1] / ".cache" / "programs"
FETCH_SECONDS = 1200


def fetch(command: list[str], folder: Path, **environment: str) -> None:
    """Run a command in a folder; what it complains of becomes the reason why a peer is not here."""
    print(f"fetching a peer: {' '.join(part for part in command if '::' not in part and part != '-o')}", flush=True)
    try:
        subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **environment},
            check=True,
            capture_output=True,
            text=True,
            timeout=FETCH_SECONDS,
        )
    except subprocess.CalledProcessError as error:
        raise UnavailableError(f"{command[0]} failed: {error.stderr.strip()[-300:]}") from error
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"{command[0]} took longer than {FETCH_SECONDS} s") from error
