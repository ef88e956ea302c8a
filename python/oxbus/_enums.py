# SPDX-License-Identifier: Apache-2.0
"""The enumerations of the data plane, with the names and values of the SDK."""

from __future__ import annotations

from enum import Enum
from typing import Final

from oxbus._options import Choice


class ServiceBusReceiveMode(Choice, str, Enum):
    """How a receiver takes messages.

    Source: docs/behaviour.md B-146.
    """

    PEEK_LOCK = "peeklock"
    """Lock each message until it is settled."""

    RECEIVE_AND_DELETE = "receiveanddelete"
    """Remove each message on delivery; there is nothing to settle, and a crash loses the message."""


class ServiceBusSubQueue(Choice, str, Enum):
    """The queues that belong to an entity.

    Source: docs/behaviour.md B-259, B-273.
    """

    DEAD_LETTER = "deadletter"
    """Messages that could not be processed, or that expired."""

    TRANSFER_DEAD_LETTER = "transferdeadletter"
    """Messages that could not be forwarded."""


class ServiceBusMessageState(Choice, int, Enum):
    """The state of a message in its queue.

    Source: docs/behaviour.md B-292.
    """

    ACTIVE = 0
    """Ready or locked."""

    DEFERRED = 1
    """Deferred: only `receive_deferred_messages` returns it."""

    SCHEDULED = 2
    """Scheduled for later."""


class ServiceBusSessionFilter(Enum):
    """The session that a receiver requests when it names none.

    Source: docs/behaviour.md B-195.
    """

    NEXT_AVAILABLE = 0
    """Any session that is unlocked and has messages."""


class TransportType(Choice, str, Enum):
    """How a client reaches a server.

    Source: `azure.servicebus.TransportType`.
    """

    Amqp = "amqp"
    """TCP."""

    AmqpOverWebsocket = "amqpoverwebsocket"
    """WebSocket, as firewalls allow it."""


class AmqpMessageBodyType(Choice, str, Enum):
    """The form of a message's body.

    Source: docs/behaviour.md B-428.
    """

    DATA = "data"
    """One or more sections of bytes."""

    SEQUENCE = "sequence"
    """One or more lists of values."""

    VALUE = "value"
    """One value; None when the message has no body."""


NEXT_AVAILABLE_SESSION: Final = ServiceBusSessionFilter.NEXT_AVAILABLE
