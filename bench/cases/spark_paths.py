# SPDX-License-Identifier: Apache-2.0
"""Rows of 1 KiB through Spark on two cores, by each path, beside the same job with nothing behind it.

A row is a body and a key. The baseline is the same job with as many tasks but without oxbus. For a load, a Python task
drops the rows that it gets; for a drain, it makes them. For the other paths, a source and a sink in Python
(`spark_nothing`) make and drop them. So the ratio shows what the queue adds to Spark's cost. The Java machine has
default settings; Spark has those that the guide advises, `PYTHON_SETTINGS`, on both sides.
"""

from __future__ import annotations

import atexit
import contextlib
import tempfile
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import oxbus
from bodies import END
from oxbus.management import ServiceBusAdministrationClient
from oxbus.server import serve
from oxbus.spark import BULK_LOAD_SCHEMA, partitions, read_stream, receiver, register, sender
from oxbus.spark.local import PYTHON_SETTINGS, local_session
from plan import WHOLE, Plan
from targets import NOTHING, OURS, SPARK_OTHER_DELIVERY

from cases import spark_nothing
from cases.case import Case, expect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

QUEUE = "q"
OUT = "out"
ROWS = 640_000
BODY_BYTES = 1024
FILLER = "x" * (BODY_BYTES - 17) + END.decode()
PAGE_ROWS = 2048
BATCH_ROWS = 160_000
TASKS_OF_READ = 16
"""As many as a batch read of this size has."""


@dataclass
class ScratchBus:
    """A namespace that exists for one round, closed or served."""

    directory: tempfile.TemporaryDirectory[str]
    path: str
    rows: int
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

    def messages(self, queue: str) -> int:
        """How many a queue has."""
        if self.namespace is None:
            raise RuntimeError("the namespace is not served")
        found = ServiceBusAdministrationClient(self.namespace).get_queue_runtime_properties(queue)
        return found.total_message_count or 0


_used: list[SparkSession] = []


def use(spark: SparkSession) -> None:
    """Let the cases run in this session, and not in one of their own."""
    _used.append(spark)


@cache
def session() -> SparkSession:
    """One Spark for all cases, with two cores unless another is in use."""
    if _used:
        return _used[0]
    running = contextlib.ExitStack()
    spark = running.enter_context(local_session("oxbus bench", java_options="", settings=PYTHON_SETTINGS))
    atexit.register(running.close)
    register(spark)
    spark_nothing.register(spark)
    return spark


def frame(rows: int) -> DataFrame:
    """Return a frame of `rows` rows, in two tasks."""
    return (
        session()
        .range(0, rows, 1, 2)
        .selectExpr(
            f"cast(concat(lpad(cast(id as string), 16, '0'), '{FILLER}') as binary) as body",
            "concat('key-', id % 977) as partition_key",
        )
    )


def make(rows: int, *, served: bool, filled: bool) -> ScratchBus:
    """Make the queues of a round, `filled` with rows, `served` over the loopback network."""
    directory = tempfile.TemporaryDirectory()
    path = f"{directory.name}/bus"
    with oxbus.Namespace(path, durability="os") as namespace:
        for queue in (QUEUE, OUT):
            ServiceBusAdministrationClient(namespace).create_queue(queue, enable_partitioning=True)
    if filled:
        _load(ScratchBus(directory, path, rows))
        # The first process that opens the partitions takes the loaded rows over; this one, so that no drain has to.
        oxbus.Namespace(path, durability="os").close()
    if not served:
        return ScratchBus(directory, path, rows)
    namespace = oxbus.Namespace(path, durability="os")
    return ScratchBus(directory, path, rows, namespace, serve(namespace))


def _load(bus: ScratchBus) -> int:
    load = sender(path=bus.path, queue=QUEUE, job="bench", durability="os")
    return int(frame(bus.rows).mapInArrow(load, BULK_LOAD_SCHEMA).agg({"rows": "sum"}).first()[0])


def _drain(bus: ScratchBus) -> int:
    drain = receiver(path=bus.path, queue=QUEUE, columns=["body", "partition_key"])
    return count_right(partitions(session(), path=bus.path, queue=QUEUE).mapInArrow(drain, drain.schema))


def write(bus: ScratchBus, delivery: str = "atLeastOnce") -> int:
    """Write a batch through the broker."""
    frame(bus.rows).write.format("oxbus").options(**bus.options, delivery=delivery).mode("append").save()
    return bus.rows


def read(bus: ScratchBus) -> int:
    """Read a batch through the broker."""
    columns = "body binary, partition_key string"
    return count_right(session().read.format("oxbus").options(**bus.options).schema(columns).load())


