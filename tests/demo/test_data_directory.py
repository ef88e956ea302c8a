# SPDX-License-Identifier: Apache-2.0
"""The demo's directory: ownership, remaining files, and files that are never changed."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

import pytest
from oxbus.demo.data_directory import DataDirectory, DataDirectoryError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of the directory of a test."""
    return tmp_path / "some" / "demo"


def write_progress(directory: DataDirectory) -> None:
    """Write the files that a run writes before it sends."""
    directory.write(directory.encoded, lambda file: file.write(b"encoded"))
    directory.namespace.mkdir()
    (directory.received / "note").touch()
    directory.count_run()


def test_progress_is_found_again(path: Path) -> None:
    """The run and acknowledged batches are restored when the directory is opened again."""
    with DataDirectory(path) as directory:
        write_progress(directory)
        directory.acknowledge(3)
    with DataDirectory(path) as directory:
        assert directory.progress.acknowledged_batches == 3
        assert directory.count_run() == 2
        assert (directory.received / "note").exists()


def test_directory_without_progress_is_removed(path: Path) -> None:
    """A run that could not begin leaves no files."""
    with DataDirectory(path):
        assert path.exists()
    assert not path.exists()


def test_finished_demo_leaves_no_files(path: Path) -> None:
    """After right counts all files are removed."""
    with DataDirectory(path) as directory:
        write_progress(directory)
        directory.finish(keep=False)
    assert not path.exists()


def test_wrong_counts_stay_until_the_next_run(path: Path) -> None:
    """A user may inspect the files; the next run still starts from scratch."""
    with DataDirectory(path) as directory:
        write_progress(directory)
        directory.finish(keep=True)
    assert (path / "encoded.arrow").exists()
    with DataDirectory(path) as directory:
        assert directory.progress.runs == 0
        assert not directory.encoded.exists()
        assert not directory.namespace.exists()
        assert list(directory.received.iterdir()) == []


def test_directory_of_another_program_is_rejected_and_not_changed(path: Path) -> None:
    """This includes a directory whose files are named like the demo's."""
    (path / "received").mkdir(parents=True)
    (path / "received" / "letter").write_text("dear")
    with pytest.raises(DataDirectoryError, match="not the demo's"):
        DataDirectory(path)
    assert [entry.name for entry in path.rglob("*")] == ["received", "letter"]


def test_files_of_others_stay_when_the_demo_is_finished(path: Path) -> None:
    """Only files of the demo are removed."""
    with DataDirectory(path) as directory:
        write_progress(directory)
        (path / "letter").write_text("dear")
        directory.finish(keep=False)
    assert [entry.name for entry in path.iterdir()] == ["letter"]


def test_second_demo_is_refused_while_the_first_works(path: Path) -> None:
    """Two demos in one directory would mix their progress files."""
    with DataDirectory(path), pytest.raises(DataDirectoryError, match=r"another demo is running in .*demo"):
        DataDirectory(path)


def test_path_of_a_file_is_rejected(tmp_path: Path) -> None:
    """The error names the path."""
    (tmp_path / "demo").touch()
    with pytest.raises(DataDirectoryError, match=r"demo cannot be used"):
        DataDirectory(tmp_path / "demo")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"colour": 1}', '{"format": 99}'])
def test_progress_that_cannot_be_read_is_refused(path: Path, text: str) -> None:
    """Damage and other versions are reported with a remedy."""
    with DataDirectory(path) as directory:
        write_progress(directory)
    (path / "progress.json").write_text(text)
    with pytest.raises(DataDirectoryError, match="remove"):
        DataDirectory(path)


def test_missing_messages_are_reported(path: Path) -> None:
    """Without the messages of the earlier run the counts cannot be checked."""
    with DataDirectory(path) as directory:
        write_progress(directory)
    (path / "encoded.arrow").unlink()
    with pytest.raises(DataDirectoryError, match=r"encoded\.arrow is missing"):
        DataDirectory(path)


def test_file_that_failed_to_be_written_does_not_exist(path: Path) -> None:
    """A half-written file never has its final name, so the directory still belongs to the demo."""

    def fail(file: IO[bytes]) -> None:
        file.write(b"half")
        raise OSError("disk is gone")

    with DataDirectory(path) as directory:
        with pytest.raises(OSError, match="disk is gone"):
            directory.write(directory.encoded, fail)
        assert not directory.encoded.exists()
    path.mkdir()
    (path / "progress.json.part").touch()
    with DataDirectory(path) as directory:
        assert directory.progress.runs == 0
