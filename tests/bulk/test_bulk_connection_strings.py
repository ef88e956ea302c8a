# SPDX-License-Identifier: Apache-2.0
"""One connection string for SDKs, Spark and bulk clients; the old forms fail and name the new ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from azure.servicebus import ServiceBusClient as SdkClient
from azure.servicebus import ServiceBusMessage as SdkMessage
from oxbus import parse_connection_string
from oxbus.bulk import BulkClient
from oxbus.exceptions import InvalidOperationError
from oxbus.spark.source.connection import Connection
from signatures import connection_string

pa = pytest.importorskip("pyarrow")

if TYPE_CHECKING:
    from oxbus import Namespace
    from oxbus.server import Server

NEW_FORM = "Endpoint=sb://host:port;SharedAccessKeyName=...;SharedAccessKey=..."


def test_one_string_works_for_all_clients(server: Server, queue_name: str) -> None:
    """SDKs, Spark, bulk clients and `parse_connection_string` all accept the string that the server shows."""
    shown = server.connection_string
    with SdkClient.from_connection_string(shown) as sdk, sdk.get_queue_sender(queue_name) as sender:
        sender.send_messages(SdkMessage("by an SDK"))
    with BulkClient(shown) as client:
        assert sum(client.send(queue_name, pa.table({"body": [b"by a bulk client"]})).values()) == 1
        assert client.endpoint == f"sb://127.0.0.1:{server.port}"
        assert repr(client) == f'BulkClient(endpoint="sb://127.0.0.1:{server.port}")'
    assert Connection(string=shown).client().describe(queue_name)["active_messages"] == 2
    assert parse_connection_string(shown).fully_qualified_namespace == f"127.0.0.1:{server.port}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Endpoint=memory://x",
        "Endpoint=sb://;SharedAccessKeyName=a;SharedAccessKey=0123456789abcdef",
        "Endpoint=sb://h:99999;SharedAccessKeyName=a;SharedAccessKey=0123456789abcdef",
        "Endpoint=sb://h",
        "Endpoint=sb://h;SharedAccessKey=0123456789abcdef",
        "Endpoint=sb://h;SharedAccessKeyName=a;SharedAccessKey=0123456789abcdef;Surprise=1",
        "sb://h:80",
    ],
)
def test_wrong_connection_strings(text: str) -> None:
    """Each fails before a connection is made, and the error does not repeat the text."""
    with pytest.raises(ValueError, match="write Endpoint=sb://host:port") as caught:
        BulkClient(text)
    assert "0123456789abcdef" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["http", "https", "HTTP"])
@pytest.mark.parametrize("rest", ["", ";SharedAccessKeyName=bulk;SharedAccessKey=0123456789abcdef"])
def test_old_connection_strings_name_the_new_form(scheme: str, rest: str) -> None:
    """Bulk clients no longer have a separate endpoint."""
    with pytest.raises(ValueError, match="no longer have an Endpoint of their own") as caught:
        BulkClient(f"Endpoint={scheme}://127.0.0.1:41234{rest}")
    assert NEW_FORM in str(caught.value)
    assert "UseDevelopmentEmulator=true" in str(caught.value)
    assert "0123456789abcdef" not in str(caught.value)


def test_serve_bulk_names_its_replacement(namespace: Namespace) -> None:
    """The arguments do not matter."""
    with pytest.raises(InvalidOperationError, match=r"call oxbus\.server\.serve\(namespace\)"):
        namespace.serve_bulk()
    with pytest.raises(InvalidOperationError, match=r"docs/guide/one-server\.md"):
        namespace.serve_bulk("127.0.0.1", 0, key="a key that was long enough", limits={"requests": 1})


def test_wrong_timeout() -> None:
    """A timeout must be positive."""
    with pytest.raises(ValueError, match="timeout"):
        BulkClient(connection_string(1), timeout=0)
