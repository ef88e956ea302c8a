# SPDX-License-Identifier: Apache-2.0
"""Correctness of the programs of bench/, without which their figures mean nothing; these tests measure nothing."""

from __future__ import annotations

import sys
from pathlib import Path

# At the end of the path: some of its modules have the names of others.
sys.path.append(str(Path(__file__).parents[2] / "bench"))
sys.path.append(str(Path(__file__).parents[1] / "stored/kit"))
