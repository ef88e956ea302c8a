# SPDX-License-Identifier: Apache-2.0
"""A broker for the tests of `format("oxbus")` in the process of the test: it outlives drivers that a test kills."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import oxbus
import pyarrow as pa
from oxbus._oxbus import BulkClient
from oxbus.management import AccessRights, AuthorizationRule, ServiceBusAdministrationClient
from oxbus.server import serve

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KEY = "b3hidXMtdGVzdC1rZXktMTIzNDU2"
"""The broker's key; no text of Spark or oxbus may show it."""

HOST = "127.0.0.1"


class Broker:
    """A durable namespace that serves bulk clients; it can be stopped and started again on the same port."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._port = 0
        self.start()

    def start(self) -> None:
        """Open the namespace and serve it."""
        self.namespace = oxbus.Namespace(self._path, durability="os")
        rules = [AuthorizationRule(key_name="broker", primary_key=KEY, rights=[AccessRights.MANAGE])]
        self._server = serve(self.namespace, host=HOST, amqp_port=self._port, rules=rules)
        self._port = self._server.port
        self.connection_string = self._server.connection_string
        self.client = BulkClient(self.connection_string)

    def stop(self) -> None:
        """Stop the server and close the namespace."""
        self.client.close()
        self._server.close()
        self.namespace.close()

    def create(self, *queues: str, **options: Any) -> None:
        """Create partitioned queues."""
        admin = ServiceBusAdministrationClient(self.namespace)
        for queue in queues:
            admin.create_queue(queue, **({"enable_partitioning": True} | options))

    def options(self, queue: object = None, **more: object) -> dict[str, str]:
        """Options of a read or write."""
        options = {"connectionString": self.connection_string} | ({} if queue is None else {"queue": str(queue)})
        return options | {name: str(value) for name, value in more.items()}

    def fill(self, queue: str, numbers: range, keys: int = 50) -> None:
        """Send messages whose bodies are these numbers."""
        properties = pa.array([[("number", str(it))] for it in numbers], pa.map_(pa.string(), pa.string()))
        columns = {"body": [str(it) for it in numbers], "partition_key": [f"key-{it % keys}" for it in numbers]}
        self.client.send(queue, pa.table(columns | {"application_properties": properties}))

    def messages(self, queue: str) -> list[dict[str, Any]]:
        """Browse a queue."""
        found: list[dict[str, Any]] = []
        for partition in range(self.client.describe(queue)["partitions"]):
            number: int | None = partition << 48
            while number is not None:
                page, number = self.client.peek(queue, partition, number)
                found += pa.RecordBatchReader.from_stream(page).read_all().to_pylist()
        return found

    def numbers(self, queue: str) -> list[int]:
        """The bodies of a queue as numbers, sorted."""
        return sorted(int(message["body"]) for message in self.messages(queue))

    def contents(self, queue: str) -> list[tuple[Any, ...]]:
        """The messages of a queue, reduced to what a copy to another queue keeps; sorted, for comparison."""
        kept = ("message_id", "body", "partition_key", "application_properties")
        return sorted(tuple(str(message[name]) for name in kept) for message in self.messages(queue))

    def active(self, queue: str) -> int:
        """The number of active messages of a queue."""
        return int(self.client.describe(queue)["active_messages"])

    def waiting_stages(self) -> list[Any]:
        """The stages that no commit named; published ones stay until they are synced."""
        return [it for it in self.client.stages() if it["batch"] is None]

    def take(self, queue: str, most: int) -> list[int]:
        """Receive and settle at once, as another client."""
        page = self.client.receive(queue, max_message_count=most, receive_mode="receive_and_delete")
        return [int(body.as_py()) for body in pa.RecordBatchReader.from_stream(page).read_all()["body"]]

    def make_topic(self, topic: str, subscription: str) -> None:
        """Create a topic with one subscription."""
        admin = ServiceBusAdministrationClient(self.namespace)
        admin.create_topic(topic, enable_partitioning=True)
        admin.create_subscription(topic, subscription)

    def dead_letter(self, queue: str, count: int, reason: str) -> None:
        """Receive messages and dead-letter them."""
        with oxbus.ServiceBusClient(self.namespace) as client, client.get_queue_receiver(queue) as receiver:
            while count:
                for message in receiver.receive_messages(max_message_count=count, max_wait_time=5):
                    receiver.dead_letter_message(message, reason=reason)
                    count -= 1

    def recreate(self, queue: str) -> None:
        """Delete a queue and create one of the same name."""
        ServiceBusAdministrationClient(self.namespace).delete_queue(queue)
        self.create(queue)

    def wait_for_expiry(self, queue: str, seconds: float = 60.0) -> None:
        """Wait until no reservation of a queue holds messages."""
        self.wait_until(lambda: all(it["state"] != "live" for it in self.client.reservations(queue)), seconds)

    def lock_end(self, queue: str) -> int:
        """The time at which the only reservation of a queue expires, in milliseconds."""
        (reservation,) = self.client.reservations(queue)
        return int(reservation["expires_at_ms"])

    def wait_until(self, condition: Callable[[], bool], seconds: float = 60.0) -> None:
        """Wait until a condition holds."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "the condition never held"
            time.sleep(0.05)
