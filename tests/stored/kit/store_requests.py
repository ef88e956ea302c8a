# SPDX-License-Identifier: Apache-2.0
"""Requests to a store as they are on the wire: where each ends, and which kind of object it is about."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from asyncio import StreamReader

FENCE: Final = b"OXLANE01\x02"
"""How an object that ends a lane begins."""

_LENGTH: Final = re.compile(rb"^content-length: *(\d+)", re.IGNORECASE | re.MULTILINE)
_CHUNKED: Final = re.compile(rb"^transfer-encoding: *chunked", re.IGNORECASE | re.MULTILINE)
_CLOSE: Final = re.compile(rb"^connection: *close", re.IGNORECASE | re.MULTILINE)
_STATUS_WITHOUT_BODY: Final = (b"204", b"304")
_STATEMENT: Final = re.compile(rb"(INSERT INTO|UPDATE|SELECT|DELETE FROM)[^;\x00]*?oxbus_blobs")
_KEY: Final = re.compile(rb"/(lanes/|checkpoints/|manifest|probe/)")
_TEXT: Final = "the store is busy"


@dataclass(frozen=True)
class StoreRequest:
    """One request.

    Attributes:
        content: Its bytes.
        kind: `data`, `fence`, `manifest` or `checkpoint` for one that stores an object; else `other`.
    """

    content: bytes
    kind: str


@dataclass(frozen=True)
class StoreAnswer:
    """The answer to one request, and whether the store closes the connection after it."""

    content: bytes
    is_last: bool


class Wire(Protocol):
    """A protocol: it says where each request and each answer ends."""

    busy: bytes
    """An answer that says that the store is busy."""

    async def request(self, reader: StreamReader) -> StoreRequest:
        """Read one request. Raises `EOFError` at the end."""

    async def answer(self, reader: StreamReader, request: StoreRequest) -> StoreAnswer:
        """Read the answer to one request. Raises `EOFError` if the store closes the connection instead."""


def kind_of(key: bytes, content: bytes) -> str:
    """Return the kind of the object that is stored, by the text that begins with its key or has it inside."""
    found = _KEY.search(key)
    part = found[1].decode() if found else "probe/"
    if part == "lanes/":
        return "fence" if FENCE in content else "data"
    return {"checkpoints/": "checkpoint", "manifest": "manifest"}.get(part, "other")


class Http:
    """Object storage: HTTP/1.1."""

    busy: bytes = f"HTTP/1.1 503 Service Unavailable\r\nContent-Length: {len(_TEXT)}\r\n\r\n{_TEXT}".encode()

    async def request(self, reader: StreamReader) -> StoreRequest:
        """Read one request."""
        head = await reader.readuntil(b"\r\n\r\n")
        body = await _body(reader, head)
        method, target, _ = head.split(b" ", 2)
        return StoreRequest(head + body, kind_of(target, body[:64]) if method == b"PUT" else "other")

    async def answer(self, reader: StreamReader, request: StoreRequest) -> StoreAnswer:
        """Read one answer."""
        head = await reader.readuntil(b"\r\n\r\n")
        is_last = _CLOSE.search(head) is not None
        has_none = request.content.startswith(b"HEAD ") or head.split(b" ", 2)[1] in _STATUS_WITHOUT_BODY
        body = b"" if has_none else await _body(reader, head)
        return StoreAnswer(head + body, is_last)


async def _body(reader: StreamReader, head: bytes) -> bytes:
    if _CHUNKED.search(head):
        parts = []
        while True:
            line = await reader.readuntil(b"\r\n")
            parts += [line, await reader.readexactly(int(line.split(b";")[0], 16) + 2)]
            if parts[-1] == b"\r\n":
                return b"".join(parts)
    length = _LENGTH.search(head)
    return await reader.readexactly(int(length[1])) if length else b""


class Postgres:
    """PostgreSQL, without encryption: a request ends with a Sync or a query, an answer with ReadyForQuery."""

    _fields: bytes = b"SERROR\x00VERROR\x00C57P03\x00M" + _TEXT.encode() + b"\x00\x00"
    busy: bytes = b"E" + (len(_fields) + 4).to_bytes(4, "big") + _fields + b"Z\x00\x00\x00\x05I"

    async def request(self, reader: StreamReader) -> StoreRequest:
        """Read one request."""
        parts = []
        while True:
            tag = await reader.readexactly(1)
            # The first message has a length of four bytes and no tag: the first of them is zero.
            length = (tag if tag == b"\x00" else b"") + await reader.readexactly(3 if tag == b"\x00" else 4)
            parts += [b"" if tag == b"\x00" else tag, length]
            parts.append(await reader.readexactly(int.from_bytes(length, "big") - 4))
            if tag in {b"\x00", b"S", b"Q"}:
                break
            if tag == b"X":
                raise asyncio.IncompleteReadError(b"", None)
        content = b"".join(parts)
        statement = _STATEMENT.search(content)
        stores = statement is not None and statement[1] in {b"INSERT INTO", b"UPDATE"}
        # The key comes before the bytes, so it is found first.
        return StoreRequest(content, kind_of(content, content) if stores else "other")

    async def answer(self, reader: StreamReader, _request: StoreRequest) -> StoreAnswer:
        """Read one answer."""
        parts = []
        while True:
            head = await reader.readexactly(5)
            parts += [head, await reader.readexactly(int.from_bytes(head[1:], "big") - 4)]
            if head[:1] == b"Z":
                return StoreAnswer(b"".join(parts), is_last=False)
