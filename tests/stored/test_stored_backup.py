# SPDX-License-Identifier: Apache-2.0
"""A backup of a namespace in a store is the namespace in a directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.backups import backup, restore
from oxbus.management import ServiceBusAdministrationClient

if TYPE_CHECKING:
    from pathlib import Path

    from stored_server import StoredPlace


def test_an_open_namespace_is_backed_up_and_restored(place: StoredPlace, tmp_path: Path) -> None:
    """The restored directory has the messages that the store had."""
    with place.open() as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("q", enable_partitioning=True)
        with ServiceBusClient(namespace).get_queue_sender("q") as sender:
            sender.send_messages([ServiceBusMessage(str(number)) for number in range(50)])
        taken = backup(namespace, tmp_path / "backups")
    restore(taken.directory, tmp_path / "restored")
    with Namespace(tmp_path / "restored") as namespace, ServiceBusClient(namespace) as client:
        found = client.get_queue_receiver("q").receive_messages(100, max_wait_time=0)
    assert sorted(int(str(message)) for message in found) == list(range(50))


def test_a_store_that_nobody_has_open_is_refused(place: StoredPlace, tmp_path: Path) -> None:
    """The error says what to pass instead, and no backup begins."""
    with pytest.raises(ValueError, match="pass the namespace"):
        backup(place.url, tmp_path / "backups")
    assert not (tmp_path / "backups").exists()
