# SPDX-License-Identifier: Apache-2.0
"""A batch write turns rows into messages, or reports errors; here without Spark, in `test_spark_frames` with it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import oxbus
import pyarrow as pa
import pytest
from driven import browse, schema_of, write
from oxbus.exceptions import MessagingEntityNotFoundError, ServiceBusError
from oxbus.spark.source.data_source import OxbusDataSource
from pyspark.sql.types import (
    BinaryType,
    DateType,
    DayTimeIntervalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    TimestampNTZType,
    TimestampType,
)
from spark_broker import KEY

if TYPE_CHECKING:
    from spark_broker import Broker

ROWS = 1000

KEYED = schema_of(body=StringType(), partition_key=StringType())


def rows(numbers: range) -> pa.RecordBatch:
    """Numbered rows with a hundred keys."""
    return pa.record_batch(
        {"body": [str(it) for it in numbers], "partition_key": [f"key-{it % 100}" for it in numbers]}
    )


@pytest.mark.parametrize("delivery", ["atLeastOnce", "exactlyOnce"])
def test_each_row_is_a_message(broker: Broker, delivery: str) -> None:
    """Each is stored once, in the partition of its key."""
    write(broker.options("out", delivery=delivery), KEYED, rows(range(600)), rows(range(600, ROWS)))
    messages = broker.messages("out")
    assert sorted(int(it["body"]) for it in messages) == list(range(ROWS))
    assert all(it["partition_id"] == oxbus.partition_id(it["partition_key"]) for it in messages)


def test_every_property_is_sent(broker: Broker) -> None:
    """All columns of a sink, with their Spark types."""
    texts = ("message_id", "subject", "content_type", "correlation_id", "reply_to", "to")
    later = datetime(2099, 1, 1, tzinfo=UTC)
    columns: dict[str, tuple[Any, Any]] = {
        "body": (BinaryType(), pa.array([b"hello"])),
        "partition_key": (BinaryType(), pa.array([b"key"])),
        "time_to_live": (DayTimeIntervalType(), pa.array([timedelta(days=90_000)], pa.duration("us"))),
        "scheduled_enqueue_time_utc": (TimestampType(), pa.array([later], pa.timestamp("us", "Europe/Madrid"))),
        "application_properties": (
            MapType(StringType(), StringType()),
            pa.array([[("a", "1")]], pa.map_(pa.string(), pa.string())),
        ),
    } | {name: (StringType(), pa.array([f"the {name}"])) for name in texts}
    schema = schema_of(**{name: kind for name, (kind, _) in columns.items()})
    write(broker.options("out"), schema, pa.record_batch({name: column for name, (_, column) in columns.items()}))
    (message,) = broker.messages("out")
    assert {name: message[name] for name in texts} == {name: f"the {name}" for name in texts}
    assert (message["body"], message["partition_key"]) == (b"hello", "key")
    assert message["time_to_live"] == timedelta(days=90_000)
    assert message["scheduled_enqueue_time_utc"] == later
    assert dict(message["application_properties"]) == {"a": "1"}


PROPERTIES = '{"big":9007199254740993,"half":0.5,"no":null,"text":"true","yes":true}'
"""A JSON object with each kind of property value."""


@pytest.mark.parametrize("delivery", ["atLeastOnce", "exactlyOnce"])
def test_properties_as_json_keep_their_types(broker: Broker, delivery: str) -> None:
    """Properties written as JSON can be read as JSON, and a receiver in the process gets them (decision 48)."""
    schema = schema_of(body=StringType(), application_properties=StringType())
    batch = pa.record_batch({"body": ["0", "1"], "application_properties": [PROPERTIES, None]})
    options = {"applicationPropertiesAs": "json"}
    write(broker.options("out", delivery=delivery, **options), schema, batch)
    read = {row["body"]: row["application_properties"] for row in browse(broker.options("out", **options))}
    assert {body: text if text is None else json.loads(text) for body, text in read.items()} == {
        b"0": json.loads(PROPERTIES),
        b"1": None,
    }
    with oxbus.ServiceBusClient(broker.namespace) as client, client.get_queue_receiver("out") as receiver:
        seen = [it.application_properties for it in receiver.peek_messages(10)]
    assert {"big": 2**53 + 1, "half": 0.5, "no": None, "text": "true", "yes": True} in seen


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ("[1]", "must be the text of a JSON object"),
        ("{", "must be the text of a JSON object"),
        ("", "must be the text of a JSON object"),
        ('{"a": [1]}', "convert lists and other objects to text: `a`"),
        ('{"a": {"b": 1}}', "convert lists and other objects to text: `a`"),
        ('{"a": 18446744073709551615}', "more than 64 bits; convert it to text: `a`"),
    ],
)
def test_properties_that_are_no_json_object_send_nothing(broker: Broker, properties: str, text: str) -> None:
    """The error names the row and has a remedy."""
    schema = schema_of(body=StringType(), application_properties=StringType())
    batch = pa.record_batch({"body": ["0", "1"], "application_properties": ["{}", properties]})
    for delivery in ("atLeastOnce", "exactlyOnce"):
        options = broker.options("out", delivery=delivery, applicationPropertiesAs="json")
        with pytest.raises(ValueError, match=f"row 1: application_properties .*{text}"):
            write(options, schema, batch)
    assert broker.active("out") == 0
    assert broker.waiting_stages() == []


@pytest.mark.parametrize(
    ("form", "kind"), [("json", MapType(StringType(), StringType())), ("map", StringType()), ("json", LongType())]
)
def test_properties_of_the_other_form_are_refused(broker: Broker, form: str, kind: Any) -> None:
    """The driver raises an error that names the option."""
    source = OxbusDataSource(broker.options("out", applicationPropertiesAs=form))
    with pytest.raises(ValueError, match=r"application_properties must be .*applicationPropertiesAs"):
        source.writer(schema=schema_of(body=StringType(), application_properties=kind), overwrite=False)


@pytest.mark.parametrize("delivery", ["atLeastOnce", "exactlyOnce"])
def test_rows_can_name_their_queue_and_partition(broker: Broker, delivery: str) -> None:
    """The option `queue` overrides the column."""
    schema = schema_of(body=StringType(), partition_id=IntegerType(), queue=StringType())
    batch = pa.record_batch(
        {
            "body": [str(it) for it in range(100)],
            "partition_id": pa.array([it % 16 for it in range(100)], pa.int32()),
            "queue": ["in" if it < 30 else "out" for it in range(100)],
        }
    )
    write(broker.options(delivery=delivery), schema, batch)
    assert broker.numbers("in") == list(range(30))
    assert broker.numbers("out") == list(range(30, 100))
    assert all(it["partition_id"] == int(it["body"]) % 16 for it in broker.messages("out"))
    write(broker.options("in", delivery=delivery), schema, batch)
    assert broker.active("in") == 130


def test_rows_without_a_key_are_spread_over_the_partitions(broker: Broker) -> None:
    """A null key is no key."""
    batch = pa.record_batch({"body": ["x"] * 320, "partition_key": pa.nulls(320, pa.string())})
    write(broker.options("out"), KEYED, batch)
    assert len({it["partition_id"] for it in broker.messages("out")}) == 16


def test_many_bytes_are_sent_in_chunks(broker: Broker) -> None:
    """Batches of any size, and tasks with any number of batches."""
    schema = schema_of(body=BinaryType())
    batch = pa.record_batch({"body": pa.array([bytes([it]) * 200_000 for it in range(100)])})
    for delivery in ("atLeastOnce", "exactlyOnce"):
        write(broker.options("out", delivery=delivery), schema, batch)
    assert sorted(it["body"][0] for it in broker.messages("out")) == sorted(2 * list(range(100)))


def test_write_with_a_sink_id_stores_its_rows_once(broker: Broker) -> None:
    """A job that is repeated after a failure names its write with sinkId."""
    for _ in range(2):
        write(broker.options("out", delivery="exactlyOnce", sinkId="load-1"), KEYED, rows(range(ROWS)))
    assert broker.numbers("out") == list(range(ROWS))
    write(broker.options("out", delivery="exactlyOnce", sinkId="load-2"), KEYED, rows(range(ROWS)))
    assert broker.active("out") == 2 * ROWS
    assert broker.waiting_stages() == []


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"body": LongType()}, "body must be binary or string, not bigint"),
        ({"text": StringType()}, "column body is missing"),
        ({"body": StringType(), "colour": StringType()}, "unknown column colour"),
        ({"body": StringType(), "partition_key": LongType()}, "partition_key must be string.*cast it to string"),
        ({"body": StringType(), "session_id": LongType()}, "session_id must be string.*cast it to string"),
        ({"body": StringType(), "message_id": LongType()}, "message_id must be string"),
        ({"body": StringType(), "partition_id": StringType()}, "partition_id must be int"),
        ({"body": StringType(), "time_to_live": LongType()}, "time_to_live must be interval"),
        ({"body": StringType(), "scheduled_enqueue_time_utc": TimestampNTZType()}, "must be timestamp"),
        ({"body": StringType(), "scheduled_enqueue_time_utc": DateType()}, "must be timestamp"),
        ({"body": StringType(), "application_properties": MapType(StringType(), LongType())}, "map<string,string>"),
    ],
)
def test_columns_of_a_wrong_type_are_refused(broker: Broker, columns: dict[str, Any], text: str) -> None:
    """The driver rejects them before any task runs; the error names the column and has a remedy."""
    source = OxbusDataSource(broker.options("out"))
    for make in (source.writer, source.streamWriter):
        with pytest.raises(ValueError, match=text):
            make(schema=schema_of(**columns), overwrite=False)


def test_extra_columns_can_be_ignored(broker: Broker) -> None:
    """With ignoreExtraColumns, rows of a source can be sent unchanged."""
    schema = schema_of(body=StringType(), sequence_number=LongType())
    batch = pa.record_batch({"body": ["1"], "sequence_number": [5]})
    write(broker.options("out", ignoreExtraColumns=True), schema, batch)
    assert broker.numbers("out") == [1]


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"partition_id": [3, 16]}, "partition_id has 16; `out` has partitions 0 to 15"),
        ({"partition_id": [3, -1]}, "partition_id has -1"),
        ({"partition_id": [3, 3], "partition_key": [None, "k"]}, "partition_key; .*give one of them"),
        ({"partition_key": [b"a", b"\xff"]}, "not UTF-8"),
        ({"queue": ["out", None]}, "column queue is null"),
        ({"queue": ["out", "none"]}, "none"),
    ],
)
def test_row_of_a_wrong_value_sends_none(broker: Broker, columns: dict[str, list[Any]], text: str) -> None:
    """With exactlyOnce no row of any task is visible, and no stage is left."""
    kinds: dict[str, Any] = {"partition_id": LongType(), "partition_key": BinaryType(), "queue": StringType()}
    if isinstance(columns.get("partition_key", [b""])[-1], str):
        kinds["partition_key"] = StringType()
    schema = schema_of(body=StringType(), **{name: kinds[name] for name in columns})
    good = pa.record_batch(
        {"body": ["0"], **{name: pa.array(values[:1], pa.array(values).type) for name, values in columns.items()}}
    )
    bad = pa.record_batch({"body": ["1", "2"], **columns})
    options = broker.options(None if "queue" in columns else "out", delivery="exactlyOnce")
    with pytest.raises((ValueError, ServiceBusError), match=text):
        write(options, schema, good, bad)
    assert broker.active("out") == 0
    assert broker.waiting_stages() == []


def test_target_that_is_missing_is_named(broker: Broker) -> None:
    """The driver reports it before any task runs."""
    source = OxbusDataSource(broker.options("none"))
    with pytest.raises(MessagingEntityNotFoundError, match="none"):
        source.writer(schema=KEYED, overwrite=False)
    with pytest.raises(ValueError, match="option queue is missing"):
        OxbusDataSource(broker.options()).writer(schema=KEYED, overwrite=False)


def test_broker_that_does_not_answer_is_an_error(broker: Broker) -> None:
    """An unreachable broker, or one with another key; no error shows a key."""
    wrong = broker.connection_string.replace(KEY, "d3Jvbmcta2V5LW9mLWEtdGVzdA==")
    nobody = f"Endpoint=sb://127.0.0.1:9;SharedAccessKeyName=k;SharedAccessKey={KEY};UseDevelopmentEmulator=true"
    for connection, text in [(wrong, "key|credential|token"), (nobody, "127.0.0.1:9")]:
        options = broker.options("out", connectionString=connection) | {"client.retryTimeout": "1s"}
        source = OxbusDataSource(options)
        with pytest.raises(ServiceBusError, match=text) as error:
            source.writer(schema=KEYED, overwrite=False)
        assert KEY not in str(error.value)
        assert "d3Jvbmcta2V5LW9mLWEtdGVzdA==" not in str(error.value)


def test_queue_is_not_overwritten(broker: Broker) -> None:
    """Spark's other modes do not apply to a queue."""
    with pytest.raises(ValueError, match="append"):
        OxbusDataSource(broker.options("out")).writer(schema=KEYED, overwrite=True)
