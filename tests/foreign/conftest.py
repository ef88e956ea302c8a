# SPDX-License-Identifier: Apache-2.0
"""Servers of others, which the benches know how to start."""

from __future__ import annotations

import sys
from pathlib import Path

# At the end of the path: some of its modules have the names of others.
sys.path.append(str(Path(__file__).parents[2] / "bench"))
