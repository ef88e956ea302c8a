# SPDX-License-Identifier: Apache-2.0
"""Recognition of namespace directories without opening them (docs/format.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

CATALOG: Final = "catalog"
"""The file that every namespace has; written last at creation."""

_FIRST_SNAPSHOT: Final = f"{0:020}.snapshot"


def has_messages(directory: Path) -> bool:
    """Return whether a directory has more partition files than a namespace that is being created.

    If it has no catalog, the catalog was lost: the directory must not be treated as empty.
    """
    files = (path for path in directory.glob("shard-*/*") if path.suffix in {".journal", ".snapshot"})
    return any(path.name != _FIRST_SNAPSHOT for path in files)
