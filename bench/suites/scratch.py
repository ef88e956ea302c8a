# SPDX-License-Identifier: Apache-2.0
"""Where contenders keep their files while a suite runs."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from durable.measure import SCRATCH

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def scratch() -> Iterator[Path]:
    """An empty directory on the disk of this checkout."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        yield Path(folder)
