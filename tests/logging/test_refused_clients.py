# SPDX-License-Identifier: Apache-2.0
"""A rejected client leaves a line: a wrong key, no token, a wrong entity; over HTTP, over AMQP and in bulk calls."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

SERVED = """
from oxbus.bulk import BulkClient
from oxbus.exceptions import ServiceBusError
from oxbus.server import serve
from plain_http import Http
from signatures import token
from azure.core.exceptions import AzureError
from azure.servicebus import ServiceBusClient as Sdk, ServiceBusMessage as SdkMessage
log = print_log(logging.WARNING)
namespace = Namespace(partitions=2)
admin = ServiceBusAdministrationClient(namespace)
admin.create_queue("orders")

def over_amqp(server, entity, key="SAS_KEY_VALUE", name="RootManageSharedAccessKey"):
    there = server.connection_string.replace("SAS_KEY_VALUE", key).replace("RootManageSharedAccessKey", name)
    with Sdk.from_connection_string(there, retry_total=0) as client:
        try:
            client.get_queue_sender(entity).send_messages(SdkMessage("x"))
        except (AzureError, ValueError):
            log.until("client.refused")
            return
    raise AssertionError("nothing was refused")

def in_bulk(server, entity, key="SAS_KEY_VALUE", name="RootManageSharedAccessKey"):
    there = server.connection_string.replace("SAS_KEY_VALUE", key).replace("RootManageSharedAccessKey", name)
    with BulkClient(there) as client:
        try:
            client.describe(entity)
        except (OSError, ServiceBusError):
            log.until("client.refused")
            return
    raise AssertionError("nothing was refused")

def over_http(server, path="/orders/messages", **credentials):
    http = Http(server, **credentials)
    http.token = credentials.pop("token", http.token) if "token" in credentials else http.token
    assert http("POST", path, "x").status in {401, 410}
    return http

with serve(namespace) as server:
"""

NAME = "RootManageSharedAccessKey"


@pytest.mark.parametrize(
    ("call", "reason", "entity", "key_name"),
    [
        ('over_http(server, key="wrong")', "WrongKey", "orders", NAME),
        ('over_http(server, name="nobody")', "UnknownKeyName", "orders", "nobody"),
        ('over_http(server, "/missing/messages")', "EntityNotFound", "missing", NAME),
        (
            'h = Http(server); h.token = None; assert h("GET", "/orders?api-version=2021-05").status == 401',
            "MissingToken",
            "orders",
            None,
        ),
        (
            'h = Http(server); h.token = "Bearer e"; assert h("POST", "/orders/messages").status == 401',
            "InvalidIssuer",
            "orders",
            None,
        ),
        (
            'h = Http(server); h.token = token("sb://h/x"); assert h("POST", "/orders/messages").status == 401',
            "InvalidAudience",
            "orders",
            NAME,
        ),
        (
            'h = Http(server); h.token = token("sb://h", seconds=-9); assert h("GET", "/orders").status == 401',
            "ExpiredToken",
            "orders",
            NAME,
        ),
        ('over_amqp(server, "orders", key="wrong")', "WrongKey", "orders", NAME),
        ('over_amqp(server, "orders", name="nobody")', "UnknownKeyName", "orders", "nobody"),
        ('over_amqp(server, "missing")', "EntityNotFound", "missing", NAME),
        ('in_bulk(server, "orders", key="wrong")', "WrongKey", "orders", NAME),
        ('in_bulk(server, "orders", name="nobody")', "UnknownKeyName", "orders", "nobody"),
        ('in_bulk(server, "missing")', "EntityNotFound", "missing", NAME),
    ],
)
def test_refusal_leaves_a_line(
    lines_of: Callable[..., Any], call: str, reason: str, entity: str, key_name: str | None
) -> None:
    """The line has the name of the key, the entity and the reason."""
    lines = lines_of(SERVED + textwrap.indent(call, "    ") + "\n")
    found = [(line["event"], line["reason"], line["entity"], line.get("key_name")) for line in lines]
    assert set(found) == {("client.refused", reason, entity, key_name)}
