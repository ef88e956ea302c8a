# SPDX-License-Identifier: Apache-2.0
"""Engines that speak S3, which `make test-engines` fetches: versitygw on a directory, and MinIO on four drives."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import shutil
import signal
import tempfile
import urllib.error
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from engine_process import running
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
    wait_until(lambda: _creates_bucket(port), "the creation of a bucket")
    options = {
        "endpoint": f"http://{LOOPBACK}:{port}",
        "region": REGION,
        "access_key_id": USER,
        "secret_access_key": SECRET,
    }
    return StoredPlace(f"s3://{BUCKET}/shop", options)


def _creates_bucket(port: int) -> bool:
    """Try to create the bucket, which fails while the engine starts."""
    host, nothing = f"{LOOPBACK}:{port}", hashlib.sha256(b"").hexdigest()
    time = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    headers = {"host": host, "x-amz-content-sha256": nothing, "x-amz-date": time}
    names = ";".join(headers)
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    request = f"PUT\n/{BUCKET}\n\n{lines}\n{names}\n{nothing}"
    scope = f"{time[:8]}/{REGION}/s3/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{time}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{SECRET}".encode()
    for part in [*scope.split("/"), text]:
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    credential = f"Credential={USER}/{scope},SignedHeaders={names},Signature={key.hex()}"
    headers["authorization"] = f"AWS4-HMAC-SHA256 {credential}"
    put = urllib.request.Request(f"http://{host}/{BUCKET}", method="PUT", headers=headers)
    try:
        with urllib.request.urlopen(put, timeout=LIVENESS_SECONDS):  # noqa: S310
            return True
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 503:
                return False
            raise
