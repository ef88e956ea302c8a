# SPDX-License-Identifier: Apache-2.0
"""Run samples of azure-servicebus, each in a forked process that has its package loaded.

    python run_samples.py PACKAGE < jobs.json

PACKAGE is `azure.servicebus`, or the package that takes its place in the text of the samples.

A job has the `name` of the sample, its `file` and its `environment`; `until` is the last output of a sample that does
not end by itself. The result is a line of JSON for each: `name`, exit `status` (null if it did not end) and output
`text`.

For samples that sign in to Azure Active Directory, the client is created from the emulator's connection string
instead; those of the SDK with a key or a token use AMQP without TLS. Sleeps of minutes are shortened.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import multiprocessing
import os
import sys
import time
import traceback
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

SDK = "azure.servicebus"
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


def of_emulator(client: Any, **usual: Any) -> type:
    """A class that creates clients for the emulator, with the usual options."""

    class OfEmulator:
        from_connection_string = client.from_connection_string

        def __new__(cls, fully_qualified_namespace: str, credential: object, **options: Any) -> Any:
            if isinstance(credential, Identity):
                return client.from_connection_string(os.environ["SERVICEBUS_CONNECTION_STR"], **options)
            return client(fully_qualified_namespace, credential, **usual, **options)

    return OfEmulator


def stand_in(package: str) -> None:
    """Replace classes of the package that connect to Azure by ones that connect to the emulator."""
    for name in ("azure.identity", "azure.identity.aio"):
        sys.modules[name] = module = types.ModuleType(name)
        vars(module)["DefaultAzureCredential"] = Identity
    usual = {"use_tls": False} if package == SDK else {}
    for names, client in (
        ((package, f"{package}.aio"), "ServiceBusClient"),
        ((f"{package}.management", f"{package}.aio.management"), "ServiceBusAdministrationClient"),
    ):
        for module in map(importlib.import_module, names):
            setattr(module, client, of_emulator(getattr(module, client), **usual))
    sleep, sleep_async = time.sleep, asyncio.sleep

    def shorter(seconds: Any) -> None:
        sleep(min(seconds, SLEEP_SECONDS_MAX))

    async def shorter_async(delay: float, result: Any = None) -> Any:
        return await sleep_async(min(delay, SLEEP_SECONDS_MAX), result)

    time.sleep = shorter
    asyncio.sleep = shorter_async


def _in_child(file: str, package: str, environment: dict[str, str], output: str) -> None:
    os.environ.update(environment)
    sink = os.open(output, os.O_WRONLY | os.O_APPEND)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    try:
        text = Path(file).read_text(encoding="utf-8").replace(SDK, package)
        exec(compile(text, file, "exec"), {"__name__": "__main__", "__file__": file})  # noqa: S102 -- the sample
        status = 0
    except BaseException:  # noqa: BLE001 -- whatever ends a sample is its answer
        traceback.print_exc()
        status = 1
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)  # do not run exit handlers of the parent


def run(job: dict[str, Any], package: str, folder: Path) -> dict[str, Any]:
    """Run one sample to its end."""
    output = folder / job["name"].replace("/", "-")
    output.touch()
    process = multiprocessing.get_context("fork").Process(
        target=_in_child, args=(job["file"], package, job["environment"], str(output))
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
    (package,) = sys.argv[1:]
    for name in (package, f"{package}.management", f"{package}.aio", f"{package}.aio.management"):
        importlib.import_module(name)
    stand_in(package)
    jobs = json.load(sys.stdin)
    with TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as threads:
        for answer in threads.map(lambda job: run(job, package, Path(folder)), jobs):
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
