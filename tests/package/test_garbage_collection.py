# SPDX-License-Identifier: Apache-2.0
"""The garbage collector of Python does not visit messages, but it frees objects of subclasses that form cycles."""

from __future__ import annotations

import gc
import weakref

from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.management import ServiceBusAdministrationClient


class Labelled(ServiceBusMessage):
    """A message with attributes."""

    label: object


def test_collector_does_not_visit_messages() -> None:
    """A long list of messages costs the collector no more than a short one."""
    with Namespace() as namespace:
        ServiceBusAdministrationClient(namespace).create_queue("orders")
        with (
            ServiceBusClient(namespace) as client,
            client.get_queue_sender("orders") as sender,
            client.get_queue_receiver("orders") as receiver,
        ):
            message = ServiceBusMessage(b"x")
            sender.send_messages(message)
            (received,) = receiver.receive_messages(max_wait_time=0)
            (peeked,) = receiver.peek_messages()
            assert [gc.is_tracked(it) for it in (message, received, peeked)] == [False] * 3


def test_collector_frees_a_cycle_through_a_subclass() -> None:
    """Objects of a subclass have attributes, so they can form cycles."""
    message = Labelled(b"x")
    message.label = message
    watched = weakref.ref(message)
    del message
    gc.collect()
    assert watched() is None
