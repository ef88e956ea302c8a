# SPDX-License-Identifier: Apache-2.0
"""What oxbus adds to PySpark; the only package of oxbus that imports it (`pip install "oxbus[spark]"`)."""

from oxbus.spark.alignment import aligned
from oxbus.spark.bulk_load import BULK_LOAD_SCHEMA, sender
from oxbus.spark.elements import LoadedRows
from oxbus.spark.hashing import partition_id
from oxbus.spark.registration import register
from oxbus.spark.settling import settle
from oxbus.spark.streams import read_stream
from oxbus.spark.udf import partition_id_arrow_udf, partition_id_udf

__all__ = [
    "BULK_LOAD_SCHEMA",
    "LoadedRows",
    "aligned",
    "partition_id",
    "partition_id_arrow_udf",
    "partition_id_udf",
    "read_stream",
    "register",
    "sender",
    "settle",
]
