# SPDX-License-Identifier: Apache-2.0
"""Fixtures for tests with Arrow tables, topics or several entities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from oxbus import ServiceBusMessage, ServiceBusReceiveMode
from oxbus.management import RuleProperties

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver
    from oxbus.management import ServiceBusAdministrationClient


@pytest.fixture
def bodies() -> Callable[[int], Any]:
    """Make a table of messages with the bodies "0", "1", …."""
    pa = pytest.importorskip("pyarrow")

    def bodies(count: int) -> Any:
        return pa.table({"body": pa.array([str(number).encode() for number in range(count)], pa.binary())})

    return bodies


@pytest.fixture
def take() -> Callable[..., Any]:
    """Receive Arrow batches until none is left, and return them as one table."""
    pa = pytest.importorskip("pyarrow")

    def take(receiver: ServiceBusReceiver, max_message_count: int = 1000) -> Any:
        tables = []
        empty = 0
        while empty < 3:
            table = pa.table(receiver.receive_arrow(max_message_count=max_message_count, max_wait_time=0))
            assert table.num_rows <= max_message_count
            tables.append(table)
            empty = 0 if table.num_rows else empty + 1
        return pa.concat_tables(tables)

    return take


@pytest.fixture
def make_topic(admin: ServiceBusAdministrationClient, partitioned: bool) -> Callable[..., str]:
    """Create a topic, partitioned if `partitioned` is true, and return its name."""

    def make(name: str = "news", **options: Any) -> str:
        admin.create_topic(name, enable_partitioning=partitioned, **options)
        return name

    return make


@pytest.fixture
def topic(make_topic: Callable[..., str]) -> str:
    """A topic with default options and without subscriptions, partitioned if `partitioned` is true."""
    return make_topic()


@pytest.fixture
def subscribe(admin: ServiceBusAdministrationClient) -> Callable[..., str]:
    """Create a subscription of the topic `news`, with one rule `first` if a filter or an action is given."""

    def subscribe(name: str = "all", *, filter: Any = None, action: Any = None, **options: Any) -> str:  # noqa: A002
        if filter is not None or action is not None:
            options["rule"] = RuleProperties("first", filter=filter, action=action, created_at_utc=None)
        admin.create_subscription("news", name, **options)
        return name

    return subscribe


@pytest.fixture
def publish(client: ServiceBusClient) -> Callable[..., None]:
    """Send each text to the topic `news` as a separate message with the given properties."""

    def publish(*texts: str, **properties: Any) -> None:
        with client.get_topic_sender("news") as sender:
            for text in texts:
                sender.send_messages(ServiceBusMessage(text, **properties))

    return publish


@pytest.fixture
def take_copies(
    client: ServiceBusClient, drain: Callable[..., list[ServiceBusReceivedMessage]]
) -> Callable[..., list[ServiceBusReceivedMessage]]:
    """Receive and delete all messages of a subscription of the topic `news`."""

    def take_copies(subscription: str = "all", **options: Any) -> list[ServiceBusReceivedMessage]:
        mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
        with client.get_subscription_receiver("news", subscription, receive_mode=mode, **options) as receiver:
            return drain(receiver)

    return take_copies


@pytest.fixture
def send_to(client: ServiceBusClient) -> Callable[..., None]:
    """Send each text to a queue or topic as a separate message with the given properties."""

    def send_to(entity: str, *texts: str, **properties: Any) -> None:
        with client.get_queue_sender(entity) if entity != "news" else client.get_topic_sender(entity) as sender:
            for text in texts:
                sender.send_messages(ServiceBusMessage(text, **properties))

    return send_to


@pytest.fixture
def take_from(
    client: ServiceBusClient, drain: Callable[..., list[ServiceBusReceivedMessage]]
) -> Callable[..., list[ServiceBusReceivedMessage]]:
    """Receive and delete all messages of a queue or of one of its sub-queues."""

    def take_from(queue: str, sub_queue: str | None = None, **options: Any) -> list[ServiceBusReceivedMessage]:
        mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
        with client.get_queue_receiver(queue, sub_queue=sub_queue, receive_mode=mode, **options) as receiver:
            return drain(receiver)

    return take_from
