# SPDX-License-Identifier: Apache-2.0
"""How long `oxbus serve` takes from the start of its process until it says where it listens, and until it answers.

Run it alone: ``python bench/server_start.py``.
"""

from __future__ import annotations

import http.client
import json
import statistics
import subprocess
import sys
import time

STARTS = 20


def one_start() -> tuple[float, float]:
    """Milliseconds until the first line, and until the first answer."""
    command = [sys.executable, "-m", "oxbus.cli", "serve", "--memory", "--amqp-port", "0", "--json"]
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        ready = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", told["amqp_port"])
        connection.request("GET", "/health")
        assert json.loads(connection.getresponse().read()) == {"status": "healthy"}
        answered = time.perf_counter()
        connection.close()
        process.terminate()
    return (ready - began) * 1e3, (answered - began) * 1e3


def starts(count: int = STARTS) -> tuple[list[float], list[float]]:
    """Milliseconds of so many starts, until ready and until answered; the first one of all is not counted."""
    one_start()
    ready, answered = zip(*(one_start() for _ in range(count)), strict=True)
    return list(ready), list(answered)


def main() -> None:
    """Print medians and the slowest."""
    ready, answered = starts()
    for name, times in (("ready", ready), ("answered", answered)):
        print(f"{name}: median {statistics.median(times):.0f} ms, slowest {max(times):.0f} ms of {STARTS} starts")


if __name__ == "__main__":
    main()
