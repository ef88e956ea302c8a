# SPDX-License-Identifier: Apache-2.0
"""The bytes that a place takes in its store, as the store itself counts them."""

from __future__ import annotations

import re
import shutil
import subprocess
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote, urlsplit

from store_signatures import azure_headers, s3_headers
from stored_server import LIVENESS_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from stored_server import StoredPlace


def stored_bytes(place: StoredPlace) -> int:
    """Return the bytes of all objects of the place."""
    return _COUNTS[urlsplit(place.url).scheme](place)


def _in_directory(place: StoredPlace) -> int:
    files = Path(urlsplit(place.url).path).rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file())


def _in_postgres(place: StoredPlace) -> int:
    psql = shutil.which("psql")
    assert psql, "install the client of PostgreSQL"
    url = urlsplit(place.url)
    prefix = parse_qs(url.query)["namespace"][0]
    statement = f"SELECT coalesce(sum(octet_length(bytes)), 0) FROM oxbus_blobs WHERE starts_with(key, '{prefix}/')"  # noqa: S608
    words = [psql, "-h", str(url.hostname), "-p", str(url.port), "-U", str(url.username), "-d", url.path.strip("/")]
    return int(subprocess.run([*words, "-Atc", statement], check=True, capture_output=True, text=True).stdout)


def _in_s3(place: StoredPlace) -> int:
    def page(marker: str) -> str:
        query = {"continuation-token": marker} if marker else {}
        query |= {"list-type": "2", "prefix": _prefix(place)}
        host, path = urlsplit(place.options["endpoint"]).netloc, f"/{urlsplit(place.url).netloc}"
        text = "&".join(f"{name}={quote(value, safe='')}" for name, value in sorted(query.items()))
        return _get(f"http://{host}{path}?{text}", s3_headers(host, path, place.options, method="GET", query=text))

    return _sum(page, "Size", "NextContinuationToken")


def _in_azure(place: StoredPlace) -> int:
    def page(marker: str) -> str:
        query = {"marker": marker} if marker else {}
        query |= {"comp": "list", "prefix": _prefix(place), "restype": "container"}
        endpoint, container = place.options["endpoint"], urlsplit(place.url).netloc
        account, key = place.options["account_name"], place.options["account_key"]
        lines = "".join(f"\n{name}:{value}" for name, value in sorted(query.items()))
        headers = azure_headers(account, key, f"{urlsplit(endpoint).path}/{container}", query=lines, method="GET")
        text = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
        return _get(f"{endpoint}/{container}?{text}", headers)

    return _sum(page, "Content-Length", "NextMarker")


def _prefix(place: StoredPlace) -> str:
    return f"{urlsplit(place.url).path.strip('/')}/"


def _get(url: str, headers: dict[str, str]) -> str:
    request = urllib.request.Request(url, headers=headers)  # noqa: S310
    with urllib.request.urlopen(request, timeout=LIVENESS_SECONDS) as answer:  # noqa: S310
        text: str = answer.read().decode()
        return text


def _sum(page: Callable[[str], str], size: str, next_marker: str) -> int:
    """Add up the sizes in all pages of a list."""
    total, marker = 0, ""
    while True:
        text = page(marker)
        total += sum(map(int, re.findall(f"<{size}>([0-9]+)</{size}>", text)))
        found = re.search(f"<{next_marker}>([^<]+)</{next_marker}>", text)
        if not found:
            return total
        marker = found[1]


_COUNTS = {"objects": _in_directory, "postgresql": _in_postgres, "s3": _in_s3, "az": _in_azure}
