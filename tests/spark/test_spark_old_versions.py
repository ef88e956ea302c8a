# SPDX-License-Identifier: Apache-2.0
"""PySpark 4.0 and 4.1 load the source and run it with fewer features; here their missing classes are removed.

`make test-spark-versions` runs the tests of this folder with these versions themselves.
"""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from driven import schema_of
from oxbus.spark.source.data_source import OxbusDataSource
from oxbus.spark.source.rows import rows_as_batches
from pyspark.sql import Row
from pyspark.sql.types import MapType, StringType, TimestampType

if TYPE_CHECKING:
    from spark_broker import Broker

OLD = """
import sys
from pyspark.sql import datasource
import pyspark.sql.streaming
sys.modules["pyspark.sql.streaming.datasource"] = None  # new in 4.2
if hasattr(pyspark.sql.streaming, "datasource"):
    del pyspark.sql.streaming.datasource
for name in ("DataSourceStreamArrowWriter", "In", "EqualTo", "Filter"):  # new in 4.1
    datasource.__dict__.pop(name, None)
from pyspark.sql.types import BinaryType, StructField, StructType
from oxbus.spark.source.data_source import OxbusDataSource
from oxbus.spark.source import versions, batch_reader, browse_stream, reserving_stream, stream_writer
assert issubclass(stream_writer.OxbusStreamWriter, datasource.DataSourceStreamWriter)
assert not versions.STREAM_WRITES_ARROW
options = {"connectionString": "Endpoint=sb://127.0.0.1:9;SharedAccessKeyName=k;SharedAccessKey=x", "queue": "q"}
source = OxbusDataSource(options)
schema = StructType([StructField("body", BinaryType())])  # without a server, the source cannot be asked
reader = source.streamReader(schema)
assert isinstance(reader, datasource.DataSourceStreamReader)
source.reader(schema)
print("loaded")
"""


def test_modules_load_without_newer_classes() -> None:
    """Readers and writers derive from the available classes."""
    done = subprocess.run([sys.executable, "-c", OLD], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "loaded", done.stderr


def test_stream_continues_without_a_start_offset_from_spark(broker: Broker) -> None:
    """Before 4.2 `latestOffset` has no arguments; the last plan, or the restart, gives the position."""
    broker.fill("in", range(25))
    source = OxbusDataSource(broker.options("in", maxMessagesPerTrigger=10, maxWaitMs=0))
    schema = source.schema()
    reader = source.streamReader(schema)
    begin = reader.initialOffset()
    seen = []
    for count in (10, 10, 5):
        end = reader.latestOffset()
        assert reader.latestOffset() == end  # a second call returns nothing new
        tasks = reader.partitions(begin, end)
        seen += [row for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]
        assert len(seen) % 10 == count % 10
        begin = end
    reader.stop()

    restarted = source.streamReader(schema)
    assert restarted.partitions(begin, begin) == []  # Spark reports the position this way
    assert restarted.latestOffset() == begin
    restarted.stop()
    assert sorted(int(row["body"]) for row in seen) == list(range(25))
    assert broker.active("in") == 0


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_rows_are_converted_for_arrow_writers(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """4.0 passes rows to stream writers, with times in the worker's zone."""
    import time  # noqa: PLC0415

    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        schema = schema_of(body=StringType(), at=TimestampType(), properties=MapType(StringType(), StringType()))
        moment = datetime(2026, 3, 1, 12)  # noqa: DTZ001 (Spark creates naive times)
        rows = [Row(body=str(it), at=moment + timedelta(seconds=it), properties={"a": None}) for it in range(3)]
        (batch,) = rows_as_batches(iter([*rows, Row(body=None, at=None, properties=None)]), schema)
        assert batch.column("at")[1].as_py().timestamp() == (moment + timedelta(seconds=1)).timestamp()
        assert batch.column("properties").to_pylist() == [[("a", None)]] * 3 + [None]
        assert batch.column("body").to_pylist() == ["0", "1", "2", None]
    finally:
        monkeypatch.undo()
        time.tzset()
