# SPDX-License-Identifier: Apache-2.0
"""Mistakes are found when a read or write is declared, not in its first batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import oxbus.spark
import pytest
from oxbus.exceptions import MessagingEntityNotFoundError
from pyspark.errors import AnalysisException
from queries import SENT, until_done

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from spark_broker import Broker

WRONG: dict[str, tuple[dict[str, object], str]] = {
    "missing queue": ({"queue": "none"}, "none"),
    "missing subscription": ({"queue": None, "topic": "t", "subscription": "none"}, "none"),
    "topic alone": ({"queue": None, "topic": "t"}, "option subscription is missing"),
    "unknown option": ({"maxMessagePerTrigger": 1}, "did you mean maxMessagesPerTrigger"),
    "sessions of a queue without": ({"maxSessionsPerTrigger": 5}, "does not require sessions; leave it out"),
    "short lock": ({"lockDuration": "10ms"}, "lockDuration takes 0.5s to 86400s"),
    "long lock": ({"lockDuration": "25h"}, "lockDuration takes"),
}


def load(spark: SparkSession, options: dict[str, Any]) -> DataFrame:
    """Spark's own way."""
    return spark.readStream.format("oxbus").options(**options).load()


def helper(spark: SparkSession, options: dict[str, Any]) -> DataFrame:
    """The helper, with a schema, so that Spark would ask the source in the first batch."""
    return oxbus.spark.read_stream(spark, options, "body binary")


@pytest.mark.parametrize("declare", [load, helper])
@pytest.mark.parametrize("case", WRONG)
def test_wrong_streams(
    spark: SparkSession, broker: Broker, case: str, declare: Callable[[SparkSession, dict[str, Any]], DataFrame]
) -> None:
    """The last line of the error, before Spark's code, says what is wrong."""
    broker.make_topic("t", "s")
    changes, text = WRONG[case]
    options = {name: str(value) for name, value in (broker.options("in") | changes).items() if value is not None}
    with pytest.raises((AnalysisException, ValueError, MessagingEntityNotFoundError)) as error:
        declare(spark, options)
    lines = [line for line in str(error.value).splitlines() if line.strip() and "SQLSTATE" not in line]
    assert text in lines[-1]


def test_read_stream_reads_the_columns_of_a_schema(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """And takes truth values and numbers."""
    broker.fill("in", range(5))
    options = broker.options("in", consumer="c") | {"failOnDataLoss": True, "maxMessagesPerTrigger": 3}
    df = oxbus.spark.read_stream(spark, options, "sequence_number bigint")
    assert df.columns == ["sequence_number"]
    until_done(df.writeStream.format("noop").option("checkpointLocation", str(tmp_path)))
    assert broker.active("in") == 0


def test_write_appends(spark: SparkSession, broker: Broker) -> None:
    """Spark's own `save` refuses without a mode, before the source is asked."""
    df = spark.sql("SELECT CAST(id AS STRING) AS body FROM range(5)")
    oxbus.spark.write(df, broker.options("out"))
    assert broker.numbers("out") == list(range(5))
    with pytest.raises(AnalysisException, match="Append"):
        df.write.format("oxbus").options(**broker.options("out")).save()


def test_wrong_writes(spark: SparkSession, broker: Broker) -> None:
    """Options, columns and entity."""
    df = spark.sql("SELECT CAST(id AS STRING) AS body, id AS session_id FROM range(5)")
    with pytest.raises(ValueError, match="column session_id"):
        oxbus.spark.write(df, broker.options("out"))
    with pytest.raises(MessagingEntityNotFoundError):
        oxbus.spark.write(df.select("body"), broker.options("none"))
    rows = oxbus.spark.read_stream(spark, broker.options("in"))
    with pytest.raises(ValueError, match="unknown option"):
        oxbus.spark.write_stream(rows.select(*SENT), broker.options("out", delivry="x"))
    with pytest.raises(MessagingEntityNotFoundError):
        oxbus.spark.write_stream(rows.select(*SENT), broker.options("none"))


def test_write_stream(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """A copy by the two helpers."""
    broker.fill("in", range(50))
    rows = oxbus.spark.read_stream(spark, broker.options("in", consumer="c")).select(*SENT)
    until_done(oxbus.spark.write_stream(rows, broker.options("out")).option("checkpointLocation", str(tmp_path)))
    assert broker.numbers("out") == list(range(50))
