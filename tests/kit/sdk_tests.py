# SPDX-License-Identifier: Apache-2.0
"""The tests of azure-servicebus, run unchanged against a server.

They are in the source archive with the samples. `sdk_suite` replaces unpublished packages that they import.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import sdk_programs
import sdk_samples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oxbus.server import Server

STANDS_BEFORE = Path(__file__).parent / "sdk_suite"


def run(file: str, tests: Sequence[str], server: Server, certificate: Path) -> int:
    """Run the named tests of one file of the suite, and return how many passed; fails if one fails."""
    folder = sdk_samples.folder().parent / "tests"
    path = (STANDS_BEFORE, folder, folder / "async_tests", folder / "mgmt_tests", folder / "mgmt_tests" / "async")
    name, key = "RootManageSharedAccessKey", "SAS_KEY_VALUE"
    printed = sdk_programs.run(
        sys.executable,
        *("-m", "pytest", "-q", "-rA", "-p", "suite_plugin", "-p", "no:cacheprovider", "-p", "no:randomly"),
        *(
            "--noconftest",
            "--disable-warnings",
            "--import-mode=importlib",
            "-c",
            "/dev/null",
            "--rootdir",
            folder,
            folder / file,
        ),
        cwd=STANDS_BEFORE,
        PYTHONPATH=":".join(map(str, path)),
        OXBUS_TESTS=" ".join(tests),
        OXBUS_KEY_NAME=name,
        OXBUS_KEY=key,
        OXBUS_CONNECTION_STRING=f"Endpoint=sb://localhost:{server.port};SharedAccessKeyName={name};SharedAccessKey={key}",
        SERVICEBUS_ENDPOINT_SUFFIX=f":{server.port}",
        REQUESTS_CA_BUNDLE=str(certificate),
        SSL_CERT_FILE=str(certificate),
    )
    return sum(line.startswith("PASSED ") for line in printed.splitlines())
