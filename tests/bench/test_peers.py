# SPDX-License-Identifier: Apache-2.0
"""Other brokers that the benches download and start."""

from __future__ import annotations

import base64
import subprocess
from typing import TYPE_CHECKING

from peers import debian, kafka_storage

if TYPE_CHECKING:
    from pathlib import Path


def test_cluster_id_never_looks_like_an_option() -> None:
    """Kafka's tool failed in one start of 64: the random id began with a hyphen."""
    ids = [kafka_storage.cluster_id(bytes([first, *range(15)])) for first in range(256)]
    assert not [one for one in ids if one.startswith("-")]
    assert {len(base64.urlsafe_b64decode(one + "==")) for one in ids} == {16}
    assert len(set(ids)) == 128, "seven of the eight bits of the first byte stay random"


def test_unpacked_programs_may_be_moved(tmp_path: Path) -> None:
    """RabbitMQ failed once the checkout had another name: its scripts contained the old one."""
    root = tmp_path / "before"
    programs = root / "usr" / "lib" / "erlang" / "bin"
    programs.mkdir(parents=True)
    (programs / "erl").write_bytes(debian.ELF + b"what the loader is given")
    (programs / "plain").write_text("a script stays as it is", encoding="ascii")
    loader = root / debian.LOADER
    loader.parent.mkdir(parents=True)
    loader.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n', encoding="ascii")
    loader.chmod(0o755)
    debian.run_by_own_library(root, programs)

    moved = root.rename(tmp_path / "after here")
    link = tmp_path / "link"
    link.symlink_to(moved / "usr" / "lib" / "erlang" / "bin" / "erl")
    done = subprocess.run([link, "-v", "two words"], check=True, capture_output=True, text=True)

    _, libraries, program, *arguments = done.stdout.splitlines()
    assert arguments == ["-v", "two words"]
    places = [debian.LIBRARIES, "usr/lib/erlang/bin/erl.elf"]
    for script, target in zip([libraries, program], places, strict=True):
        assert (tmp_path / script).resolve() == moved / target
    assert (moved / "usr/lib/erlang/bin/plain").read_text(encoding="ascii") == "a script stays as it is"
