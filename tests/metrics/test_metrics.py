# SPDX-License-Identifier: Apache-2.0
"""Metrics of a namespace in this process: what is counted, and that nothing is until they are on."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from oxbus import MetricHistogram, Namespace, ServiceBusClient, ServiceBusMessage, ServiceBusReceiveMode
from oxbus.exceptions import ServiceBusError
from oxbus.management import ServiceBusAdministrationClient, SqlRuleFilter
from oxbus.prometheus import NamespaceCollector
from oxbus.testing import ManualClock, heal, inject_fault
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.exposition import generate_latest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUEUE = "orders"


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still."""
    return ManualClock()


@pytest.fixture(params=["memory", "directory"])
def bus(request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path) -> Iterator[Namespace]:
    """A namespace with a queue, whose metrics are off."""
    path = tmp_path / "bus" if request.param == "directory" else None
    with Namespace(path, clock=clock) as bus:
        ServiceBusAdministrationClient(bus).create_queue(QUEUE, max_delivery_count=2)
        yield bus


def values(bus: Namespace, name: str) -> Counter[tuple[str, ...]]:
    """The samples of a metric that are not zero, by the values of their labels."""
    (family,) = [family for family in bus.metrics() if family.name == name]
    found: Counter[tuple[str, ...]] = Counter()
    for labels, value in family.samples:
        number = value.count if isinstance(value, MetricHistogram) else value
        if number:
            found[tuple(labels.values())] += int(number)
    return found


def text_of(registry: CollectorRegistry) -> str:
    """What a scrape of a registry reads."""
    return str(generate_latest(registry).decode())  # type: ignore[no-untyped-call]


def test_nothing_is_counted_before_the_first_call(bus: Namespace) -> None:
    """Counters start at zero when metrics are switched on."""
    with ServiceBusClient(bus) as client, client.get_queue_sender(QUEUE) as sender:
        sender.send_messages(ServiceBusMessage("before"))
        assert not values(bus, "oxbus_sent_messages")
        assert values(bus, "oxbus_active_messages") == {(QUEUE, "queue"): 1}, "depths are read, not counted"
        sender.send_messages([ServiceBusMessage("after") for _ in range(3)])
        sender.send_messages(ServiceBusMessage("after"))
        assert values(bus, "oxbus_sent_messages") == {(QUEUE, "queue"): 4}


def test_each_settlement_is_counted_by_its_outcome(bus: Namespace) -> None:
    """One by one and by lists; a dead-letter settlement is also a dead letter."""
    bus.metrics()
    with (
        ServiceBusClient(bus) as client,
        client.get_queue_sender(QUEUE) as sender,
        client.get_queue_receiver(QUEUE) as receiver,
    ):
        sender.send_messages([ServiceBusMessage(str(number)) for number in range(6)])
        received = receiver.receive_messages(6, max_wait_time=0)
        assert len(received) == 6
        receiver.complete_message(received[0])
        receiver.complete_messages(received[1:3])
        receiver.abandon_message(received[3])
        receiver.defer_message(received[4])
        receiver.dead_letter_message(received[5], reason="bad")
    assert values(bus, "oxbus_received_messages") == {(QUEUE, "queue"): 6}
    assert values(bus, "oxbus_settled_messages") == {
        (QUEUE, "queue", "complete"): 3,
        (QUEUE, "queue", "abandon"): 1,
        (QUEUE, "queue", "defer"): 1,
        (QUEUE, "queue", "dead_letter"): 1,
    }
    assert values(bus, "oxbus_dead_lettered_messages") == {(QUEUE, "queue", "rejected"): 1}


def test_deliveries_that_run_out_are_counted_by_their_reason(bus: Namespace) -> None:
    """Abandoned twice, with a limit of two deliveries."""
    bus.metrics()
    with (
        ServiceBusClient(bus) as client,
        client.get_queue_sender(QUEUE) as sender,
        client.get_queue_receiver(QUEUE) as receiver,
    ):
        sender.send_messages(ServiceBusMessage("poison"))
        for _ in range(2):
            (received,) = receiver.receive_messages(1, max_wait_time=0)
            receiver.abandon_message(received)
    assert values(bus, "oxbus_dead_lettered_messages") == {(QUEUE, "queue", "max_delivery_count"): 1}


