# SPDX-License-Identifier: Apache-2.0
"""The context that a result needs later: the commit and the kind of machine."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path


def commit() -> str:
    """The checked-out commit, marked when files differ from it."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parent)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


def description() -> dict[str, object]:
    """Processor, cores, memory and versions; nothing that names the machine."""
    return {
        "processor": _first_value("/proc/cpuinfo", "model name") or platform.machine(),
        "cores": os.cpu_count(),
        "memory": _first_value("/proc/meminfo", "MemTotal"),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load_before": os.getloadavg()[0],
    }


def cpu_ticks() -> tuple[int, int]:
    """Ticks that all processors counted since the system started, and those taken away by other guests of the host."""
    try:
        fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
    except OSError:
        return 0, 0
    counts = [int(field) for field in fields]
    return sum(counts[:8]), counts[7] if len(counts) > 7 else 0


def noise_since(before: tuple[int, int]) -> dict[str, float]:
    """How busy others kept the machine since `before`: the share of stolen time, and the load at the end."""
    total, stolen = (now - then for now, then in zip(cpu_ticks(), before, strict=True))
    return {"stolen_share": round(stolen / total, 4) if total else 0.0, "load_after": os.getloadavg()[0]}


def _first_value(path: str, name: str) -> str | None:
    try:
        for line in Path(path).read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == name:
                return value.strip()
    except OSError:
        pass
    return None
