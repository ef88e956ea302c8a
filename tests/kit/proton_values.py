# SPDX-License-Identifier: Apache-2.0
"""Values encoded by python-qpid-proton, and values of oxbus decoded by it.

`python tests/kit/proton_values.py` records the former in `proton.txt` and compares both.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import proton
from proton import UNDESCRIBED, Array, Data, Described, symbol, ulong

GOLDEN = Path(__file__).parents[2] / "rust/oxbus-amqp/tests/golden"

# `Any`, because the annotation of proton's arrays does not accept this constant.
NO_DESCRIPTOR: Any = UNDESCRIBED

VALUES = {
    "null": None,
    "true": True,
    "false": False,
    "ubyte": proton.ubyte(200),
    "ushort": proton.ushort(60_000),
    "uint-zero": proton.uint(0),
    "uint-small": proton.uint(200),
    "uint": proton.uint(4_000_000_000),
    "ulong-zero": ulong(0),
    "ulong-small": ulong(200),
    "ulong": ulong(1 << 63),
    "byte": proton.byte(-100),
    "short": proton.short(-30_000),
    "int-small": proton.int32(-100),
    "int": proton.int32(-2_000_000_000),
    "long-small": -100,
    "long": -(1 << 62),
    "float": proton.float32(1.5),
    "double": -2.25,
    "decimal32": proton.decimal32(0x12345678),
    "decimal64": proton.decimal64(0x123456789ABCDEF0),
    "decimal128": proton.decimal128(bytes(range(16))),
    "char": proton.char("ß"),
    "timestamp": proton.timestamp(1_700_000_000_000),
    "uuid": UUID("00112233-4455-6677-8899-aabbccddeeff"),
    "binary": b"\x00\xff",
    "binary-long": bytes(300),
    "string": "näme",
    "string-long": "x" * 300,
    "symbol": symbol("amqp:accepted:list"),
    "list-empty": [],
    "list": [1, "two", [b"three"]],
    "map": {symbol("key"): {"inner": 5}},
    "described": Described(ulong(0x137000006), ["x = 1", 20]),
    "array-of-longs": Array(NO_DESCRIPTOR, Data.LONG, 1, -2, 1 << 40),
    "array-of-uuids": Array(NO_DESCRIPTOR, Data.UUID, UUID(int=1), UUID(int=2)),
    "array-of-symbols": Array(NO_DESCRIPTOR, Data.SYMBOL, symbol("one"), symbol("two")),
    "array-described": Array(symbol("kind"), Data.STRING, "one", "two"),
}


def encoded(value: object) -> bytes:
    """The bytes that proton encodes."""
    data = Data()
    data.put_object(value)
    written: bytes = data.encode()
    return written


def decoded(written: bytes) -> object:
    """The value that proton decodes."""
    data = Data()
    assert data.decode(written) == len(written)
    data.next()
    value: object = data.get_object()
    return value


def main() -> None:
    """Record proton's encodings, then decode those of oxbus."""
    lines = [f"{name} {encoded(value).hex()}" for name, value in VALUES.items()]
    head = f"# What python-qpid-proton {'.'.join(map(str, proton.VERSION))} writes; tests/kit/proton_values.py"
    (GOLDEN / "proton.txt").write_text("\n".join([f"{head} wrote this file.", *lines]) + "\n")
    ours = (GOLDEN / "values.txt").read_text().splitlines()[1:]
    read = {name: decoded(bytes.fromhex(text)) for name, text in (line.split() for line in ours)}
    for name, value in VALUES.items():
        wanted = decoded(encoded(value))
        # Encoded again, because proton decodes binaries as memoryviews, which do not compare equal.
        if encoded(read.pop(name)) != encoded(wanted):
            raise SystemExit(f"{name}: proton reads another value of ours")
    if read:
        raise SystemExit(f"values that proton did not write: {sorted(read)}")


if __name__ == "__main__":
    main()
