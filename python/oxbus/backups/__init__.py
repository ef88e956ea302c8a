# SPDX-License-Identifier: Apache-2.0
"""Backups of namespaces: `backup` writes one, also of an open namespace or of a running server; `restore` reads it.

A target directory holds any number of backups, each in its own directory:

```text
TARGET/20261127T155012.345Z/backup.json      the list of the files, with checksums
TARGET/20261127T155012.345Z/catalog.copy     the catalog
TARGET/20261127T155012.345Z/shard-00/…       the files of a partition
TARGET/.oxbus-backup.unfinished/             a backup that has not ended
```

A file that the previous backup has is not copied again: both share it by a hard link. So backups can be removed in any
order, and each is complete. Their files must not be changed.

Source: docs/guide/backup.md.
"""

from __future__ import annotations

from oxbus.backups._backup import Backup, backup
from oxbus.backups._restore import restore

__all__ = ["Backup", "backup", "restore"]
