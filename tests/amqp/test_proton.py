# SPDX-License-Identifier: Apache-2.0
"""python-qpid-proton, an AMQP client without support for Service Bus: links, settlement, transactions.

It authenticates with SASL PLAIN, since it does not support `$cbs` (B-408).
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from azure.servicebus.management import CorrelationRuleFilter, SqlRuleFilter
from proton import Described, Event, Message, symbol
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import Container
from proton.utils import BlockingConnection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from azure.servicebus.management import ServiceBusAdministrationClient as SdkAdministrationClient
    from oxbus import ServiceBusClient
    from oxbus.server import Server

WAIT_SECONDS = 30
TRANSACTIONAL_STATE = 0x34
"""Descriptor of the state of a delivery in a transaction."""


@pytest.fixture
def url(server: Server) -> str:
    """The address of the server with the name and the key of the development rule."""
    return f"amqp://RootManageSharedAccessKey:SAS_KEY_VALUE@{server.host}:{server.port}"


@pytest.fixture
def connection(url: str) -> Iterator[BlockingConnection]:
    """A connection with a session."""
    connection = BlockingConnection(url, timeout=WAIT_SECONDS, allow_insecure_mechs=True, allowed_mechs="PLAIN")
    yield connection
    connection.close()


def test_timespans_are_compared_as_such(
    connection: BlockingConnection, admin: SdkAdministrationClient, oxbus_client: ServiceBusClient, partitioned: bool
) -> None:
    """A rule of the SDK selects a described long, as .NET and Java encode it, and no plain one (B-357, B-374)."""
    hour = timedelta(hours=1)
    admin.create_topic("news", enable_partitioning=partitioned)
    filters: dict[str, CorrelationRuleFilter | SqlRuleFilter] = {
        "equal": CorrelationRuleFilter(properties={"wait": hour}),
        "less": SqlRuleFilter("wait < @d", {"@d": hour}),
    }
    for name, chosen in filters.items():
        admin.create_subscription("news", name)
        admin.delete_rule("news", name, "$Default")
        admin.create_rule("news", name, "r", filter=chosen)
    sender = connection.create_sender("news")
    ticks = {"hour": 36_000_000_000, "minute": 600_000_000}
    for name, number in ticks.items():
        for kind, value in (("span", Described(symbol("com.microsoft:timespan"), number)), ("number", number)):
            sender.send(Message(body=f"{name} as {kind}", properties={"wait": value}))
    found = {}
    for name in filters:
        with oxbus_client.get_subscription_receiver("news", name, receive_mode="receiveanddelete") as receiver:
            found[name] = receiver.receive_messages(10, max_wait_time=0)
    assert {name: [message.application_properties for message in messages] for name, messages in found.items()} == {
        "equal": [{"wait": hour}],
        "less": [{"wait": timedelta(minutes=1)}],
    }


def test_messages_keep_the_types_of_amqp(connection: BlockingConnection, queue: str) -> None:
    """Properties, annotations and the body are received as they were sent (B-428, B-429)."""
    sent = Message(
        body={"list": [1, 2.5, None], "text": "t"},
        id=7,
        subject="subject",
        correlation_id="c",
        properties={"text": "t", "number": 7, "flag": True},
        annotations={"x-opt-partition-key": "k"},
    )
    connection.create_sender(queue).send(sent)
    receiver = connection.create_receiver(queue, credit=1)
    found = receiver.receive(timeout=WAIT_SECONDS)
    assert found.body == sent.body
    assert (found.id, found.subject, found.correlation_id) == (7, "subject", "c")
    assert found.properties == sent.properties
    assert found.annotations is not None
    assert found.annotations["x-opt-partition-key"] == "k"
    assert found.annotations["x-opt-sequence-number"] > 0
    receiver.accept()


def test_a_receiver_that_closes_at_once_leaves_its_message(
    connection: BlockingConnection, queue: str, oxbus_client: ServiceBusClient
) -> None:
    """Its credit and its detach reach the server together; the detach is answered, and no delivery counts."""
    connection.create_sender(queue).send(Message(body="stays"))
    receiver = connection.create_receiver(queue, credit=0)
    receiver.link.flow(1)
    receiver.close()  # type: ignore[no-untyped-call]
    with oxbus_client.get_queue_receiver(queue, max_wait_time=WAIT_SECONDS) as own:
        (message,) = own.receive_messages(1)
        assert (str(message), message.delivery_count) == ("stays", 0)


def test_outcomes_settle(connection: BlockingConnection, queue: str, oxbus_client: ServiceBusClient) -> None:
    """Rejected dead-letters, modified releases and counts, released does not count, accepted completes (B-161)."""
    sender = connection.create_sender(queue)
    for body in ("rejected", "modified", "released", "accepted"):
        sender.send(Message(body=body, annotations={"x-opt-partition-key": "k"}))
    receiver = connection.create_receiver(queue, credit=1)
    counts: dict[str, list[int]] = {}
    # A released message comes again before or after the next one: the client may grant credit before it releases.
    while sum(map(len, counts.values())) < 6:
        message = receiver.receive(timeout=WAIT_SECONDS)
        seen = counts.setdefault(str(message.body), [])
        seen.append(message.delivery_count)
        if len(seen) == 2 or message.body == "accepted":
            receiver.accept()
        elif message.body == "rejected":
            receiver.reject()
        else:
            receiver.release(delivered=message.body == "modified")
    assert counts == {"rejected": [0], "modified": [0, 1], "released": [0, 0], "accepted": [0]}
    with oxbus_client.get_queue_receiver(queue, sub_queue="deadletter") as dead:
        (dead_letter,) = dead.receive_messages(max_wait_time=WAIT_SECONDS)
        dead.complete_message(dead_letter)


class Transfer(MessagingHandler, TransactionHandler):
    """Receives two messages, accepts them and sends two others in one transaction, and ends it."""

    def __init__(self, url: str, queue: str, *, fail: bool) -> None:
        super().__init__(prefetch=0, auto_accept=False)
        self.url, self.queue, self.fail = url, queue, fail
        self.deliveries: list[Any] = []
        self.outcomes: list[str] = []
        self.transaction: Any = None

    def on_start(self, event: Event) -> None:
        """Open the links."""
        self.connection = event.container.connect(self.url, allow_insecure_mechs=True, allowed_mechs="PLAIN")
        self.receiver = event.container.create_receiver(self.connection, self.queue)
        self.sender = event.container.create_sender(self.connection, self.queue)
        self.receiver.flow(2)

    def on_message(self, event: Event) -> None:
        """Begin the transaction when both messages have arrived."""
        self.deliveries.append(event.delivery)
        if len(self.deliveries) == 2:
            event.container.declare_transaction(self.connection, handler=self, settle_before_discharge=True)

    def on_transaction_declared(self, event: Event) -> None:
        """Settle and send in the transaction, then end it."""
        self.transaction = event.transaction
        for delivery in self.deliveries:
            self.transaction.accept(delivery)
        for body in ("third", "fourth"):
            message = Message(body=body, annotations={"x-opt-partition-key": "k"})
            self.transaction.send(self.sender, message)

    def on_delivery(self, event: Event) -> None:
        """End the transaction when both sends are part of it."""
        delivery: Any = event.delivery
        if delivery.link == self.sender and delivery.updated:
            assert delivery.remote_state == TRANSACTIONAL_STATE
            delivery.settle()
            self.outcomes.append("provisional")
            if len(self.outcomes) == 2:
                self.transaction.discharge(self.fail)

    def on_transaction_committed(self, _event: Event) -> None:
        """Record it."""
        self.outcomes.append("committed")
        self.connection.close()

    def on_transaction_aborted(self, _event: Event) -> None:
        """Record it."""
        self.outcomes.append("aborted")
        self.connection.close()

    def on_transaction_commit_failed(self, _event: Event) -> None:
        """Record it."""
        self.outcomes.append("failed")
        self.connection.close()

    def on_transaction_declare_failed(self, _event: Event) -> None:
        """Record it."""
        self.outcomes.append("undeclared")
        self.connection.close()


@pytest.mark.parametrize(("fail", "end", "left"), [(False, "committed", ["third", "fourth"]), (True, "aborted", [])])
def test_a_transaction_receives_and_sends(
    url: str,
    connection: BlockingConnection,
    queue: str,
    oxbus_client: ServiceBusClient,
    fail: bool,
    end: str,
    left: list[str],
) -> None:
    """Settlements and sends of one key are atomic (B-306, B-315, B-316, B-325)."""
    sender = connection.create_sender(queue)
    for body in ("first", "second"):
        sender.send(Message(body=body, annotations={"x-opt-partition-key": "k"}))
    transfer = Transfer(url, queue, fail=fail)
    Container(transfer).run()
    assert transfer.outcomes == ["provisional", "provisional", end]
    with oxbus_client.get_queue_receiver(queue) as receiver:
        peeked = receiver.peek_messages(10)
    # After a rollback the messages are still there: the closed receiver has their locks.
    assert len(peeked) == (2 if fail else len(left))
