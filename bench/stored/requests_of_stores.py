# SPDX-License-Identifier: Apache-2.0
"""The bytes of a request that creates one object, for each store: HTTP with a signature, or PostgreSQL's protocol.

They are made before the clock runs, so that a bare creation shows the store and not a client.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
import struct
import time
from dataclasses import dataclass
from email.utils import formatdate
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from peers.server import LOOPBACK

from stored.places import AZURITE, VERSITYGW, Place

if TYPE_CHECKING:
    from collections.abc import Callable

    from stored_server import StoredPlace

VERSION = "2021-08-06"
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
    account, key = place.options["account_name"], base64.b64decode(place.options["account_key"])
    address = urlsplit(place.options["endpoint"])
    container = urlsplit(place.url).netloc

    def request() -> bytes:
        path = f"/{account}/{container}/bare/{next(numbers)}"
        headers = {"x-ms-blob-type": "BlockBlob", "x-ms-date": formatdate(usegmt=True), "x-ms-version": VERSION}
        lines = ["PUT", "", "", str(len(payload)), "", "", "", "", "", "*", "", ""]
        lines += [f"{name}:{value}" for name, value in headers.items()]
        text = "\n".join([*lines, f"/{account}{path}"])
        digest = base64.b64encode(hmac.new(key, text.encode(), hashlib.sha256).digest()).decode()
        headers |= {"Authorization": f"SharedKey {account}:{digest}", "If-None-Match": "*"}
        return _http(path, address.netloc, headers, payload)

    return Creation(address.port or 80, b"", request, _http_answered)


def _s3(place: StoredPlace, payload: bytes, numbers: itertools.count[int]) -> Creation:
    options = place.options
    address = urlsplit(options["endpoint"])
    bucket, region = urlsplit(place.url).netloc, options["region"]
    digest = hashlib.sha256(payload).hexdigest()

    def request() -> bytes:
        path = f"/{bucket}/bare/{next(numbers)}"
        moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        signed = {"host": address.netloc, "if-none-match": "*", "x-amz-content-sha256": digest, "x-amz-date": moment}
        names = ";".join(signed)
        canonical = "".join(f"{name}:{value}\n" for name, value in signed.items())
        asked = f"PUT\n{path}\n\n{canonical}\n{names}\n{digest}"
        scope = f"{moment[:8]}/{region}/s3/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", moment, scope, hashlib.sha256(asked.encode()).hexdigest()])
        key = f"AWS4{options['secret_access_key']}".encode()
        for part in scope.split("/"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
        credential = f"{options['access_key_id']}/{scope}"
        signed["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, Signature={signature}"
        )
        return _http(path, signed.pop("host"), signed, payload)

    return Creation(address.port or 80, b"", request, _http_answered)


def _http(path: str, host: str, headers: dict[str, str], payload: bytes) -> bytes:
    lines = [f"PUT {path} HTTP/1.1", f"Host: {host}", f"Content-Length: {len(payload)}"]
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
