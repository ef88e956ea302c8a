# SPDX-License-Identifier: Apache-2.0
"""Stores that tests start: Azurite and versitygw, which `make engines` installs, and PostgreSQL, if it is there."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request
from email.utils import formatdate
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stored_server import LIVENESS_SECONDS, LOOPBACK, StoredPlace, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

AZURITE: Final = Path(__file__).parents[1] / "engines/node_modules/azurite/dist/src/blob/main.js"
VERSITYGW: Final = Path(__file__).parents[3] / "target/tools/bin/versitygw"
VERSITYGW_MODULE: Final = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
ACCOUNT: Final = "devstoreaccount1"
KEY: Final = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The account and the key of every emulator."""

CONTAINER: Final = "messages"
ACCESS_KEY: Final = "oxbus"
SECRET_KEY: Final = "a secret of a test"  # noqa: S105 -- of a server that ends with the test
REGION: Final = "us-east-1"


def has_azurite() -> bool:
    """Return whether Azurite can be started."""
    return AZURITE.exists() and shutil.which("node") is not None


def has_versitygw() -> bool:
    """Return whether versitygw can be started."""
    return VERSITYGW.exists()


def has_postgres() -> bool:
    """Return whether PostgreSQL can be started."""
    return all(map(shutil.which, ("initdb", "postgres", "pg_isready")))


@contextlib.contextmanager
def azurite() -> Iterator[StoredPlace]:
    """Run Azurite with an empty container."""
    port = free_port()
    node = shutil.which("node")
    assert node is not None
    words = [node, AZURITE, "--blobHost", LOOPBACK, "--blobPort", str(port), "--inMemoryPersistence", "--silent"]
    with _running([*words, "--skipApiVersionCheck", "--disableTelemetry"], port):
        _create_container(port)
        endpoint = f"http://{LOOPBACK}:{port}/{ACCOUNT}"
        options = {"account_name": ACCOUNT, "account_key": KEY, "endpoint": endpoint}
        yield StoredPlace(f"az://{CONTAINER}/shop", options)


@contextlib.contextmanager
def versitygw() -> Iterator[StoredPlace]:
    """Run versitygw with an empty bucket in a directory: the protocol of S3 over files."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="oxbus-versitygw-", ignore_cleanup_errors=True) as directory:
        (Path(directory) / CONTAINER).mkdir()
        keys = ["--access", ACCESS_KEY, "--secret", SECRET_KEY, "--region", REGION]
        words = [VERSITYGW, "--port", f"{LOOPBACK}:{port}", *keys, "--keep-alive", "--quiet", "posix", directory]
        with _running(words, port, directory=directory):
            options = {
                "endpoint": f"http://{LOOPBACK}:{port}",
                "region": REGION,
                "access_key_id": ACCESS_KEY,
                "secret_access_key": SECRET_KEY,
            }
            yield StoredPlace(f"s3://{CONTAINER}/shop", options)


@contextlib.contextmanager
def postgres() -> Iterator[StoredPlace]:
    """Run PostgreSQL with an empty database."""
    port = free_port()
    # It refuses to run as root.
    user = "nobody" if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="oxbus-postgres-", ignore_cleanup_errors=True) as directory:
        if user is not None:
            shutil.chown(directory, user)
        data = f"{directory}/data"
        make = ["initdb", "--pgdata", data, "--username", "oxbus", "--auth", "trust", "--no-sync"]
        subprocess.run(make, check=True, stdout=subprocess.DEVNULL, cwd=directory, user=user)
        words = ["postgres", "-D", data, "-p", str(port), "-k", directory, "-h", LOOPBACK]
        with _running(words, port, directory=directory, user=user):
            end = time.monotonic() + LIVENESS_SECONDS
            ready = ["pg_isready", "-q", "-h", LOOPBACK, "-p", str(port)]
            while subprocess.run(ready, check=False).returncode:
                assert time.monotonic() < end, "PostgreSQL does not accept connections"
                time.sleep(0.1)
            yield StoredPlace(f"postgresql://oxbus@{LOOPBACK}:{port}/postgres?sslmode=disable&namespace=shop")


@contextlib.contextmanager
def _running(
    words: Sequence[object], port: int, *, directory: str | None = None, user: str | None = None
) -> Iterator[None]:
    with tempfile.TemporaryFile() as output:
        run = [str(word) for word in words]
        process = subprocess.Popen(run, stdout=output, stderr=output, cwd=directory, user=user)
        try:
            end = time.monotonic() + LIVENESS_SECONDS
            while True:
                with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, port), timeout=1):
                    break
                output.seek(0)
                assert process.poll() is None, output.read().decode()
                assert time.monotonic() < end, output.read().decode()
                time.sleep(0.05)
            yield
        finally:
            process.terminate()
            process.wait()


def _create_container(port: int) -> None:
    date = formatdate(usegmt=True)
    path = f"/{ACCOUNT}/{CONTAINER}"
    headers = {"x-ms-date": date, "x-ms-version": "2021-08-06"}
    signed = "\n".join([f"{name}:{value}" for name, value in headers.items()])
    text = "PUT" + "\n" * 12 + signed + f"\n/{ACCOUNT}{path}\nrestype:container"
    digest = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
    url = f"http://{LOOPBACK}:{port}{path}?restype=container"
    request = urllib.request.Request(url, method="PUT", headers=headers)
    with urllib.request.urlopen(request, timeout=LIVENESS_SECONDS):  # noqa: S310
        pass
