# SPDX-License-Identifier: Apache-2.0
"""Repeated lines are suppressed, and a line gives their number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

PROGRAM = """
    from oxbus.server import serve
    from plain_http import Http
    print_log(logging.WARNING)
    namespace = Namespace(partitions=2)
    ServiceBusAdministrationClient(namespace).create_queue("orders")
    with serve(namespace) as server:
        http = Http(server, key="a wrong key, a thousand times")
        for _ in range(1000):
            assert http("POST", "/orders/messages", "x").status == 401
"""


def test_client_that_retries_a_wrong_key(lines_of: Callable[..., Any]) -> None:
    """A thousand rejections are five lines and one with the number of suppressed ones."""
    lines = lines_of(PROGRAM)
    assert {(line["event"], line["reason"], line["entity"]) for line in lines} == {
        ("client.refused", "WrongKey", "orders")
    }
    assert ["left_out" in line for line in lines[:5]] == [False] * 5
    # On a slow machine it takes several periods of ten seconds, each with a separate count.
    counts = [int(line["left_out"]) for line in lines if "left_out" in line]
    assert len(lines) <= 6 * len(counts)
    # A count is in a separate line, or in the first one of the next ten seconds.
    assert 1000 - len(lines) <= sum(counts) <= 1000 - len(lines) + len(counts)