@pytest.mark.parametrize("kept", [False, True])
def test_expired_messages_are_counted_by_what_becomes_of_them(bus: Namespace, clock: ManualClock, kept: bool) -> None:
    """Removed, or moved to the dead-letter queue."""
    bus.metrics()
    ServiceBusAdministrationClient(bus).create_queue("brief", dead_lettering_on_message_expiration=kept)
    with (
        ServiceBusClient(bus) as client,
        client.get_queue_sender("brief") as sender,
        client.get_queue_receiver("brief") as receiver,
    ):
        sender.send_messages(ServiceBusMessage("x", time_to_live=timedelta(seconds=1)))
        clock.advance(2)
        assert not receiver.receive_messages(1, max_wait_time=0)
    assert values(bus, "oxbus_expired_messages") == {("brief", "queue", "dead_lettered" if kept else "removed"): 1}
    assert values(bus, "oxbus_dead_lettered_messages") == ({("brief", "queue", "expired"): 1} if kept else {})


def test_duplicates_that_are_dropped_are_counted(bus: Namespace) -> None:
    """One alone and one of a list."""
    bus.metrics()
    ServiceBusAdministrationClient(bus).create_queue("once", requires_duplicate_detection=True)
    with ServiceBusClient(bus) as client, client.get_queue_sender("once") as sender:
        sender.send_messages(ServiceBusMessage("x", message_id="1"))
        sender.send_messages(ServiceBusMessage("x", message_id="1"))
        sender.send_messages([ServiceBusMessage("x", message_id=number) for number in ("1", "2")])
    assert values(bus, "oxbus_duplicate_messages") == {("once", "queue"): 2}
    assert values(bus, "oxbus_sent_messages") == {("once", "queue"): 2}


@pytest.mark.parametrize("as_list", [False, True])
def test_a_topic_and_its_subscriptions_count_alone(bus: Namespace, as_list: bool) -> None:
    """The topic counts what is sent to it, each subscription what it selects."""
    bus.metrics()
    admin = ServiceBusAdministrationClient(bus)
    admin.create_topic("news")
    admin.create_subscription("news", "all")
    admin.create_subscription("news", "none")
    admin.delete_rule("news", "none", "$Default")
    admin.create_rule("news", "none", "never", filter=SqlRuleFilter("1 = 0"))
    messages = [ServiceBusMessage(str(number)) for number in range(2)]
    with ServiceBusClient(bus) as client, client.get_topic_sender("news") as sender:
        for part in [messages] if as_list else messages:
            sender.send_messages(part)
    sent = {labels[:2]: number for labels, number in values(bus, "oxbus_sent_messages").items()}
    assert sent == {("news", "topic"): 2, ("news/Subscriptions/all", "subscription"): 2}


def test_transactions_count_once_they_commit(bus: Namespace) -> None:
    """A send and a completion; a rollback counts neither."""
    bus.metrics()
    with (
        ServiceBusClient(bus) as client,
        client.get_queue_sender(QUEUE) as sender,
        client.get_queue_receiver(QUEUE) as receiver,
    ):
        sender.send_messages(ServiceBusMessage("first"))
        (received,) = receiver.receive_messages(1, max_wait_time=0)
        with client.transaction() as transaction:
            sender.send_messages(ServiceBusMessage("second"), transaction=transaction)
            receiver.complete_message(received, transaction=transaction)
            transaction.rollback()
        assert values(bus, "oxbus_sent_messages") == {(QUEUE, "queue"): 1}
        assert not values(bus, "oxbus_settled_messages")
        with client.transaction() as transaction:
            sender.send_messages(ServiceBusMessage("second"), transaction=transaction)
            receiver.complete_message(received, transaction=transaction)
    assert values(bus, "oxbus_sent_messages") == {(QUEUE, "queue"): 2}
    assert values(bus, "oxbus_settled_messages") == {(QUEUE, "queue", "complete"): 1}


@pytest.mark.parametrize("partitioned", [False, True])
def test_forwarding_is_no_settlement(bus: Namespace, partitioned: bool) -> None:
    """The source and the destination each count a message that was sent; a topic counts it too."""
    bus.metrics()
    admin = ServiceBusAdministrationClient(bus)
    admin.create_topic("news", enable_partitioning=partitioned)
    admin.create_subscription("news", "all")
    admin.create_queue("first", forward_to="news", enable_partitioning=partitioned)
    with (
        ServiceBusClient(bus) as client,
        client.get_queue_sender("first") as sender,
        client.get_subscription_receiver("news", "all") as receiver,
    ):
        sender.send_messages(ServiceBusMessage("x"))
        assert len(receiver.receive_messages(1, max_wait_time=5)) == 1
    assert {labels[0] for labels in values(bus, "oxbus_sent_messages")} == {"first", "news", "news/Subscriptions/all"}
    assert not values(bus, "oxbus_settled_messages")


