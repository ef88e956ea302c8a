# SPDX-License-Identifier: Apache-2.0
"""Fixtures for session tests."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import NEXT_AVAILABLE_SESSION, ServiceBusMessage
from oxbus.exceptions import OperationTimeoutError
from session_receiving import id_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oxbus import ServiceBusClient, ServiceBusReceiver


@pytest.fixture
def queue_name(make_queue: Callable[..., str]) -> str:
    """A queue with sessions."""
    return make_queue(requires_session=True)


@pytest.fixture
def send(client: ServiceBusClient) -> Callable[..., None]:
    """Send texts to a session, one by one."""

    def send(session_id: str, *texts: str, queue_name: str = "orders", **options: Any) -> None:
        with client.get_queue_sender(queue_name) as sender:
            for text in texts:
                sender.send_messages(ServiceBusMessage(text, session_id=session_id, **options))

    return send


@pytest.fixture
def accept(client: ServiceBusClient, queue_name: str) -> Iterator[Callable[..., ServiceBusReceiver]]:
    """Accept a session without waiting; all are closed when the test ends."""
    with contextlib.ExitStack() as stack:

        def accept(session_id: Any = NEXT_AVAILABLE_SESSION, **options: Any) -> ServiceBusReceiver:
            options = {"max_wait_time": 0} | options
            receiver = client.get_queue_receiver(queue_name, session_id=session_id, **options)
            return stack.enter_context(receiver)

        yield accept


@pytest.fixture
def accept_all(accept: Callable[..., ServiceBusReceiver]) -> Callable[[], set[str | None]]:
    """Accept every available session, release them, and return their ids."""

    def accept_all() -> set[str | None]:
        receivers = []
        with contextlib.suppress(OperationTimeoutError):
            while True:
                receivers.append(accept())
        found = {id_of(receiver) for receiver in receivers}
        assert len(found) == len(receivers)
        for receiver in receivers:
            receiver.close()
        return found

    return accept_all
