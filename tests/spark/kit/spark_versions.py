# SPDX-License-Identifier: Apache-2.0
"""The version of PySpark, for tests that need a newer one (`make test-spark-versions` runs older ones)."""

from __future__ import annotations

import pyspark
import pytest

PYSPARK = tuple(int(part) for part in pyspark.__version__.split(".")[:2])

since_4_1 = pytest.mark.skipif(PYSPARK < (4, 1), reason="needs PySpark 4.1")
since_4_2 = pytest.mark.skipif(PYSPARK < (4, 2), reason="needs PySpark 4.2")

STOPS_SOURCES = PYSPARK == (4, 0) or PYSPARK >= (4, 3)
"""4.1 kills the process of a source, which also ends the renewal of its locks; 4.2 was not tried."""

AVAILABLE_NOW_IS_ONE_BATCH = PYSPARK < (4, 2)
"""A query with that trigger must be repeated until no messages are left."""