@pytest.mark.parametrize("single", [True, False], ids=["one by one", "list"])
@pytest.mark.parametrize("verb", ["complete", "abandon", "defer", "dead_letter"])
def test_time_from_delivery_to_settlement(verb: str, single: bool) -> None:
    """One number in eight is timed; a message that is received again counts from then on."""
    with Namespace(partitions=1) as bus:
        ServiceBusAdministrationClient(bus).create_queue(QUEUE, max_delivery_count=9)
        bus.metrics()
        with ServiceBusClient(bus) as client, client.get_queue_sender(QUEUE) as sender:
            sender.send_messages([ServiceBusMessage("x") for _ in range(80)])
            with client.get_queue_receiver(QUEUE) as receiver:
                messages = receiver.receive_messages(80, max_wait_time=0)
                assert not values(bus, "oxbus_delivery_seconds").total()
                if verb == "complete" and not single:
                    receiver.complete_messages(messages)
                else:
                    for message in messages:
                        getattr(receiver, f"{verb}_message")(message)
        assert values(bus, "oxbus_delivery_seconds").total() == 10


def test_receive_and_delete_counts_a_receive_and_no_settlement(bus: Namespace) -> None:
    """There is nothing to settle."""
    bus.metrics()
    with (
        ServiceBusClient(bus) as client,
        client.get_queue_sender(QUEUE) as sender,
        client.get_queue_receiver(QUEUE, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiver,
    ):
        sender.send_messages([ServiceBusMessage("x"), ServiceBusMessage("y")])
        assert len(receiver.receive_messages(2, max_wait_time=0)) == 2
    assert values(bus, "oxbus_received_messages") == {(QUEUE, "queue"): 2}
    assert not values(bus, "oxbus_settled_messages")


def test_the_age_of_the_oldest_message_follows_the_clock(bus: Namespace, clock: ManualClock) -> None:
    """In seconds, from its enqueued time."""
    with ServiceBusClient(bus) as client, client.get_queue_sender(QUEUE) as sender:
        sender.send_messages(ServiceBusMessage("x"))
    clock.advance(90)
    assert values(bus, "oxbus_oldest_message_age_seconds") == {(QUEUE, "queue"): 90}


def test_a_directory_has_times_of_syncs_and_waits(tmp_path: Path) -> None:
    """Of each partition; in memory there is no journal."""
    with Namespace(tmp_path / "bus", durability="fsync", partitions=2) as bus:
        ServiceBusAdministrationClient(bus).create_queue(QUEUE)
        bus.metrics()
        with ServiceBusClient(bus) as client, client.get_queue_sender(QUEUE) as sender:
            sender.send_messages(ServiceBusMessage("x"))
        assert values(bus, "oxbus_sync_seconds").total() >= 1
        assert values(bus, "oxbus_journal_wait_seconds")[("0", "send")] >= 1
        assert values(bus, "oxbus_journal_bytes").total() > 0
        bus.checkpoint()
        assert values(bus, "oxbus_journal_bytes").total() == 0
    with Namespace() as bus:
        assert not [family for family in bus.metrics() if "journal" in family.name]


def test_failed_snapshots_are_counted(tmp_path: Path) -> None:
    """By partition; renaming the file of a snapshot fails."""
    with Namespace(tmp_path, partitions=1) as bus:
        ServiceBusAdministrationClient(bus).create_queue(QUEUE)
        with ServiceBusClient(bus) as client, client.get_queue_sender(QUEUE) as sender:
            sender.send_messages(ServiceBusMessage("kept"))
            assert not values(bus, "oxbus_snapshot_failures")
            inject_fault(bus, 0, "eio-rename")
            with pytest.raises(ServiceBusError):
                bus.checkpoint()
            heal(bus, 0)
            assert values(bus, "oxbus_snapshot_failures") == {("0",): 1}


def test_a_partition_out_of_service_is_not_healthy() -> None:
    """1 and 0 by partition."""
    with Namespace(partitions=2) as bus:
        bus._inject_fault(1, "unavailable", 0)
        assert values(bus, "oxbus_partition_healthy") == {("0",): 1}


def test_the_collector_makes_the_metrics_of_prometheus_client(bus: Namespace) -> None:
    """The text is what a scrape reads; the collector of a closed namespace raises."""
    registry = CollectorRegistry()
    registry.register(NamespaceCollector(bus))
    with ServiceBusClient(bus) as client, client.get_queue_sender(QUEUE) as sender:
        sender.send_messages(ServiceBusMessage("x"))
    text = text_of(registry)
    assert f'oxbus_sent_messages_total{{entity="{QUEUE}",kind="queue"}} 1.0' in text
    assert "# TYPE oxbus_active_messages gauge" in text
    bus.close()
    with pytest.raises(ValueError, match="closed"):
        text_of(registry)
