# SPDX-License-Identifier: Apache-2.0
"""Clients in Python, each a separate program, so that its processor time is measured apart from the server's.

    python bench/amqp/python_clients.py proton '{"port": 5672, ...}' 10000

They send bodies of 1 KiB, receive each under a lock and settle it, and check that each came once and as it was sent.
Prints a line of JSON with the rate.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

WINDOW = 100
PREFETCH = 200
BATCH = 100
WAIT_SECONDS = 30
FILLER = b"0123456789abcdef" * 63


def body(number: int) -> bytes:
    """A message of 1 KiB that contains its number."""
    return number.to_bytes(16, "big") + FILLER


def check(bodies: list[bytes], count: int) -> None:
    """Each came once and as it was sent."""
    found = sorted(bodies)
    if found != [body(number) for number in range(count)]:
        raise SystemExit(f"{len(found)} messages came, {len(set(found))} different ones, of {count}")


def proton(endpoint: dict[str, Any], count: int) -> float:
    """python-qpid-proton: one event loop that sends, with up to 100 sends unanswered, and accepts each message."""
    from proton import Message  # noqa: PLC0415 -- only one of the clients has to be there
    from proton.handlers import MessagingHandler  # noqa: PLC0415
    from proton.reactor import Container  # noqa: PLC0415

    bodies: list[bytes] = []

    class Through(MessagingHandler):
        def __init__(self) -> None:
            super().__init__(prefetch=PREFETCH)
            self.sent = self.answered = 0

        def on_start(self, event: Any) -> None:
            address = f"amqp://{endpoint['user']}:{endpoint['password']}@127.0.0.1:{endpoint['port']}"
            self.connection = event.container.connect(address, allowed_mechs="PLAIN", reconnect=False)
            event.container.create_receiver(self.connection, endpoint["address"])
            self.sender = event.container.create_sender(self.connection, endpoint["address"])

        def on_sendable(self, _event: Any) -> None:
            while self.sender.credit and self.sent < count and self.sent - self.answered < WINDOW:
                self.sender.send(Message(body=body(self.sent), inferred=True))
                self.sent += 1

        def on_accepted(self, event: Any) -> None:
            if event.sender:
                self.answered += 1
                self.on_sendable(event)
                self._end()

        def on_message(self, event: Any) -> None:
            bodies.append(bytes(event.message.body))
            self._end()

        def _end(self) -> None:
            if len(bodies) == count and self.answered == count:
                self.connection.close()

    began = time.perf_counter()
    Container(Through()).run()
    took = time.perf_counter() - began
    check(bodies, count)
    return took


def azure(endpoint: dict[str, Any], count: int) -> float:
    """azure-servicebus: sends single messages, receives up to 100 with a call, and completes each and waits."""
    from azure.servicebus import ServiceBusClient, ServiceBusMessage  # noqa: PLC0415

    string = (
        f"Endpoint=sb://127.0.0.1:{endpoint['port']};SharedAccessKeyName={endpoint['user']};"
        f"SharedAccessKey={endpoint['password']};UseDevelopmentEmulator=true"
    )
    bodies: list[bytes] = []
    with (
        ServiceBusClient.from_connection_string(string) as client,
        client.get_queue_sender(endpoint["address"]) as sender,
        client.get_queue_receiver(endpoint["address"], prefetch_count=PREFETCH) as receiver,
    ):
        began = time.perf_counter()
        for number in range(count):
            sender.send_messages(ServiceBusMessage(body(number)))
        while len(bodies) < count:
            messages = receiver.receive_messages(BATCH, max_wait_time=WAIT_SECONDS)
            if not messages:
                break
            for message in messages:
                bodies.append(b"".join(message.body))
                receiver.complete_message(message)
        took = time.perf_counter() - began
    check(bodies, count)
    return took


if __name__ == "__main__":
    name, options, number = sys.argv[1:]
    seconds = {"proton": proton, "azure": azure}[name](json.loads(options), int(number))
    print(json.dumps({"throughput_msg_per_s": int(number) / seconds}))
