# SPDX-License-Identifier: Apache-2.0
"""Run samples of azure-servicebus, each in a forked process that has the SDK loaded.

    python run_samples.py < jobs.json

A job has the `name` of the sample, its `file` and its `environment`; `until` is the last output of a sample that does
not end by itself. The result is a line of JSON for each: `name`, exit `status` (null if it did not end) and output
`text`.

For samples that sign in to Azure Active Directory, the client is created from the emulator's connection string
instead; those with a key or a token use AMQP without TLS. Sleeps of minutes are shortened.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import runpy
import sys
import time
import traceback
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import azure.servicebus
import azure.servicebus.aio
import azure.servicebus.aio.management
import azure.servicebus.management

AT_ONCE = 16
LOOK_SECONDS = 0.1
SLEEP_SECONDS_MAX = 2.0
SAMPLE_SECONDS_MAX = 100


class Identity:
    """A replacement for `DefaultAzureCredential`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return

    async def close(self) -> None:
        """Do nothing."""


def of_emulator(client: Any) -> type:
    """A subclass that creates clients for the emulator."""

    class OfEmulator:
        from_connection_string = client.from_connection_string

        def __new__(cls, fully_qualified_namespace: str, credential: object, **options: Any) -> Any:
            if isinstance(credential, Identity):
                return client.from_connection_string(os.environ["SERVICEBUS_CONNECTION_STR"], **options)
            return client(fully_qualified_namespace, credential, use_tls=False, **options)

    return OfEmulator


def stand_in() -> None:
    """Replace classes that connect to Azure by ones that connect to the emulator."""
    for name in ("azure.identity", "azure.identity.aio"):
        sys.modules[name] = module = types.ModuleType(name)
        vars(module)["DefaultAzureCredential"] = Identity
    packages: tuple[Any, ...] = (azure.servicebus, azure.servicebus.aio)
    for package in packages:
        package.ServiceBusClient = of_emulator(package.ServiceBusClient)
        management = package.management
        management.ServiceBusAdministrationClient = of_emulator(management.ServiceBusAdministrationClient)
    sleep, sleep_async = time.sleep, asyncio.sleep

    def shorter(seconds: Any) -> None:
        sleep(min(seconds, SLEEP_SECONDS_MAX))

    async def shorter_async(delay: float, result: Any = None) -> Any:
        return await sleep_async(min(delay, SLEEP_SECONDS_MAX), result)

    time.sleep = shorter
    asyncio.sleep = shorter_async


def _in_child(file: str, environment: dict[str, str], output: str) -> None:
    os.environ.update(environment)
    sink = os.open(output, os.O_WRONLY | os.O_APPEND)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    try:
        runpy.run_path(file, run_name="__main__")
        status = 0
    except BaseException:  # noqa: BLE001 -- whatever ends a sample is its answer
        traceback.print_exc()
        status = 1
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)  # do not run exit handlers of the parent


def run(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Run one sample to its end."""
    output = folder / job["name"].replace("/", "-")
    output.touch()
    process = multiprocessing.get_context("fork").Process(
        target=_in_child, args=(job["file"], job["environment"], str(output))
    )
    began = time.monotonic()
    process.start()
    status = None
    while status is None and time.monotonic() < began + SAMPLE_SECONDS_MAX:
        process.join(LOOK_SECONDS)
        status = process.exitcode
        if status is None and job["until"] and job["until"] in _text(output):
            status = 0
    process.kill()
    process.join()
    return {"name": job["name"], "status": status, "text": _text(output), "seconds": time.monotonic() - began}


def _text(output: Path) -> str:
    return output.read_text(encoding="utf-8", errors="replace")


def main() -> None:
    """Run the jobs from standard input."""
    stand_in()
    jobs = json.load(sys.stdin)
    with TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as threads:
        for answer in threads.map(lambda job: run(job, Path(folder)), jobs):
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
