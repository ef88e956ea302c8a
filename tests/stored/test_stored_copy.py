# SPDX-License-Identifier: Apache-2.0
"""`oxbus copy` moves a namespace from a directory into a store and back, message by message."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.management import ServiceBusAdministrationClient

if TYPE_CHECKING:
    from pathlib import Path

    from stored_server import StoredPlace

MESSAGES = 120


def copied(place: StoredPlace, *words: str) -> dict[str, Any]:
    """Run `oxbus copy`; return what it prints."""
    options = [word for name, value in place.options.items() for word in ("--storage-option", f"{name}={value}")]
    run = [sys.executable, "-m", "oxbus.cli", "copy", *words, *options, "--json"]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def content(namespace: Namespace) -> list[tuple[str, bytes, dict[str, object]]]:
    """Everything in the queue, with ids, bodies and properties, in the order of the ids."""
    with ServiceBusClient(namespace) as client, client.get_queue_receiver("q") as receiver:
        found = receiver.peek_messages(2 * MESSAGES)
        return sorted((str(it.message_id), bytes(it), dict(it.application_properties or {})) for it in found)


def test_a_namespace_is_copied_into_a_store_and_back(place: StoredPlace, tmp_path: Path) -> None:
    """All messages arrive, with their bodies and properties, and the source keeps its own."""
    with Namespace(tmp_path / "from", partitions=4) as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("q", enable_partitioning=True, max_delivery_count=7)
        with ServiceBusClient(namespace).get_queue_sender("q") as sender:
            for number in range(MESSAGES):
                body = f"body {number} ".encode() * 50
                message = ServiceBusMessage(
                    body, message_id=str(number), application_properties={"number": number, "text": "x" * number}
                )
                sender.send_messages(message)
        before = content(namespace)
    with place.open():
        pass
    with Namespace(tmp_path / "to", partitions=4):
        pass
    assert copied(place, str(tmp_path / "from"), place.url)["q"]["messages"] == MESSAGES
    with place.open() as stored:
        assert content(stored) == before
    assert copied(place, place.url, str(tmp_path / "to"))["q"]["messages"] == MESSAGES
    with Namespace(tmp_path / "to") as back:
        assert content(back) == before
        assert ServiceBusAdministrationClient(back).get_queue("q").max_delivery_count == 7
