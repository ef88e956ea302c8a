# SPDX-License-Identifier: Apache-2.0
"""The results of a durable run as plain tables, one per body size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from durable.measure import Durable

COLUMNS = {
    "send": "send/{payload}/durable_single",
    "cycle": "send_receive_complete/{payload}/durable_single",
    "send by 100": "send/{payload}/durable_batch_100",
    "cycle by 100": "send_receive_complete/{payload}/durable_batch_100",
    "2+2 cycle": "send_receive_complete/{payload}/durable_2+2_single",
    "2+2 cycle by 100": "send_receive_complete/{payload}/durable_2+2_batch_100",
}
FLUSHES = "flushes/msg"


def text(found: Durable) -> str:
    """Return everything a reader wants to see of a run."""
    disk = found.disk
    lines = [
        (
            f"Disk ({disk['file_system']}): append 4 KiB + fdatasync {disk['append_fdatasync_per_s']:,.0f}/s "
            f"(16 files in turn {disk['append_fdatasync_16_files_per_s']:,.0f}/s), "
            f"overwrite + fdatasync {disk['overwrite_fdatasync_per_s']:,.0f}/s, "
            f"512 B to 16 preallocated files in turn {disk['sixteen_files_per_s']:,.0f}/s, "
            f"sequential {float(disk['sequential_bytes_per_s']) / 1e6:,.0f} MB/s"
        ),
        "Peers: " + ", ".join(f"{name} {version}" for name, version in found.line_up.versions.items()),
    ]
    rows = found.rows()
    for payload in dict.fromkeys(row["id"].split("/")[1] for row in rows):
        lines += ["", *_table(payload, rows)]
    if found.line_up.unavailable:
        lines += ["", *[f"not available here: {name}: {reason}" for name, reason in found.line_up.unavailable.items()]]
    return "\n".join(lines)


def _table(payload: str, rows: list[dict[str, Any]]) -> list[str]:
    by_place = {(row["id"], row["contender"]): row for row in rows}
    contenders = dict.fromkeys(row["contender"] for row in rows if row["id"].split("/")[1] == payload)
    ids = {column: pattern.format(payload=payload) for column, pattern in COLUMNS.items()}
    heads = ["send", "cycle", FLUSHES, "send by 100", "cycle by 100", "2+2 cycle", "2+2 cycle by 100"]
    lines = [f"{payload}: messages per second (over the disk's appends per second)"]
    lines.append(f"{'':28}" + "".join(f"{head:>20}" for head in heads))
    for contender in contenders:
        cells = []
        for head in heads:
            row = by_place.get((ids["cycle" if head == FLUSHES else head], contender))
            cells.append(_flushes(row) if head == FLUSHES else _rate(row))
        lines.append(f"{contender:28}" + "".join(f"{cell:>20}" for cell in cells))
    return lines


def _rate(row: dict[str, Any] | None) -> str:
    return f"{row['throughput_msg_per_s']:,.0f} ({row['ratio_to_append']:.2f})" if row else "-"


def _flushes(row: dict[str, Any] | None) -> str:
    return f"{row['flushes_per_message']:.2f}" if row and "flushes_per_message" in row else "-"
