# SPDX-License-Identifier: Apache-2.0
"""What a directory is, for those who look before they open it (docs/format.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

CATALOG: Final = "catalog"
"""The file that every namespace has; written last when one is made."""

_FIRST_SNAPSHOT: Final = f"{0:020}.snapshot"


def has_messages(place: Path) -> bool:
    """Return whether partitions are there with more than a namespace has while it is made.

    Such a directory without a catalog has lost it, and must not be called empty.
    """
    files = (path for path in place.glob("shard-*/*") if path.suffix in {".journal", ".snapshot"})
    return any(path.name != _FIRST_SNAPSHOT for path in files)
