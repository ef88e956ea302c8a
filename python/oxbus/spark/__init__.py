# SPDX-License-Identifier: Apache-2.0
"""What oxbus adds to PySpark; the only package of oxbus that imports it (`pip install "oxbus[spark]"`)."""

from oxbus.spark.hashing import partition_id

__all__ = ["partition_id"]
