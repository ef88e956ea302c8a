# SPDX-License-Identifier: Apache-2.0
"""The process of an engine that tests start, and the wait until it accepts connections."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING

from stored_server import LIVENESS_SECONDS, LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


@contextlib.contextmanager
def running(
    words: Sequence[object],
    port: int,
    *,
    directory: str | None = None,
    user: str | None = None,
    environment: Mapping[str, str] | None = None,
    stop: signal.Signals = signal.SIGTERM,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program until the context ends. It begins when the program listens on its port."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [str(word) for word in words],
            stdout=output,
            stderr=output,
            cwd=directory,
            user=user,
            env={**os.environ, **(environment or {})},
        )
        try:
            end = time.monotonic() + LIVENESS_SECONDS
            while True:
                with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, port), timeout=1):
                    break
                output.seek(0)
                assert process.poll() is None, output.read().decode()
                assert time.monotonic() < end, output.read().decode()
                time.sleep(0.05)
            yield process
        finally:
            process.send_signal(stop)
            process.wait()
