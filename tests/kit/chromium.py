# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium of Debian's packages, unpacked once without installing it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = Path("usr/lib/chromium/chromium-headless-shell")
PACKAGES = ("chromium-headless-shell", "fonts-dejavu-core")


class NoChromiumError(Exception):
    """No Chromium can be had, for this reason."""


def chromium() -> tuple[Path, dict[str, str]]:
    """The program, and the environment in which it finds its libraries.

    Raises:
        NoChromiumError: There is none, and it cannot be fetched.
    """
    for name in ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"):
        if (found := shutil.which(name)) is not None:
            return Path(found), dict(os.environ)
    root = ROOT / "target/tools/chromium"
    if not (root / PROGRAM).exists():
        _fetch(root)
    libraries = [root / "usr/lib/chromium", *(root / "usr/lib").glob("*-linux-gnu")]
    libraries += [folder for place in list(libraries) for folder in place.glob("pulseaudio")]
    fonts = root / "fonts.conf"
    fonts.write_text(
        '<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig>'
        f"<dir>{root}/usr/share/fonts</dir><dir>/usr/share/fonts</dir><cachedir>{root}/fonts-cache</cachedir>"
        "</fontconfig>"
    )
    paths = ":".join(map(str, libraries))
    return root / PROGRAM, os.environ | {"LD_LIBRARY_PATH": paths, "FONTCONFIG_FILE": str(fonts)}


def _fetch(root: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise NoChromiumError("no chromium, and no apt-get and dpkg to fetch it with")
    unpacked = root.with_name(f"chromium-{os.getpid()}")
    unpacked.mkdir(parents=True)
    try:
        plan = ["apt-get", "install", "--print-uris", "--yes", "--no-install-recommends", *PACKAGES]
        answer = subprocess.run(plan, check=True, capture_output=True, text=True).stdout
        # Each line names a file that is not installed: 'ADDRESS' NAME_VERSION_ARCHITECTURE.deb SIZE DIGEST.
        names = [re.sub("_.*", "", line.split("' ")[1]) for line in answer.splitlines() if line.startswith("'")]
        names = [re.sub("%3a.*", "", name) for name in names]
        subprocess.run(["apt-get", "download", *names], cwd=unpacked, check=True, capture_output=True)
        for package in unpacked.glob("*.deb"):
            subprocess.run(["dpkg", "-x", str(package), str(unpacked)], check=True, capture_output=True)
            package.unlink()
        unpacked.rename(root)
    except (subprocess.CalledProcessError, OSError) as error:
        shutil.rmtree(unpacked, ignore_errors=True)
        if not (root / PROGRAM).exists():  # another worker was not faster
            text = getattr(error, "stderr", None) or error
            raise NoChromiumError(f"Chromium cannot be fetched: {text!r}") from error
