# SPDX-License-Identifier: Apache-2.0
"""How many requests a store was asked: counted on their way where they are HTTP, and by PostgreSQL itself."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from peers.server import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stored_server import StoredPlace

    from stored.places import Place

    Counts = Callable[[], Counter[str]]

PROXY = Path(__file__).with_name("counting_proxy.py")
KINDS = ("creates", "swaps", "reads", "lists", "deletes")
_WRITES = "SELECT coalesce(last_value, 0) FROM pg_sequences WHERE sequencename = 'oxbus_blobs_version_seq'"
_ASK = f"SELECT ({_WRITES}), n_tup_upd, n_tup_del FROM pg_stat_user_tables WHERE relname = 'oxbus_blobs'"  # noqa: S608


@contextlib.contextmanager
def counted(kind: Place, place: StoredPlace, delay: float = 0.0) -> Iterator[tuple[StoredPlace, Counts]]:
    """The same place, its requests counted, and its answers held back for `delay` seconds."""
    if not kind.is_object_storage:
        yield place, lambda: _of_postgres(place)
        return
    endpoint = urlsplit(place.options["endpoint"])
    command = [sys.executable, str(PROXY), str(endpoint.port), str(delay)]
    # It finds the modules that this program finds.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as proxy:
        asked, answered = proxy.stdin, proxy.stdout
        assert asked is not None
        assert answered is not None
        port = int(answered.readline())

        def counts() -> Counter[str]:
            asked.write("\n")
            asked.flush()
            return Counter(json.loads(answered.readline()))

        through = f"http://{LOOPBACK}:{port}{endpoint.path}"
        try:
            yield replace(place, options={**place.options, "endpoint": through}), counts
        finally:
            proxy.kill()


def _of_postgres(place: StoredPlace) -> Counter[str]:
    """Rows inserted, updated and deleted, and no reads.

    Each insertion and each update takes a number of a sequence. Updates and deletions are counted up to a second late.
    """
    address = urlsplit(place.url)
    words = ["-h", LOOPBACK, "-p", str(address.port), "-U", "oxbus", "-d", "postgres", "-A", "-t", "-c", _ASK]
    done = subprocess.run(["psql", *words], check=True, capture_output=True, text=True)
    written, swaps, deletes = (int(part) for part in (done.stdout.strip() or "0|0|0").split("|"))
    return Counter(creates=written - swaps, swaps=swaps, deletes=deletes)
