# SPDX-License-Identifier: Apache-2.0
"""A store that refuses, is away or hangs: clear errors, nothing is lost, and work goes on when it is back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.exceptions import ServiceBusError
from oxbus.management import ServiceBusAdministrationClient
from stored_server import LOOPBACK, StoredPlace, Switch, free_port, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

PORT = re.compile(rf"{re.escape(LOOPBACK)}:(\d+)")


@pytest.fixture
def reached(place: StoredPlace) -> Iterator[tuple[StoredPlace, Switch, int]]:
    """A place that is reached through a proxy, the proxy, and the port of the store itself."""
    texts = [place.url, *place.options.values()]
    ports = {int(found[1]) for text in texts if (found := PORT.search(text))}
    if not ports:
        pytest.skip("the store has no address")
    (port,) = ports
    switch = Switch([port])

    def moved(text: str) -> str:
        return PORT.sub(f"{LOOPBACK}:{switch.port}", text)

    options = {name: moved(value) for name, value in place.options.items()}
    yield StoredPlace(moved(place.url), {**options, "timeout": "2s"}), switch, port
    switch.close()


def test_a_store_that_is_away_makes_sends_wait_and_loses_nothing(reached: tuple[StoredPlace, Switch, int]) -> None:
    """Sends end with their timeout while the store is away. When it is back, everything goes on by itself."""
    place, switch, port = reached
    with place.open() as namespace, ServiceBusClient(namespace) as client:
        ServiceBusAdministrationClient(namespace).create_queue("q")
        sender, receiver = client.get_queue_sender("q"), client.get_queue_receiver("q")
        sender.send_messages(ServiceBusMessage("before"))
        switch.lead_to([free_port()])
        with pytest.raises(ServiceBusError):
            sender.send_messages(ServiceBusMessage("unknown"), timeout=3)
        wait_until(lambda: namespace._store_trouble() is not None, "the trouble")
        switch.lead_to([port])

        def is_sent() -> bool:
            try:
                sender.send_messages(ServiceBusMessage("after"), timeout=5)
            except ServiceBusError:
                return False
            return True

        wait_until(is_sent, "a send after the outage")
        wait_until(lambda: namespace._store_trouble() is None, "the end of the trouble")
        found = []
        while messages := receiver.receive_messages(10, max_wait_time=1):
            found += [str(message) for message in messages]
            receiver.complete_messages(messages)
    assert {"before", "after"} <= {*found} <= {"before", "unknown", "after"}
    with place.open() as namespace, ServiceBusClient(namespace) as client:
        assert client.get_queue_receiver("q").receive_messages(1, max_wait_time=0) == []


def test_a_close_while_the_store_is_away_ends(reached: tuple[StoredPlace, Switch, int]) -> None:
    """Closing gives up after a while; the next owner finds everything that was acknowledged."""
    place, switch, port = reached
    namespace = place.open()
    ServiceBusAdministrationClient(namespace).create_queue("q")
    with ServiceBusClient(namespace) as client:
        client.get_queue_sender("q").send_messages(ServiceBusMessage("kept"))
    switch.lead_to([free_port()])
    namespace.close()
    switch.lead_to([port])
    with place.open() as reopened, ServiceBusClient(reopened) as client:
        (message,) = client.get_queue_receiver("q").receive_messages(1, max_wait_time=0)
        assert str(message) == "kept"


def test_what_the_store_refuses_is_named(reached: tuple[StoredPlace, Switch, int]) -> None:
    """A wrong key and a missing container have errors that say so."""
    place, _, _ = reached
    if not place.url.startswith("az://"):
        pytest.skip("an account of Azure")
    wrong = {**place.options, "account_key": "d3Jvbmc="}
    with pytest.raises(OSError, match="refused the credentials") as refused:
        Namespace(place.url, storage_options=wrong)
    assert "d3Jvbmc" not in str(refused.value)
    with pytest.raises(OSError, match="container"):
        Namespace("az://missing/shop", storage_options=place.options)
