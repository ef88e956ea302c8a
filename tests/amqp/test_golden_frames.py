# SPDX-License-Identifier: Apache-2.0
"""Frames of azure-servicebus and of oxbus, each decoded by the other side.

`rust/oxbus-amqp/tests/golden.rs` decodes the frames of `azure-servicebus.txt` and encodes those of `oxbus.txt`.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
import sdk_frames
from azure.servicebus._pyamqp._decode import decode_frame, decode_payload


def golden(name: str) -> dict[str, bytes]:
    """The frames of a file by name."""
    lines = (sdk_frames.GOLDEN / name).read_text().splitlines()
    pairs = (line.split() for line in lines if not line.startswith("#"))
    return {name: bytes.fromhex(text) for name, text in pairs}


def read(name: str) -> tuple[int, list[Any]]:
    """Decode one frame of oxbus with the package: its code and its fields."""
    whole = golden("oxbus.txt")[name]
    assert int.from_bytes(whole[:4], "big") == len(whole)
    return decode_frame(memoryview(whole[8:]))


def test_installed_package_writes_the_recorded_frames() -> None:
    """A release that encodes other frames fails here; `python tests/kit/sdk_frames.py` records them again."""
    assert dict(sdk_frames.frames()) == golden("azure-servicebus.txt")
    assert sdk_frames.start() == (sdk_frames.GOLDEN / "start.bin").read_bytes()


@pytest.mark.parametrize(
    ("name", "code", "fields"),
    [
        ("open", 0x10, 10),
        ("begin", 0x11, 8),
        ("attach-session", 0x12, 14),
        ("refused", 0x12, 14),
        ("flow", 0x13, 11),
        ("settled", 0x15, 6),
        ("detach", 0x16, 3),
        ("end", 0x17, 1),
        ("close", 0x18, 1),
    ],
)
def test_our_frames_have_all_their_fields(name: str, code: int, fields: int) -> None:
    """The package reads fields by position, also those behind the last one sent."""
    whole = golden("oxbus.txt")[name]
    assert whole[8:11] == bytes([0, 0x53, code])
    assert int.from_bytes(whole[16:20], "big") == fields
    assert read(name)[0] == code


def test_package_reads_a_close_with_its_error() -> None:
    """An error has three fields; the package reads the third without checking its presence."""
    _, [[condition, description, info]] = read("close")
    assert (condition, description, info) == (b"amqp:connection:forced", b"shutting down", None)


def test_package_reads_an_accepted_session() -> None:
    """The package finds the session in the source and its filter."""
    _, fields = read("attach-session")
    source, target = fields[5], fields[6]
    assert source[0] == sdk_frames.ADDRESS.encode()
    assert source[7] == {b"com.microsoft:session-filter": b"one"}
    assert target[0] == b"receiver-link-session"
    assert fields[9] == 0
    assert fields[13] == {b"com.microsoft:locked-until-utc": 638_000_000_000_000_000}


def test_package_reads_a_refusal() -> None:
    """An attach without source and target means rejected."""
    _, fields = read("refused")
    assert fields[5] is None
    assert fields[6] is None
    assert fields[13] == {}


def test_package_reads_a_message() -> None:
    """A message has the annotations that the package looks up, its lock token in both byte orders."""
    whole = golden("oxbus.txt")["transfer"]
    code, fields = decode_frame(memoryview(whole[8:]))
    assert code == 0x14
    assert fields[1] == 1 << 20
    assert UUID(bytes_le=bytes(fields[2])) == sdk_frames.TOKEN
    message = decode_payload(fields[11])
    assert message.header
    assert message.properties
    assert message.application_properties
    assert (message.header.ttl, message.header.delivery_count) == (60_000, 2)
    assert message.delivery_annotations == {b"x-opt-lock-token": sdk_frames.TOKEN}
    assert message.message_annotations == {
        b"x-opt-sequence-number": 5,
        b"x-opt-enqueued-time": 1_700_000_000_000,
        b"x-opt-locked-until": 1_700_000_060_000,
        b"x-opt-partition-key": b"key",
    }
    assert message.properties.message_id == sdk_frames.TOKEN
    assert message.application_properties[b"large"] == 1 << 40
    assert message.value == {b"lock-tokens": b"none"}


def test_package_reads_an_answer_of_management() -> None:
    """Values have exact types: status is an int, expirations are an array of timestamps."""
    message = decode_payload(memoryview(golden("oxbus.txt")["management"]))
    assert message.properties
    assert message.properties.correlation_id == sdk_frames.TOKEN
    assert message.application_properties == {b"statusCode": 200, b"statusDescription": b"OK"}
    assert message.value == {b"expirations": [1_700_000_000_000, 1_700_000_060_000], b"none": []}


def test_package_reads_mechanisms_and_the_outcome_of_settlements() -> None:
    """The package looks up its mechanism in a list, and the type of the state that it requested."""
    _, [mechanisms] = read("mechanisms")
    assert b"ANONYMOUS" in mechanisms
    _, fields = read("settled")
    assert fields[:4] == [False, 1 << 20, (1 << 20) + 4, True]
    assert fields[4] == {"accepted": []}
