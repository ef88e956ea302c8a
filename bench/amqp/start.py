# SPDX-License-Identifier: Apache-2.0
"""The time from the start of the process of `oxbus serve` until it prints where it listens, and until it responds."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time


def one_start() -> dict[str, float]:
    """Milliseconds until the first line, and until the first answer."""
    command = [sys.executable, "-m", "oxbus.cli", "serve", "--memory", "--amqp-port", "0", "--json"]
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        started = json.loads(process.stdout.readline())
        ready = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", started["amqp_port"])
        connection.request("GET", "/health")
        assert json.loads(connection.getresponse().read()) == {"status": "healthy"}
        answered = time.perf_counter()
        connection.close()
        process.terminate()
    return {"ready_ms": (ready - began) * 1e3, "answered_ms": (answered - began) * 1e3}
