# SPDX-License-Identifier: Apache-2.0
"""One trace from the Azure SDK's sender through a server to a function that handles batches in Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from azure.core.settings import settings
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from opentelemetry.sdk.trace import TracerProvider
from oxbus import otel
from queries import messages, until_done

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from spark_broker import Broker


@pytest.fixture
def traced_sdk() -> Iterator[None]:
    """Let the Azure SDK write spans; tests/conftest.py turns it off for all others."""
    settings.tracing_implementation = "opentelemetry"
    yield
    settings.tracing_implementation = None


@pytest.mark.usefixtures("traced_sdk")
def test_foreach_batch_goes_on_with_the_trace_of_the_sender(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """The context is in the application properties of the row."""
    tracer = TracerProvider().get_tracer("test")
    with (
        tracer.start_as_current_span("order") as order,
        ServiceBusClient.from_connection_string(broker.connection_string) as client,
        client.get_queue_sender("in") as sender,
    ):
        sender.send_messages(ServiceBusMessage("x"))
    found = []

    def handle(df: DataFrame, _batch: int) -> None:
        for row in df.select("application_properties").collect():
            context = otel.context_of(row.application_properties)
            with tracer.start_as_current_span("load", context=context) as span:
                found.append(span.get_span_context().trace_id)

    df = messages(spark, broker)
    until_done(df.writeStream.foreachBatch(handle).option("checkpointLocation", str(tmp_path)))
    assert found == [order.get_span_context().trace_id]
