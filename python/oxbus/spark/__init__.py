# SPDX-License-Identifier: Apache-2.0
"""PySpark integration; the only package of oxbus that imports PySpark (`pip install "oxbus[spark]"`)."""

from importlib.util import find_spec

if find_spec("pyspark") is None:
    raise ModuleNotFoundError('oxbus.spark needs PySpark: pip install "oxbus[spark]"', name="pyspark")

from oxbus.spark.alignment import aligned
from oxbus.spark.bulk_drain import SETTLED_SCHEMA, partitions, receiver, settler
from oxbus.spark.bulk_load import BULK_LOAD_SCHEMA, sender
from oxbus.spark.elements import LoadedRows
from oxbus.spark.hashing import partition_id
from oxbus.spark.registration import register
from oxbus.spark.sessions import by_session
from oxbus.spark.settling import settle
from oxbus.spark.streams import read_stream, write, write_stream
from oxbus.spark.udf import partition_id_arrow_udf, partition_id_udf

__all__ = [
    "BULK_LOAD_SCHEMA",
    "SETTLED_SCHEMA",
    "LoadedRows",
    "aligned",
    "by_session",
    "partition_id",
    "partition_id_arrow_udf",
    "partition_id_udf",
    "partitions",
    "read_stream",
    "receiver",
    "register",
    "sender",
    "settle",
    "settler",
    "write",
    "write_stream",
]
