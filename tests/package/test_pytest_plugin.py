# SPDX-License-Identifier: Apache-2.0
"""The fixtures of the package, as docs/guide/testing-with-the-clock.md shows them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from oxbus import AutoLockRenewer, ServiceBusMessage
from oxbus.management import ServiceBusAdministrationClient

if TYPE_CHECKING:
    from oxbus import Namespace, ServiceBusClient
    from oxbus.testing import ManualClock


def test_lock_ends_by_the_clock_of_the_fixtures(
    oxbus_namespace: Namespace, oxbus_client: ServiceBusClient, oxbus_clock: ManualClock
) -> None:
    """Namespace, client and clock belong together."""
    ServiceBusAdministrationClient(oxbus_namespace).create_queue("work", lock_duration=timedelta(seconds=30))
    oxbus_client.get_queue_sender("work").send_messages(ServiceBusMessage("job"))
    oxbus_client.get_queue_receiver("work").receive_messages(max_wait_time=0)
    other = oxbus_client.get_queue_receiver("work")
    assert other.receive_messages(max_wait_time=0) == []
    oxbus_clock.advance(31)
    (again,) = other.receive_messages(max_wait_time=0)
    assert again.delivery_count == 1


def test_clock_of_the_fixture_shows_the_present_time(
    oxbus_namespace: Namespace, oxbus_client: ServiceBusClient, oxbus_clock: ManualClock
) -> None:
    """A message scheduled by the system clock is due once the test has moved the clock to that time."""
    ServiceBusAdministrationClient(oxbus_namespace).create_queue("work")
    due = datetime.now(UTC) + timedelta(minutes=5)
    oxbus_client.get_queue_sender("work").schedule_messages(ServiceBusMessage("job"), due)
    receiver = oxbus_client.get_queue_receiver("work")
    oxbus_clock.advance(200)
    assert receiver.receive_messages(max_wait_time=0) == []
    oxbus_clock.advance(200)
    assert len(receiver.receive_messages(max_wait_time=0)) == 1


def test_renewer_follows_the_clock_of_the_fixture(
    oxbus_namespace: Namespace, oxbus_client: ServiceBusClient, oxbus_clock: ManualClock
) -> None:
    """A slow worker keeps its lock while it is renewed, as in the guide."""
    ServiceBusAdministrationClient(oxbus_namespace).create_queue("work", lock_duration=timedelta(seconds=30))
    oxbus_client.get_queue_sender("work").send_messages(ServiceBusMessage("job"))
    with AutoLockRenewer() as renewer:
        slow = oxbus_client.get_queue_receiver("work", auto_lock_renewer=renewer)
        (message,) = slow.receive_messages(max_wait_time=0)
        for _ in range(6):
            oxbus_clock.advance(20)
        assert message.locked_until_utc == oxbus_clock.now() + timedelta(seconds=30)
        slow.complete_message(message)


def test_namespace_of_the_fixture_is_empty(oxbus_namespace: Namespace) -> None:
    """No test sees entities of another one."""
    assert list(ServiceBusAdministrationClient(oxbus_namespace).list_queues()) == []
