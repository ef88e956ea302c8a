# SPDX-License-Identifier: Apache-2.0
"""The effect in errors of a bulk client: as in the broker's own process, and for connection failures."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

import pytest
from oxbus.bulk import BulkClient
from oxbus.exceptions import (
    MessagingEntityNotFoundError,
    OperationTimeoutError,
    PartialSendError,
    PartitionUnavailableError,
    ServiceBusConnectionError,
    ServiceBusError,
)
from oxbus.testing import heal, inject_fault
from signatures import connection_string

pa = pytest.importorskip("pyarrow")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from oxbus import Namespace

REQUEST_BYTES = 4096


@pytest.fixture
def silent_server() -> Iterator[str]:
    """Accept requests and close the connection without an answer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def end_each() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(REQUEST_BYTES)

        threading.Thread(target=end_each, daemon=True).start()
        yield connection_string(listener.getsockname()[1])
        # The thread that waits in `accept` gets an error and ends.
        listener.shutdown(socket.SHUT_RDWR)


def effect_of(call: Callable[[], object], error_class: type[ServiceBusError]) -> str | None:
    """Make a call that fails; return its effect."""
    with pytest.raises(error_class) as error:
        call()
    return error.value.effect


def test_settlement_of_a_list_names_the_failed_messages(
    bulk: BulkClient, namespace: Namespace, partitioned_queue: str
) -> None:
    """The others are settled, and the error has the effect and the numbers of the failed ones (B-095)."""
    keys = [f"key {number}" for number in range(64)]
    bulk.send(partitioned_queue, pa.table({"partition_key": keys}))
    table: Any = pa.table(bulk.receive(partitioned_queue, max_message_count=64))
    assert table.num_rows == len(keys)
    bad = [row for row in table.to_pylist() if row["partition_id"] == 0]
    inject_fault(namespace, 0, "unavailable")
    with pytest.raises(PartitionUnavailableError) as refusal:
        bulk.settle(partitioned_queue, table, "complete")
    assert refusal.value.effect == "partial"
    assert sorted(refusal.value.sequence_numbers) == sorted(row["sequence_number"] for row in bad)
    heal(namespace, 0)
    lost = bulk.settle(partitioned_queue, table, "complete")
    assert len(lost) == table.num_rows - len(bad)
    assert bulk.describe(partitioned_queue)["active_messages"] == 0


def test_partial_send_reports_its_effect(bulk: BulkClient, namespace: Namespace, partitioned_queue: str) -> None:
    """The effect is partial, or none if the call failed before it began (R-24)."""
    keys = [f"key {number}" for number in range(64)]
    inject_fault(namespace, 0, "unavailable")
    table = pa.table({"partition_key": keys})
    assert effect_of(lambda: bulk.send(partitioned_queue, table), PartialSendError) == "partial"
    only = pa.table({"partition_id": pa.array([0], pa.int32())})
    assert effect_of(lambda: bulk.send(partitioned_queue, only), PartitionUnavailableError) is None
    assert effect_of(lambda: bulk.send("missing", pa.table({"body": [b"x"]})), MessagingEntityNotFoundError) is None


def test_call_without_a_connection_has_no_effect(rows: Callable[..., Any]) -> None:
    """There was no connection, so repeating the call is safe."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with BulkClient(connection_string(port)) as client:
        assert effect_of(lambda: client.send("q", rows(1)), ServiceBusConnectionError) is None
        assert effect_of(lambda: client.settle("q", [b"0" * 16], "complete"), ServiceBusConnectionError) is None


def test_call_whose_connection_breaks_has_an_unknown_effect(silent_server: str, rows: Callable[..., Any]) -> None:
    """Unknown for a command, none for a query, and none for rows that the server did not request yet."""
    with BulkClient(silent_server) as client:
        assert effect_of(lambda: client.settle("q", [b"0" * 16], "complete"), ServiceBusConnectionError) == "unknown"
        assert effect_of(lambda: client.receive("q", max_message_count=1), ServiceBusConnectionError) == "unknown"
        assert effect_of(lambda: client.describe("q"), ServiceBusConnectionError) == "none"
        assert effect_of(lambda: client.send("q", rows(1)), ServiceBusConnectionError) is None


def test_call_that_times_out_has_an_unknown_effect() -> None:
    """A network timeout has the same effect as a broken connection."""
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        BulkClient(connection_string(silent.getsockname()[1]), timeout=0.2) as client,
    ):
        assert effect_of(lambda: client.settle("q", [b"0" * 16], "complete"), OperationTimeoutError) == "unknown"
