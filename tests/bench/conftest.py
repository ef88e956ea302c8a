# SPDX-License-Identifier: Apache-2.0
"""What the programs of bench/ must get right for their figures to mean something; nothing here measures."""

from __future__ import annotations

import sys
from pathlib import Path

# Behind everything else: some of its modules have the names of others.
sys.path.append(str(Path(__file__).parents[2] / "bench"))
