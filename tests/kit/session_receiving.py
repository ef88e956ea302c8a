# SPDX-License-Identifier: Apache-2.0
"""Helpers of the session tests."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oxbus import ServiceBusReceivedMessage, ServiceBusReceiver, ServiceBusSession


LOCK = timedelta(minutes=1)


PAST_THE_LOCK = 61


def session_of(receiver: ServiceBusReceiver) -> ServiceBusSession:
    """The session of a session receiver."""
    assert receiver.session is not None
    return receiver.session


def id_of(receiver: ServiceBusReceiver) -> str | None:
    """The id of its session."""
    return session_of(receiver).session_id


def take(receiver: ServiceBusReceiver, count: int = 100) -> list[ServiceBusReceivedMessage]:
    """Receive available messages."""
    return receiver.receive_messages(max_message_count=count, max_wait_time=0)


def texts(messages: list[ServiceBusReceivedMessage]) -> list[str]:
    """The bodies."""
    return [str(message) for message in messages]
