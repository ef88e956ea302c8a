# SPDX-License-Identifier: Apache-2.0
"""The bytes of a request that creates one object, for each store: HTTP with a signature, or PostgreSQL's protocol.

They are made before the clock runs, so that a bare creation shows the store and not a client.
"""

from __future__ import annotations

import itertools
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from peers.server import LOOPBACK
from store_signatures import azure_headers, s3_headers

from stored.places import AZURITE, VERSITYGW, Place

if TYPE_CHECKING:
    from collections.abc import Callable

    from stored_server import StoredPlace

TEXT, BYTEA = 25, 17
TYPE_OF_TEXT, TYPE_OF_BINARY = 0, 1
INSERT = b"INSERT INTO oxbus_blobs (key, bytes) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING version"


@dataclass(frozen=True)
class Creation:
    """How objects are created in a store."""

    port: int
    hello: bytes
    """What a connection begins with."""
    request: Callable[[], bytes]
    """The bytes of the next request, under a new key."""
    answered: Callable[[bytes], bool]
    """Whether these bytes are a whole answer; raises `RuntimeError` if it is a refusal."""


def creation_of(kind: Place, place: StoredPlace, payload: bytes) -> Creation:
    """The creation of objects with this payload."""
    numbers = itertools.count(time.time_ns())
    if kind is AZURITE:
        return _azure(place, payload, numbers)
    if kind is VERSITYGW:
        return _s3(place, payload, numbers)
    return _postgres(place, payload, numbers)


def _azure(place: StoredPlace, payload: bytes, numbers: itertools.count[int]) -> Creation:
    account, key = place.options["account_name"], place.options["account_key"]
    address = urlsplit(place.options["endpoint"])
    container = urlsplit(place.url).netloc
    signed = {"length": str(len(payload)), "if_none_match": "*", "x-ms-blob-type": "BlockBlob"}

    def request() -> bytes:
        path = f"/{account}/{container}/bare/{next(numbers)}"
        headers = {"host": address.netloc, "if-none-match": "*", **azure_headers(account, key, path, **signed)}
        return _http(path, headers, payload)

    return Creation(address.port or 80, b"", request, _http_answered)


def _s3(place: StoredPlace, payload: bytes, numbers: itertools.count[int]) -> Creation:
    address = urlsplit(place.options["endpoint"])
    bucket = urlsplit(place.url).netloc

    def request() -> bytes:
        path = f"/{bucket}/bare/{next(numbers)}"
        headers = s3_headers(address.netloc, path, place.options, payload, **{"if-none-match": "*"})
        return _http(path, headers, payload)

    return Creation(address.port or 80, b"", request, _http_answered)


def _http(path: str, headers: dict[str, str], payload: bytes) -> bytes:
    lines = [f"PUT {path} HTTP/1.1", f"Content-Length: {len(payload)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + payload


def _http_answered(answer: bytes) -> bool:
    head, end, body = answer.partition(b"\r\n\r\n")
    if not end:
        return False
    if not head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 201")):
        raise RuntimeError(f"the store refused a bare creation: {answer[:300].decode(errors='replace')}")
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return len(body) >= int(line.partition(b":")[2])
    return b"transfer-encoding: chunked" not in head.lower() or body.endswith(b"0\r\n\r\n")


def _postgres(place: StoredPlace, payload: bytes, numbers: itertools.count[int]) -> Creation:
    address = urlsplit(place.url)
    words = b"user\0oxbus\0database\0postgres\0\0"
    hello = struct.pack("!ii", 8 + len(words), 196608) + words

    def message(kind: bytes, content: bytes) -> bytes:
        return kind + struct.pack("!i", 4 + len(content)) + content

    parse = message(b"P", b"\0" + INSERT + b"\0" + struct.pack("!hii", 2, TEXT, BYTEA))
    end = message(b"E", b"\0" + struct.pack("!i", 0)) + message(b"S", b"")

    def request() -> bytes:
        key = f"bare/{next(numbers)}".encode()
        formats = struct.pack("!hhh", 2, TYPE_OF_TEXT, TYPE_OF_BINARY)
        values = struct.pack("!hi", 2, len(key)) + key + struct.pack("!i", len(payload)) + payload
        bind = message(b"B", b"\0\0" + formats + values + struct.pack("!hh", 1, TYPE_OF_BINARY))
        return parse + bind + end

    assert address.hostname == LOOPBACK
    return Creation(address.port or 5432, hello, request, _postgres_answered)


def _postgres_answered(answer: bytes) -> bool:
    at = 0
    while at + 5 <= len(answer):
        kind, length = answer[at : at + 1], struct.unpack_from("!i", answer, at + 1)[0]
        if kind == b"E":
            raise RuntimeError(f"PostgreSQL refused a bare creation: {answer[at : at + 300].decode(errors='replace')}")
        at += 1 + length
        if kind == b"Z" and at <= len(answer):
            return True
    return False
