# SPDX-License-Identifier: Apache-2.0
"""Programs out of Debian's packages, unpacked into a folder and never installed.

Packages of another release than this machine's come with their own C library, which `run_by_own_library` has them use.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from peers.contract import UnavailableError
from peers.fetching import fetch

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
LIBRARIES = "usr/lib/x86_64-linux-gnu"
LOADER = "usr/lib64/ld-linux-x86-64.so.2"
ELF = b"\x7fELF"


def unpack(root: Path, packages: tuple[str, ...], release: str | None = None) -> None:
    """Download packages, of this machine's release or a named one, and unpack them below `root`."""
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        raise UnavailableError("no apt-get and dpkg to fetch it with")
    root.mkdir(parents=True, exist_ok=True)
    options = _lists_of(release, root / "apt") if release else []
    if release:
        fetch(["apt-get", *options, "update"], root)
    fetch(["apt-get", *options, "download", *packages], root)
    for package in sorted(root.glob("*.deb")):
        fetch(["dpkg", "-x", str(package), str(root)], root)
        package.unlink()


def _lists_of(release: str, folder: Path) -> list[str]:
    """Options by which apt knows that release and nothing of this machine."""
    for part in ("lists/partial", "cache/archives/partial", "state"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / "state" / "status").touch()
    sources = folder / "sources.list"
    sources.write_text(f"deb [signed-by={KEYRING}] {_archive()} {release} main\n", encoding="ascii")
    settings = {
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "-",
        "Dir::State": folder / "state",
        "Dir::State::status": folder / "state" / "status",
        "Dir::State::Lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "APT::Sandbox::User": "root",
    }
    return [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]


def _archive() -> str:
    """Where this machine gets its own packages from; it has those of other releases too."""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)"]
    known = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    for address in known:
        if address.rstrip("/").endswith("/debian"):
            return address
    raise UnavailableError("apt knows no archive of Debian; name one in /etc/apt/sources.list")


def run_by_own_library(root: Path, folder: Path) -> None:
    """Put a script in the place of each program in `folder` that starts it with the C library below `root`.

    A script finds everything from where it stands, so that `root` may be moved.
    """
    up = Path(*[".."] * len(folder.relative_to(root).parts))
    for file in sorted(folder.iterdir()):
        with file.open("rb") as content:
            if content.read(len(ELF)) != ELF:
                continue
        moved = file.rename(file.with_name(f"{file.name}.elf"))
        file.write_text(
            "#!/bin/sh\n"
            'here=$(readlink -f "$0") && here=${here%/*}\n'
            f'exec "$here/{up / LOADER}" --library-path "$here/{up / LIBRARIES}" "$here/{moved.name}" "$@"\n',
            encoding="utf-8",
        )
        file.chmod(0o755)
