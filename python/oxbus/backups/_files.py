# SPDX-License-Identifier: Apache-2.0
"""The directory of one backup: names, its list of files, and how files become durable."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIST: Final = "backup.json"
CATALOG: Final = "catalog"
CATALOG_COPY: Final = "catalog.copy"
"""The catalog has another name in a backup, so that nobody opens a backup as a namespace and changes its files."""
UNFINISHED: Final = ".oxbus-backup.unfinished"
MARK: Final = "backup.unfinished"
"""A file in a directory that may be removed: a backup that has not ended, or one that is being removed."""
FORMAT: Final = 1
_DIRECTORY_MODE: Final = 0o700
"""Only the owner may read a backup: it holds messages, and its parent may be open to everyone."""
_PART: Final = re.compile(r"[0-9A-Za-z-][0-9A-Za-z.-]*")
_PARTS_MAX: Final = 3
"""Names in the path of a file: a partition, a directory in it, a file."""
_NAME: Final = re.compile(r"\d{8}T\d{6}\.\d{3}Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedFile:
    """A file of a backup.

    Attributes:
        name: Its path below the directory of the namespace, with ``/``.
        bytes: Its length.
        fingerprint: Tells files of the same name apart.
        sha256: The checksum of its content.
    """

    name: str
    bytes: int
    fingerprint: str
    sha256: str


def place_of(directory: Path, name: str) -> Path:
    """Return where a backup has the file of that name."""
    return directory / (CATALOG_COPY if name == CATALOG else name)


def name_of(moment: datetime) -> str:
    """Return the name of a backup that began at a time."""
    return f"{moment:%Y%m%dT%H%M%S}.{moment.microsecond // 1000:03}Z"


def moment_of(name: str) -> datetime | None:
    """Return the time in the name of a backup; None if it is another name."""
    if not _NAME.fullmatch(name):
        return None
    try:
        return datetime.strptime(name, "%Y%m%dT%H%M%S.%fZ").replace(tzinfo=UTC)
    except ValueError:
        return None


def named(target: Path) -> list[Path]:
    """Return the directories in a directory that have the name of a backup, the oldest first."""
    if not target.is_dir():
        return []
    return sorted(path for path in target.iterdir() if moment_of(path.name) is not None and path.is_dir())


def complete(target: Path) -> list[Path]:
    """Return the complete backups in a directory, the oldest first. Somebody may have removed a part of the others."""
    return [path for path in named(target) if (path / LIST).is_file()]


def read_list(directory: Path) -> list[SavedFile]:
    """Return the files of a backup.

    Raises:
        ValueError: The list is missing or damaged, or a newer version wrote it.
    """
    path = directory / LIST
    try:
        content: dict[str, Any] = json.loads(path.read_bytes())
        if content["format"] > FORMAT:
            raise ValueError(f"a newer version of oxbus wrote the backup; restore it with that one: `{path}`")
        files = [SavedFile(**file) for file in content["files"]]
    except FileNotFoundError:
        raise ValueError(f"there is no backup in the directory; name another one: `{directory}`") from None
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError(f"the list of the backup is damaged; use another backup: `{path}`: {error}") from None
    for file in files:
        check_name(file.name)
    return files


def check_name(name: str) -> None:
    """Fail unless a file of that name is inside a directory, whoever sent or wrote the name.

    Raises:
        ValueError: It is not.
    """
    parts = name.split("/")
    if not all(_PART.fullmatch(part) for part in parts) or len(parts) > _PARTS_MAX:
        raise ValueError(f"a backup cannot have a file of this name; use another backup or server: `{name}`")


def write_list(directory: Path, files: list[SavedFile], **facts: str) -> None:
    """Write the list of a backup."""
    content = {"format": FORMAT, **facts, "files": [asdict(file) for file in files]}
    with (directory / LIST).open("w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
        sync(file.fileno())


def sync(descriptor: int) -> None:
    """Make a file durable."""
    os.fsync(descriptor)


def sync_names(directory: Path) -> None:
    """Make the names in a directory durable, where the system can."""
    if os.name != "nt":
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def make_directory(path: Path) -> None:
    """Create a directory and its parents where they are missing, for this user only, and make their names durable."""
    if not path.parent.exists():
        make_directory(path.parent)
    if not path.is_dir():
        path.mkdir(mode=_DIRECTORY_MODE, exist_ok=True)
        # Whoever may write into a directory need not be allowed to read it.
        with contextlib.suppress(PermissionError):
            sync_names(path.parent)


def mark(directory: Path) -> None:
    """Mark a directory as one that may be removed."""
    (directory / MARK).touch()
    sync_names(directory)


def remove_marked(directory: Path) -> None:
    """Remove a directory that was marked. The mark goes last, so that an interrupted removal can be repeated."""
    for path in directory.iterdir():
        if path.name != MARK:
            remove(path)
    (directory / MARK).unlink(missing_ok=True)
    directory.rmdir()


def remove(path: Path) -> None:
    """Remove a file, or a directory with all that is in it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def sync_all_names(directory: Path) -> None:
    """Make the names in a directory and below it durable."""
    for each in _directories(directory):
        sync_names(each)


def _directories(directory: Path) -> Iterator[Path]:
    yield directory
    for path in directory.iterdir():
        if path.is_dir():
            yield from _directories(path)
