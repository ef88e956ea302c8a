# SPDX-License-Identifier: Apache-2.0
"""The bulk plane over TLS, with a certificate made for the test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from certificates import make_certificate
from oxbus.bulk import BulkClient
from oxbus.exceptions import ServiceBusConnectionError

pa = pytest.importorskip("pyarrow")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from oxbus import Namespace
    from oxbus.bulk import BulkServer

KEY = "a key of the tests, long enough"


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1."""
    return make_certificate(tmp_path, "127.0.0.1")


@pytest.fixture
def secure(namespace: Namespace, certificate: tuple[Path, Path]) -> Iterator[BulkServer]:
    """A server with a certificate and a key."""
    with namespace.serve_bulk(key=KEY, certificate=certificate[0], private_key=certificate[1]) as server:
        yield server


def test_all_goes_through(
    secure: BulkServer, certificate: tuple[Path, Path], queue_name: str, rows: Callable[..., Any]
) -> None:
    """Rows in and out, more than one piece of a stream, over connections that are used again."""
    assert secure.endpoint.startswith("https://127.0.0.1:")
    with BulkClient(secure.connection_string, ca_file=certificate[0]) as client:
        for _ in range(3):
            assert sum(client.send(queue_name, pa.table({"body": [b"x" * 1000] * 5000})).values()) == 5000
        received = 0
        while received < 15_000:
            table = client.receive(queue_name, max_message_count=15_000)
            assert len(table)
            assert client.settle(queue_name, table, "complete") == []
            received += len(table)
        with pytest.raises(ValueError, match="`surprise`"):
            client.send(queue_name, rows(1, surprise=[1]))
        assert client.describe(queue_name)["active_messages"] == 0


def test_who_is_not_trusted_is_not_talked_to(
    secure: BulkServer, tmp_path: Path, certificate: tuple[Path, Path], namespace: Namespace
) -> None:
    """Another issuer, another address, no encryption where there should be some, and the other way round."""
    stranger, _ = make_certificate(tmp_path, "127.0.0.3")
    with (
        BulkClient(secure.connection_string, ca_file=stranger) as client,
        pytest.raises(ServiceBusConnectionError, match="certificate"),
    ):
        client.stages()
    with (
        namespace.serve_bulk("127.0.0.2", certificate=certificate[0], private_key=certificate[1]) as misplaced,
        BulkClient(misplaced.connection_string, ca_file=certificate[0]) as client,
        pytest.raises(ServiceBusConnectionError, match="certificate"),
    ):
        client.stages()
    with BulkClient(f"Endpoint=http://127.0.0.1:{secure.port}") as client, pytest.raises(ServiceBusConnectionError):
        client.stages()
    with namespace.serve_bulk() as plain:
        address = f"Endpoint=https://127.0.0.1:{plain.port}"
        with BulkClient(address, ca_file=certificate[0]) as client, pytest.raises(ServiceBusConnectionError):
            client.stages()


def test_files_that_are_none(namespace: Namespace, tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    """Neither the server nor the client takes what is no certificate or no key."""
    nothing = tmp_path / "nothing.pem"
    nothing.write_text("nothing")
    other = make_certificate(tmp_path, "127.0.0.9")
    for chain, key in ((nothing, certificate[1]), (certificate[0], nothing), (certificate[0], other[1])):
        with pytest.raises(ValueError, match=r"certificate|private_key"):
            namespace.serve_bulk(certificate=chain, private_key=key)
    for path, text in ((nothing, "no certificate"), (tmp_path / "missing.pem", "cannot be read")):
        with pytest.raises(ValueError, match=text):
            BulkClient("Endpoint=https://127.0.0.1:1", ca_file=path)
