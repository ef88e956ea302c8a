# SPDX-License-Identifier: Apache-2.0
"""Rows of 1 KiB through Spark on two cores, by each path, beside the same job with nothing behind it.

A row is a body and a key. The job without a broker makes the same rows and hands them to the same kind of Python task,
which looks at them and drops them; for reads a task makes them. So the ratio is what the queue costs beside Spark.
"""

from __future__ import annotations

import atexit
import contextlib
import tempfile
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import oxbus
from oxbus.management import ServiceBusAdministrationClient
from oxbus.spark import BULK_LOAD_SCHEMA, partitions, receiver, register, sender
from oxbus.spark.local import local_session

from cases.case import Case, expect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

QUEUE = "q"
NOTHING = "nothing behind"
OURS = "oxbus"
ROWS = 640_000
BODY_BYTES = 1024
PAGE_ROWS = 2048


@dataclass
class Place:
    """A namespace of its own for one round, closed or served."""

    directory: tempfile.TemporaryDirectory[str]
    path: str
    namespace: oxbus.Namespace | None = None
    server: Any = None

    def close(self) -> None:
        """Stop serving and remove the directory."""
        if self.server is not None:
            self.server.close()
        if self.namespace is not None:
            self.namespace.close()
        self.directory.cleanup()

    @property
    def options(self) -> dict[str, str]:
        """How Spark reaches it."""
        return {"connectionString": self.server.connection_string, "queue": QUEUE}


@cache
def session() -> SparkSession:
    """One Spark on two cores for all cases."""
    running = contextlib.ExitStack()
    spark = running.enter_context(local_session("oxbus bench"))
    atexit.register(running.close)
    register(spark)
    return spark


def frame() -> DataFrame:
    """The rows, in two tasks."""
    rows = session().range(0, ROWS, 1, 2)
    return rows.selectExpr(
        f"cast(concat(lpad(cast(id as string), 16, '0'), '{'x' * (BODY_BYTES - 16)}') as binary) as body",
        "concat('key-', id % 977) as partition_key",
    )


def _make(*, served: bool, filled: bool) -> Place:
    directory = tempfile.TemporaryDirectory()
    path = f"{directory.name}/bus"
    with oxbus.Namespace(path, durability="os") as namespace:
        ServiceBusAdministrationClient(namespace).create_queue(QUEUE, enable_partitioning=True)
    if filled:
        _load(Place(directory, path))
        # Rows are taken over once, by whoever opens the partitions first; not by those that drain them.
        oxbus.Namespace(path, durability="os").close()
    if not served:
        return Place(directory, path)
    namespace = oxbus.Namespace(path, durability="os")
    return Place(directory, path, namespace, namespace.serve_bulk())


def _load(place: Place) -> int:
    load = sender(path=place.path, queue=QUEUE, job="bench", durability="os")
    return int(frame().mapInArrow(load, BULK_LOAD_SCHEMA).agg({"rows": "sum"}).first()[0])


def _drain(place: Place) -> int:
    drain = receiver(path=place.path, queue=QUEUE, columns=["body", "partition_key"])
    return _count(partitions(session(), path=place.path, queue=QUEUE).mapInArrow(drain, drain.schema))


def _write(place: Place) -> int:
    frame().write.format("oxbus").options(**place.options).mode("append").save()
    return ROWS


def _read(place: Place) -> int:
    columns = "body binary, partition_key string"
    return _count(session().read.format("oxbus").options(**place.options).schema(columns).load())


def _stream(place: Place) -> int:
    """From queue to queue, each message exactly once."""
    if place.namespace is None:
        raise RuntimeError("the namespace is not served")
    admin = ServiceBusAdministrationClient(place.namespace)
    admin.create_queue("out", enable_partitioning=True)
    source = session().readStream.format("oxbus").options(**place.options, maxMessagesPerTrigger=160_000).load()
    sink = source.select("body", "partition_key").writeStream.format("oxbus")
    sink = sink.options(connectionString=place.options["connectionString"], queue="out")
    query = sink.option("checkpointLocation", f"{place.path}-checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()
    expect("messages left", admin.get_queue_runtime_properties(QUEUE).total_message_count, 0)
    return admin.get_queue_runtime_properties("out").total_message_count or 0


def _count(rows: DataFrame) -> int:
    """All columns travel to Spark, and a row is counted there."""
    return int(rows.selectExpr("sum(if(length(body) = 1024, 1, 0))").first()[0])


def _consumed(_: Place) -> int:
    def consume(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa  # noqa: PLC0415 -- in the worker

        rows = sum(batch.num_rows for batch in batches)
        yield pa.record_batch({"rows": pa.array([rows], pa.int64())})

    return int(frame().mapInArrow(consume, "rows bigint").agg({"rows": "sum"}).first()[0])


def _produced(_: Place) -> int:
    def produce(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa  # noqa: PLC0415 -- in the worker

        bodies = pa.array([bytes(BODY_BYTES)] * PAGE_ROWS, pa.binary())
        page = pa.record_batch({"body": bodies, "partition_key": pa.array(["key"] * PAGE_ROWS)})
        for batch in batches:
            for rows in batch.column("rows").to_pylist():
                for first in range(0, rows, PAGE_ROWS):
                    yield page.slice(0, min(PAGE_ROWS, rows - first))

    shares = session().range(0, 16, 1, 16).selectExpr(f"cast({ROWS // 16} as bigint) as rows")
    return _count(shares.mapInArrow(produce, "body binary, partition_key string"))


def _case(
    name: str, contender: str, run: Callable[[Place], int], *, served: bool = False, filled: bool = False
) -> Case:
    return Case(
        f"{name}/1KiB/2tasks",
        contender,
        ROWS,
        partial(_make, served=served, filled=filled),
        run,
        lambda _place, rows: expect("rows", rows, ROWS),
        Place.close,
    )


def cases() -> list[Case]:
    """Each path beside the same job with nothing behind it."""
    return [
        _case("spark_bulk_load", OURS, _load),
        _case("spark_bulk_load", NOTHING, _consumed),
        _case("spark_bulk_drain", OURS, _drain, filled=True),
        _case("spark_bulk_drain", NOTHING, _produced),
        _case("spark_write", OURS, _write, served=True),
        _case("spark_write", NOTHING, _consumed),
        _case("spark_read", OURS, _read, served=True, filled=True),
        _case("spark_read", NOTHING, _produced),
        _case("spark_stream", OURS, _stream, served=True, filled=True),
    ]
