# SPDX-License-Identifier: Apache-2.0
"""What a backup is made of: an open namespace, a directory that nobody has open, or a running server.

Each source passes a list of files to a receiver, and then the contents of those that the receiver does not have.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from oxbus._connection import parse
from oxbus._oxbus import BulkClient, Namespace, _backup_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from oxbus._oxbus import _Backup

_PIECE: Final = 1 << 20
"""Bytes that are read at once."""
_LIST_HEAD: Final = 4
"""Bytes before the list, which hold its length."""

Known = frozenset[tuple[str, str]]
"""Names and fingerprints of files that the receiver has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file of a source; `is_sent` is False if the receiver has it."""

    name: str
    bytes: int
    fingerprint: str
    is_sent: bool


class Receiver(Protocol):
    """Takes the files of a source."""

    def begin(self, files: Sequence[FoundFile]) -> None:
        """Take the list of the files."""

    def write(self, content: bytes) -> None:
        """Take the next bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What is backed up.

    Attributes:
        name: What it is called in the list of the backup.
        directory: The directory of the namespace, if it is on this machine.
        send: Passes its files on.
    """

    name: str
    directory: Path | None
    send: Callable[[Known, Receiver], None]


def source_of(source: Namespace | str | os.PathLike[str], connection_verify: str | os.PathLike[str] | None) -> Source:
    """Return the source that an argument of `oxbus.backups.backup` names."""
    if isinstance(source, Namespace):
        place = source._directory()
        return Source(
            name="a namespace",
            directory=None if place is None else Path(place).resolve(),
            send=lambda known, receiver: _copy(source._backup(), known, receiver),
        )
    text = os.fspath(source)
    if isinstance(source, str) and ("://" in text or text.lower().startswith("endpoint=")):
        connection = parse(text)
        if connection.scheme == "store":
            raise ValueError("a namespace in a store is backed up while it is open: pass the namespace, or its server")
        if connection.scheme == "memory":
            raise ValueError("a namespace in memory has no files; back up one in a directory")
        if connection.scheme == "sb":
            client = BulkClient(text, ca_file=connection_verify)
            return Source(
                name=client.endpoint, directory=None, send=lambda known, receiver: _download(client, known, receiver)
            )
        text = connection.properties.fully_qualified_namespace
    directory = Path(text).resolve()
    return Source(
        name=str(directory),
        directory=directory,
        send=lambda known, receiver: _copy(_backup_directory(directory), known, receiver),
    )


def _copy(backup: _Backup, known: Known, receiver: Receiver) -> None:
    """Pass on the files of a namespace in this process, or of a directory."""
    try:
        files = [
            FoundFile(name=name, bytes=size, fingerprint=fingerprint, is_sent=(name, fingerprint) not in known)
            for name, size, fingerprint in backup.files()
        ]
        receiver.begin(files)
        for index, file in enumerate(files):
            for position in range(0, file.bytes if file.is_sent else 0, _PIECE):
                wanted = min(_PIECE, file.bytes - position)
                content = backup.read(index, position, wanted)
                if len(content) < wanted:
                    raise OSError(f"a file became shorter during its backup; back up again: `{file.name}`")
                receiver.write(content)
    finally:
        # The traceback of an error would keep the namespace locked.
        backup.close()


def _download(client: BulkClient, known: Known, receiver: Receiver) -> None:
    """Pass on the files of a server."""
    head = bytearray()
    is_begun = False

    def write(piece: bytes) -> None:
        nonlocal is_begun
        if is_begun:
            receiver.write(piece)
            return
        head.extend(piece)
        end = _LIST_HEAD + int.from_bytes(head[:_LIST_HEAD], "little")
        if len(head) < max(end, _LIST_HEAD):
            return
        receiver.begin(
            [
                FoundFile(name=file["name"], bytes=file["bytes"], fingerprint=file["fingerprint"], is_sent=file["sent"])
                for file in json.loads(head[_LIST_HEAD:end])["files"]
            ]
        )
        is_begun = True
        if rest := bytes(head[end:]):
            receiver.write(rest)

    client._backup(sorted(known), write)
