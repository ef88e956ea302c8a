# SPDX-License-Identifier: Apache-2.0
"""The contract tests over the network: our client for messages against our server.

The client for messages then connects to a server whose namespace is in memory or in a directory. The administration
client stays in process: kit/http_transport.py has its tests.
All tests of tests/contract that use the fixture `client` run so, except those listed here.
`tests/package/test_client_transport.py` fails if an entry does not exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

STORES = {"client": "memory", "client-durable": "durable"}
"""The message store of each transport."""

PARTITIONED = {"client": True, "client-durable": False}
"""Whether entities are partitioned where a test leaves it open: each transport takes one, to save time."""

LEFT_OUT: dict[str, tuple[str, ...]] = {}
"""Reasons for excluding tests, with the folders, files or tests."""


def left_out() -> Iterator[str]:
    """Iterate over the excluded entries."""
    for places in LEFT_OUT.values():
        yield from places
