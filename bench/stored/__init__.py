# SPDX-License-Identifier: Apache-2.0
"""Namespaces in stores in one run: oxbus over each store, the stores themselves, and brokers of three nodes."""

from __future__ import annotations

import sys
from pathlib import Path

# The tests start stores and servers, too. At the end of the path, as some of their modules have the names of others.
sys.path.append(str(Path(__file__).parents[2] / "tests/stored/kit"))
