# SPDX-License-Identifier: Apache-2.0
"""Engines that speak S3, which `make test-engines` fetches: versitygw on a directory, and MinIO on four drives."""

from __future__ import annotations

import contextlib
import shutil
import signal
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Final

from engine_process import running
from store_signatures import s3_headers
from stored_server import LIVENESS_SECONDS, LOOPBACK, StoredPlace, free_port, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

USER: Final = "oxbus"
SECRET: Final = "secret-of-the-tests"  # noqa: S105 (an engine on loopback, for one test run)
REGION: Final = "us-east-1"
BUCKET: Final = "messages"
DRIVES: Final = 4
"""With four, MinIO spreads each object over all of them."""


def has_versitygw() -> bool:
    """Return whether versitygw can be started."""
    return shutil.which("versitygw") is not None


def has_minio() -> bool:
    """Return whether MinIO can be started."""
    return shutil.which("minio") is not None


@contextlib.contextmanager
def versitygw() -> Iterator[StoredPlace]:
    """Run versitygw with an empty bucket."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="oxbus-versitygw-", ignore_cleanup_errors=True) as directory:
        words = ["versitygw", "--port", f"{LOOPBACK}:{port}", "--access", USER, "--secret", SECRET]
        words += ["--quiet", "--keep-alive"]
        with running([*words, "posix", directory], port):
            yield _place(port)


@contextlib.contextmanager
def minio() -> Iterator[StoredPlace]:
    """Run MinIO with an empty bucket."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="oxbus-minio-", ignore_cleanup_errors=True) as directory:
        drives = [Path(directory, f"drive{number}") for number in range(DRIVES)]
        for drive in drives:
            drive.mkdir()
        # Without the last variable, it refuses several drives on one disk.
        environment = {"MINIO_ROOT_USER": USER, "MINIO_ROOT_PASSWORD": SECRET, "MINIO_CI_CD": "1"}
        words = ["minio", "server", "--quiet", "--address", f"{LOOPBACK}:{port}", *drives]
        with running(words, port, environment=environment, stop=signal.SIGKILL):
            yield _place(port)


def _place(port: int) -> StoredPlace:
    options = {
        "endpoint": f"http://{LOOPBACK}:{port}",
        "region": REGION,
        "access_key_id": USER,
        "secret_access_key": SECRET,
    }
    wait_until(lambda: _creates_bucket(port, options), "the creation of a bucket")
    return StoredPlace(f"s3://{BUCKET}/shop", options)


def _creates_bucket(port: int, options: dict[str, str]) -> bool:
    """Try to create the bucket, which fails while the engine starts."""
    host = f"{LOOPBACK}:{port}"
    headers = s3_headers(host, f"/{BUCKET}", options)
    put = urllib.request.Request(f"http://{host}/{BUCKET}", method="PUT", headers=headers)
    try:
        with urllib.request.urlopen(put, timeout=LIVENESS_SECONDS):  # noqa: S310
            return True
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 503:
                return False
            raise
