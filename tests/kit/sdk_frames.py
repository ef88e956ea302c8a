# SPDX-License-Identifier: Apache-2.0
"""Frames and messages encoded by azure-servicebus without a connection.

`python tests/kit/sdk_frames.py` records those of the installed package.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from azure.servicebus import ServiceBusMessage, ServiceBusMessageBatch
from azure.servicebus._pyamqp import performatives
from azure.servicebus._pyamqp._encode import encode_frame, encode_payload
from azure.servicebus._pyamqp.endpoints import Source, Target
from azure.servicebus._pyamqp.error import AMQPError
from azure.servicebus._pyamqp.message import Header, Message, Properties
from azure.servicebus._pyamqp.outcomes import Accepted, Modified, Rejected, Released
from azure.servicebus._pyamqp.types import TYPE, VALUE, AMQPTypes

if TYPE_CHECKING:
    from collections.abc import Iterator

GOLDEN = Path(__file__).parents[2] / "rust/oxbus-amqp/tests/golden"

ADDRESS = "amqps://localhost:5672/orders"
TOKEN = UUID("00112233-4455-6677-8899-aabbccddeeff")


def frame(performative: Any, channel: int = 1, kind: bytes = b"\x00") -> bytes:
    """A whole frame, as the package's transport builds it."""
    head, body = encode_frame(performative, kind)
    return bytes(head) + channel.to_bytes(2, "big") + bytes(body or b"")


def payload(message: Any) -> bytes:
    """The sections of a message."""
    output = bytearray()
    encode_payload(output, message)
    return bytes(output)


def attach(name: str, *, role: bool, session: str | None = None, handle: int = 2) -> bytes:
    """An attach of a sender or a receiver of the package."""
    filters = {"com.microsoft:session-filter": session} if role else None
    return frame(
        performatives.AttachFrame(
            name=name,
            handle=handle,
            role=role,
            send_settle_mode=0,
            rcv_settle_mode=1,
            source=Source(address=ADDRESS, filters=filters),  # type: ignore[call-arg]  # Its fields have defaults.
            target=Target(address=f"receiver-link-{name}" if role else ADDRESS),  # type: ignore[call-arg]  # The same.
            unsettled=None,
            incomplete_unsettled=False,
            initial_delivery_count=None if role else 0,
            max_message_size=0,
            offered_capabilities=None,
            desired_capabilities=None,
            properties={b"com.microsoft:timeout": 5000} if role else None,
        )
    )


def disposition(state: Any, *, settled: bool = False) -> bytes:
    """A disposition of a receiver of the package."""
    return frame(performatives.DispositionFrame(True, 1 << 20, None, settled, state, None))


def batch() -> bytes:
    """The payload of a batch of two messages."""
    made = ServiceBusMessageBatch(max_size_in_bytes=10_000)
    for number in range(2):
        made.add_message(ServiceBusMessage(f"body {number}", message_id=f"id-{number}", session_id="session"))
    return payload(made._message)


def dead_letter() -> Rejected:
    """The delivery state that dead-letters a message."""
    info = {b"DeadLetterReason": "reason", b"DeadLetterErrorDescription": None}
    return Rejected(error=AMQPError(condition=b"com.microsoft:dead-letter", description="text", info=info))


def message() -> bytes:
    """A message with application properties of every type."""
    return payload(
        Message(
            header=Header(durable=True, priority=7, ttl=60_000, delivery_count=2),
            message_annotations={b"x-opt-partition-key": "key", b"x-opt-sequence-number": 5},
            properties=Properties(
                message_id=TOKEN,
                subject="subject",
                correlation_id="correlation",
                content_type="text/plain",
                absolute_expiry_time=2_000,
                creation_time=1_000,
                group_id="session",
                group_sequence=3,
                reply_to_group_id="reply",
            ),
            application_properties={
                "text": "näme",
                "whole": 5,
                "large": {TYPE: AMQPTypes.long, VALUE: 1 << 40},
                "real": 1.5,
                "flag": True,
                "nothing": None,
                "bytes": b"\x00\xff",
                "uuid": TOKEN,
            },
            value={"lock-tokens": "none"},
        )
    )


def frames() -> Iterator[tuple[str, bytes]]:
    """Every frame and message by name."""
    yield (
        "open",
        frame(
            performatives.OpenFrame(
                "client", "localhost", 1 << 20, 65_535, None, None, None, None, None, {"product": "p"}
            ),
            0,
        ),
    )
    yield "begin", frame(performatives.BeginFrame(None, 0, 65_536, 65_536, 4_294_967_295, None, None, None))
    yield "attach-sender", attach("sender", role=False)
    yield "attach-session", attach("session", role=True, session="one")
    yield "attach-any-session", attach("any", role=True)
    yield "flow", frame(performatives.FlowFrame(1, 65_536, 0, 65_536, 2, 0, 300, None, None, None, None))
    yield "drain", frame(performatives.FlowFrame(1, 65_536, 0, 65_536, 2, 7, 0, None, True, None, None))
    yield (
        "transfer",
        frame(
            performatives.TransferFrame(
                2, 9, (9).to_bytes(4, "big"), 0x80013700, False, False, None, None, None, None, None, batch()
            )
        ),
    )
    yield "complete", disposition(Accepted())
    yield "abandon", disposition(Modified(delivery_failed=True, undeliverable_here=False, message_annotations=None))
    yield "defer", disposition(Modified(delivery_failed=True, undeliverable_here=True, message_annotations=None))
    yield "dead-letter", disposition(dead_letter())
    yield "release", disposition(Released(), settled=True)
    yield "detach", frame(performatives.DetachFrame(2, True, None))
    yield "end", frame(performatives.EndFrame(None))
    yield "close", frame(performatives.CloseFrame(AMQPError(condition=b"amqp:internal-error")), 0)
    yield "sasl-init", frame(performatives.SASLInit(b"ANONYMOUS", None, "localhost"), 0, b"\x01")
    yield "batch", batch()
    yield "message", message()


def start() -> bytes:
    """The frames of the package from the connection header to a link in each direction, with credit."""
    known = dict(frames())
    parts = [
        b"AMQP\x03\x01\x00\x00",
        known["sasl-init"],
        b"AMQP\x00\x01\x00\x00",
        known["open"],
        known["begin"],
        attach("sender", role=False),
        attach("receiver", role=True, handle=1),
        frame(performatives.FlowFrame(1, 65_536, 0, 65_536, 1, 0, 300, None, None, None, None)),
    ]
    return b"".join(parts)


def record() -> None:
    """Write the files that the tests read."""
    head = f"# What the encoder of azure-servicebus {version('azure-servicebus')} writes; tests/kit/sdk_frames.py"
    lines = [f"{head} wrote this file.", *(f"{name} {written.hex()}" for name, written in frames())]
    (GOLDEN / "azure-servicebus.txt").write_text("\n".join(lines) + "\n")
    (GOLDEN / "start.bin").write_bytes(start())


if __name__ == "__main__":
    record()
