# SPDX-License-Identifier: Apache-2.0
"""Queues and messages of the fault suite: what is in a message follows from its id, so that each change is seen."""

from __future__ import annotations

import hashlib
import random
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from oxbus.management import ServiceBusAdministrationClient

if TYPE_CHECKING:
    from stored_server import StoredPlace

QUEUES: Final = {"spread": True, "single": False}
"""The queues of the load; true means partitioned."""

LOCK_SECONDS: Final = 300
"""How long a lock lasts: longer than any pause, so that only takeovers end locks."""

MOST_DELIVERIES: Final = 100_000
"""High enough that no message is dead-lettered by exceeding it."""

TOKENS: Final = "tokens"
"""The queue whose messages are for the locks of old owners."""


def body_of(uid: str) -> bytes:
    """Return the body of the message with an id."""
    chance = random.Random(uid)
    return f"{uid} ".encode() + chance.randbytes(chance.choice([0, 0, 100, 3000]))


def is_as_sent(message: Any) -> bool:
    """Return whether a message that was received is the one that was sent with its id."""
    uid = str(message.message_id)
    properties = {_text(name): value for name, value in (message.application_properties or {}).items()}
    return b"".join(message.body) == body_of(uid) and properties.get("mark") == mark_of(uid)


def mark_of(uid: str) -> int:
    """Return the property of the message with an id."""
    return int(hashlib.sha256(uid.encode()).hexdigest()[:7], 16)


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name


def make_queues(place: StoredPlace) -> None:
    """Create the queues in an empty place."""
    with place.open() as namespace:
        admin = ServiceBusAdministrationClient(namespace)
        for name, partitioned in {**QUEUES, TOKENS: False}.items():
            admin.create_queue(
                name,
                enable_partitioning=partitioned,
                max_delivery_count=MOST_DELIVERIES,
                lock_duration=timedelta(seconds=LOCK_SECONDS),
            )
