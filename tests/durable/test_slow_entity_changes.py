# SPDX-License-Identifier: Apache-2.0
"""While a change of entities waits for its disk, other work goes on, and finds the entities as they were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from durable_bus import Bus, bodies
from oxbus import ServiceBusMessage
from oxbus.exceptions import ResourceNotFoundError
from oxbus.testing import heal, inject_fault

if TYPE_CHECKING:
    from collections.abc import Callable

LIVENESS_SECONDS = 60


def create(bus: Bus) -> None:
    """Create a queue."""
    bus.admin.create_queue("new")


def update(bus: Bus) -> None:
    """Update a queue."""
    queue = bus.admin.get_queue("other")
    queue.user_metadata = "changed"
    bus.admin.update_queue(queue)


def delete(bus: Bus) -> None:
    """Delete a queue."""
    bus.admin.delete_queue("other")


def change_rules(bus: Bus) -> None:
    """Add a rule to a subscription."""
    bus.admin.create_rule("t", "s", "second")


@pytest.mark.parametrize("change", [create, update, delete, change_rules], ids=lambda change: change.__name__)
def test_other_work_goes_on_while_a_change_waits(
    wide_bus: Bus, in_background: Callable[..., Any], change: Callable[[Bus], None]
) -> None:
    """Entities are looked up and listed, messages are sent, forwarded and received, and metrics are read."""
    bus = wide_bus
    bus.admin.create_queue("other")
    bus.admin.create_queue("source", forward_to="q")
    bus.admin.create_topic("t")
    bus.admin.create_subscription("t", "s")
    names = [queue.name for queue in bus.admin.list_queues()]
    inject_fault(bus.namespace, None, "stall")
    changing = in_background(change, bus)

    def work() -> list[str]:
        found = [queue.name for queue in bus.admin.list_queues()]
        assert bus.admin.get_queue("other").user_metadata == ""
        assert [rule.name for rule in bus.admin.list_rules("t", "s")] == ["$Default"]
        with pytest.raises(ResourceNotFoundError):
            bus.admin.get_queue("new")
        bus.send("direct")
        with bus.client.get_queue_sender("source") as sender:
            sender.send_messages(ServiceBusMessage("forwarded"))
        with bus.client.get_queue_receiver("q") as receiver:
            received: list[str] = []
            while len(received) < 2:
                batch = receiver.receive_messages(2)
                receiver.complete_messages(batch)
                received += bodies(batch)
        assert sorted(received) == ["direct", "forwarded"]
        assert bus.namespace.metrics()
        return found

    try:
        assert in_background(work).result(LIVENESS_SECONDS) == names
        assert changing.running
    finally:
        heal(bus.namespace, None)
    changing.result(LIVENESS_SECONDS)
    after = [queue.name for queue in bus.admin.list_queues()]
    assert (change is create) == ("new" in after)
    assert (change is delete) == ("other" not in after)
    if change is update:
        assert bus.admin.get_queue("other").user_metadata == "changed"
    if change is change_rules:
        assert [rule.name for rule in bus.admin.list_rules("t", "s")] == ["$Default", "second"]
