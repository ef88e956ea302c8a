# SPDX-License-Identifier: Apache-2.0
"""Application properties of all types through the forms that keep them: a copy has what the original has."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.bulk import BulkClient
from oxbus.management import ServiceBusAdministrationClient
from oxbus.server import serve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal

    Form = Literal["json", "variant"]

TIMES = st.datetimes(datetime(1970, 1, 2), datetime(9999, 1, 1)).map(  # noqa: DTZ001 (the zone is set below)
    lambda it: it.replace(microsecond=it.microsecond // 1000 * 1000, tzinfo=UTC)
)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(max_size=80),
    st.binary(max_size=300),
    st.uuids(),
    TIMES,
    st.timedeltas(timedelta(days=-1000), timedelta(days=1000)),
)
PROPERTIES = st.dictionaries(st.text(min_size=1, max_size=20), VALUES, min_size=1, max_size=12)


@pytest.fixture(scope="module")
def bus() -> Iterator[tuple[Namespace, BulkClient]]:
    """A server for all examples."""
    with Namespace() as namespace, serve(namespace) as server, BulkClient(server.connection_string) as client:
        yield namespace, client


def shown(properties: Any) -> Any:
    """Properties for comparison: NaN is not equal to itself."""
    is_nan = {key for key, value in properties.items() if isinstance(value, float) and math.isnan(value)}
    return is_nan, {key: value for key, value in properties.items() if key not in is_nan}


@pytest.mark.parametrize("form", ["json", "variant"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(properties=PROPERTIES)
def test_a_copy_keeps_types(bus: tuple[Namespace, BulkClient], form: Form, properties: dict[str, Any]) -> None:
    """Through the server and back."""
    namespace, bulk = bus
    with ServiceBusAdministrationClient(namespace) as admin, ServiceBusClient(namespace) as client:
        for queue in ("from", "to"):
            admin.create_queue(queue)
        try:
            message = ServiceBusMessage("x", application_properties=properties)
            client.get_queue_sender("from").send_messages(message)
            page, _ = bulk.peek("from", 0, 0, application_properties=form, columns=["body", "application_properties"])
            bulk.send("to", pa.table(page))
            (copy,) = client.get_queue_receiver("to").peek_messages()
            assert shown(copy.application_properties) == shown(properties)
        finally:
            for queue in ("from", "to"):
                admin.delete_queue(queue)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": {"$uuid": "no"}}',
        '{"a": {"$bytes": "abc"}}',
        '{"a": {"$time": "now"}}',
        '{"a": {"$double": "large"}}',
        '{"a": {"$other": 1}}',
        '{"a": {"$time": 1, "$uuid": 2}}',
        '{"a": {}}',
        '{"a": [1]}',
    ],
)
def test_wrong_tags(bus: tuple[Namespace, BulkClient], text: str) -> None:
    """The error names the property and the tags."""
    namespace, bulk = bus
    with ServiceBusAdministrationClient(namespace) as admin:
        admin.create_queue("q")
        try:
            with pytest.raises(ValueError, match=r"\$uuid; convert lists and other objects to text: `a`"):
                bulk.send("q", pa.table({"body": ["x"], "application_properties": [text]}))
            assert bulk.describe("q")["active_messages"] == 0
        finally:
            admin.delete_queue("q")


@pytest.mark.parametrize("row", [{"value": b"", "metadata": b""}, {"value": b"\x02", "metadata": b"\x01\x00\x00"}])
def test_damaged_variants(bus: tuple[Namespace, BulkClient], row: dict[str, bytes]) -> None:
    """An error, and nothing is sent."""
    namespace, bulk = bus
    with ServiceBusAdministrationClient(namespace) as admin:
        admin.create_queue("q")
        try:
            with pytest.raises(ValueError, match="must be a variant"):
                bulk.send("q", pa.table({"body": ["x"], "application_properties": [row]}))
        finally:
            admin.delete_queue("q")
