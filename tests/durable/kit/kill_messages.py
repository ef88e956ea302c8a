# SPDX-License-Identifier: Apache-2.0
"""The messages of the kill test: the content of a message follows from its id, so that any change is detected."""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING, Any

from oxbus import ServiceBusMessage, ServiceBusMessageState

if TYPE_CHECKING:
    from oxbus import ServiceBusReceivedMessage

QUEUES = {"spread": True, "single": False}
"""The queues of the test; true means partitioned."""

REASON = "the kill test says so"


def _content(uid: str) -> tuple[bytes, str, dict[str, Any]]:
    rng = random.Random(uid)
    body = uid.encode() + rng.randbytes(rng.choice([0, 10, 200, 3000]))
    return body, f"subject of {uid}", {"uid": uid, "number": rng.randrange(2**62), "bytes": rng.randbytes(5)}


def _digest(body: bytes, subject: str | None, properties: dict[str, Any]) -> str:
    return hashlib.sha256(repr((body, subject, sorted(properties.items()))).encode()).hexdigest()[:16]


def expected_digest(uid: str) -> str:
    """The digest of the message with this id as it was sent."""
    return _digest(*_content(uid))


def message(uid: str, key: str) -> ServiceBusMessage:
    """The message with this id, to be sent with this key."""
    body, subject, properties = _content(uid)
    return ServiceBusMessage(
        body, message_id=uid, partition_key=key, subject=subject, application_properties=properties
    )


def view(received: ServiceBusReceivedMessage) -> dict[str, Any]:
    """The facts that the checker needs about a message that was received or peeked."""
    # A dead letter has two more properties (B-263).
    properties = {
        name: value
        for name, value in (received.application_properties or {}).items()
        if not name.startswith("DeadLetter")
    }
    return {
        "uid": received.message_id,
        "number": received.sequence_number,
        "key": received.partition_key,
        "count": received.delivery_count,
        "digest": _digest(b"".join(received.body), received.subject, properties),
        "deferred": received.state == ServiceBusMessageState.DEFERRED,
        "reason": received.dead_letter_reason,
    }
