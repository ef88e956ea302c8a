# SPDX-License-Identifier: Apache-2.0
"""The directory that Kafka wants to have formatted before it starts."""

from __future__ import annotations

import base64
import subprocess
import uuid
from typing import TYPE_CHECKING

from peers.contract import UnavailableError

if TYPE_CHECKING:
    from pathlib import Path

    from peers.programs import Program


def cluster_id(drawn: bytes) -> str:
    """An id of 16 random bytes that does not begin with `-`, which Kafka's tool would take for an option."""
    first = drawn[0] & 0x7F  # the first half of the Base64 alphabet; `-` is in the second
    return base64.urlsafe_b64encode(bytes([first]) + drawn[1:]).decode("ascii").rstrip("=")


def new_cluster() -> str:
    """The id of a new cluster."""
    return cluster_id(uuid.uuid4().bytes)


def format_for(program: Program, settings: Path, seconds_max: float, cluster: str | None = None) -> None:
    """Format what the settings name, for a new cluster or for one with this id."""
    cluster = cluster or new_cluster()
    command = [str(program.file), "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(settings)]
    done = subprocess.run(
        command, env=program.environment, capture_output=True, text=True, check=False, timeout=seconds_max
    )
    if done.returncode:
        raise UnavailableError(f"Kafka's storage tool ended with {done.returncode}: {done.stderr.strip()[-300:]}")