def stream(bus: ScratchBus, delivery: str) -> int:
    """From queue to queue in four batches, exactly once or at least once."""
    options = bus.options | {"maxMessagesPerTrigger": str(BATCH_ROWS)}
    source = read_stream(session(), options).select("body", "partition_key")
    sink = source.writeStream.format("oxbus").options(**bus.options, delivery=delivery).option("queue", OUT)
    query = sink.option("checkpointLocation", f"{bus.path}-checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()
    return bus.messages(OUT)


def _copy(bus: ScratchBus) -> int:
    """From queue to queue by a job that browses one and sends to the other."""
    read = session().read.format("oxbus").options(**bus.options).schema("body binary, partition_key string")
    read.load().write.format("oxbus").options(**bus.options).option("queue", OUT).mode("append").save()
    return bus.messages(OUT)


def _nothing(rows: int, tasks: int) -> DataFrame:
    source = session().read.format(spark_nothing.NAME)
    return source.options(rows=rows, tasks=tasks, bodyBytes=BODY_BYTES).load()


def _write_nothing(bus: ScratchBus) -> int:
    frame(bus.rows).write.format(spark_nothing.NAME).mode("append").save()
    return bus.rows


def _read_nothing(bus: ScratchBus) -> int:
    return count_right(_nothing(bus.rows, TASKS_OF_READ))


def _copy_nothing(bus: ScratchBus) -> int:
    _nothing(bus.rows, TASKS_OF_READ).write.format(spark_nothing.NAME).mode("append").save()
    return bus.rows


def _stream_of_nothing(bus: ScratchBus) -> int:
    source = session().readStream.format(spark_nothing.NAME)
    source = source.options(rows=bus.rows, batchRows=BATCH_ROWS, bodyBytes=BODY_BYTES)
    sink = source.load().writeStream.format(spark_nothing.NAME)
    query = sink.option("checkpointLocation", f"{bus.path}-checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()
    return sum(progress["numInputRows"] for progress in query.recentProgress)


def count_right(rows: DataFrame) -> int:
    """Count in Spark, which gets all columns, the rows whose body has the right length and last byte."""
    right = f"length(body) = {BODY_BYTES} and substring(body, -1, 1) = X'{END.hex()}'"
    return int(rows.selectExpr(f"sum(if({right}, 1, 0))").first()[0])


def _consumed(bus: ScratchBus) -> int:
    def consume(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa  # noqa: PLC0415 -- in the worker

        rows = sum(batch.num_rows for batch in batches)
        yield pa.record_batch({"rows": pa.array([rows], pa.int64())})

    return int(frame(bus.rows).mapInArrow(consume, "rows bigint").agg({"rows": "sum"}).first()[0])


def _produced(bus: ScratchBus) -> int:
    def produce(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa  # noqa: PLC0415 -- in the worker

        bodies = pa.array([b"x" * (BODY_BYTES - 1) + END] * PAGE_ROWS, pa.binary())
        page = pa.record_batch({"body": bodies, "partition_key": pa.array(["key"] * PAGE_ROWS)})
        for batch in batches:
            for rows in batch.column("rows").to_pylist():
                for first in range(0, rows, PAGE_ROWS):
                    yield page.slice(0, min(PAGE_ROWS, rows - first))

    tasks = 2 * session().sparkContext.defaultParallelism  # as many as `partitions` makes
    shares = session().range(0, tasks, 1, tasks).selectExpr(f"cast({bus.rows // tasks} as bigint) as rows")
    return count_right(shares.mapInArrow(produce, "body binary, partition_key string"))


def check_all(bus: ScratchBus, rows: int) -> None:
    """Refuse a job that did not handle every row."""
    expect("rows", rows, bus.rows)


def _check_moved(bus: ScratchBus, rows: int) -> None:
    expect("rows", rows, bus.rows)
    expect("messages left", bus.messages(QUEUE), 0)


def _check_written(bus: ScratchBus, rows: int) -> None:
    expect("rows", rows, bus.rows)
    expect("messages", bus.messages(QUEUE), bus.rows)


def _check_copied(bus: ScratchBus, rows: int) -> None:
    expect("rows", rows, bus.rows)
    expect("messages of the source", bus.messages(QUEUE), bus.rows)


@dataclass(frozen=True)
class _Path:
    """How a contender handles the rows, and where."""

    name: str
    contender: str
    run: Callable[[ScratchBus], int]
    check: Callable[[ScratchBus, int], None] = check_all
    served: bool = False
    filled: bool = False


_PATHS = (
    _Path("spark_bulk_load", OURS, _load),
    _Path("spark_bulk_load", NOTHING, _consumed),
    _Path("spark_bulk_drain", OURS, _drain, filled=True),
    _Path("spark_bulk_drain", NOTHING, _produced),
    _Path("spark_write", OURS, write, _check_written, served=True),
    _Path(
        "spark_write",
        SPARK_OTHER_DELIVERY["exactlyOnce"],
        partial(write, delivery="exactlyOnce"),
        _check_written,
        served=True,
    ),
    _Path("spark_write", NOTHING, _write_nothing),
    _Path("spark_read", OURS, read, served=True, filled=True),
    _Path("spark_read", NOTHING, _read_nothing),
    _Path("spark_copy", OURS, _copy, _check_copied, served=True, filled=True),
    _Path("spark_copy", NOTHING, _copy_nothing),
    _Path("spark_stream", OURS, partial(stream, delivery="exactlyOnce"), _check_moved, served=True, filled=True),
    _Path(
        "spark_stream",
        SPARK_OTHER_DELIVERY["atLeastOnce"],
        partial(stream, delivery="atLeastOnce"),
        _check_moved,
        served=True,
        filled=True,
    ),
    _Path("spark_stream", NOTHING, _stream_of_nothing),
)


def cases(plan: Plan = WHOLE) -> list[Case]:
    """Each path beside the same job with nothing behind it."""
    rows = plan.of(ROWS)
    return [
        Case(
            f"{one.name}/1KiB/2tasks",
            one.contender,
            rows,
            partial(make, rows, served=one.served, filled=one.filled),
            one.run,
            one.check,
            ScratchBus.close,
        )
        for one in _PATHS
    ]
