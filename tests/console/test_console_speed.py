# SPDX-License-Identifier: Apache-2.0
"""Lists of 10,000 entities and of 10,000 sessions: the time to the first paint. Prints it; no test asserts a duration.

Source: docs/guide/console.md, "Speed".
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import ServiceBusMessage

if TYPE_CHECKING:
    from console_browser import Person
    from console_http import Console
    from oxbus import ServiceBusClient
    from oxbus.management import ServiceBusAdministrationClient

COUNT = 10_000

# From the move to the page until its hundred rows are painted.
PAINTED = """
async (address) => {
    const began = performance.now();
    history.pushState(null, '', address);
    window.dispatchEvent(new Event('oxbus-moved'));
    while (document.querySelectorAll('tbody tr').length < 100) {
        await new Promise((next) => setTimeout(next, 1));
    }
    await new Promise((next) => requestAnimationFrame(() => setTimeout(next, 0)));
    return performance.now() - began;
}
"""
LOADED = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


def answer_ms(console: Console, resource: str, **parameters: Any) -> list[float]:
    """How long the server takes, a few times."""
    taken = []
    for _ in range(5):
        began = time.perf_counter()
        console.get(resource, **parameters)
        taken.append(1e3 * (time.perf_counter() - began))
        time.sleep(1.6)
    return [round(it, 1) for it in taken]


def paint_ms(person: Person, page: str) -> dict[str, Any]:
    """The time to the first paint of a page, from another page and by loading it."""
    moved = []
    for _ in range(5):
        person.open("partitions")
        moved.append(round(person.page.evaluate(PAINTED, f"/$console/{page}"), 1))
    person.page.reload()
    person.page.get_by_role("rowheader").nth(99).wait_for()
    return {"rows after a move": moved, "first paint of a load": round(person.page.evaluate(LOADED), 1)}


def tell(what: str, answered: list[float], painted: dict[str, Any]) -> None:
    """Say the figures; `pytest -rP` shows them."""
    sys.stdout.write(f"10,000 {what}: answered in {answered} ms, painted in ms: {painted}\n")


@pytest.mark.timeout(600)
def test_ten_thousand_entities(person: Person, console: Console, admin: ServiceBusAdministrationClient) -> None:
    """The server sorts and cuts; the browser gets a hundred rows."""
    for number in range(COUNT):
        admin.create_queue(f"queue-{number:05}")
    tell("entities", answer_ms(console, "overview", sort="-active"), paint_ms(person, ""))


@pytest.mark.timeout(600)
def test_ten_thousand_sessions(
    person: Person, console: Console, admin: ServiceBusAdministrationClient, client: ServiceBusClient
) -> None:
    """All in one queue."""
    admin.create_queue("orders", enable_partitioning=True, requires_session=True)
    with client.get_queue_sender("orders") as sender:
        for number in range(COUNT):
            sender.send_messages(ServiceBusMessage("x", session_id=f"session-{number:05}"))
    answered = answer_ms(console, "sessions", path="orders", sort="-oldest")
    tell("sessions", answered, paint_ms(person, "sessions?path=orders"))
