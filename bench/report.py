# SPDX-License-Identifier: Apache-2.0
"""Draws the newest results into docs/performance.md, between its markers, and into docs/performance/ as PNG and SVG.

    python bench/report.py

Each table and plot comes from one run, the newest that measured all of it; each names its file.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from reporting import amqp_table, network_table, plots, tables
from reporting.loaded import newest_with
from reporting.style import FOLDER

if TYPE_CHECKING:
    from reporting.loaded import Run

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
CAPTIONS = {
    "threads": "Rates by threads",
    "batch": "Rates by messages per call",
    "body": "Rates by bytes per message",
    "backlog": "Rates by messages that wait",
    "latency": "How long a wake-up and each call take",
    "units": "Memory and time of one queue and one session",
    "peers-memory": "Peers in memory",
    "peers-weight": "Memory per waiting message",
    "peers-synced": "Peers that survive power loss",
}


def main() -> int:
    """Write what there are results for; say what is missing."""
    parts: dict[str, list[str]] = {"targets": tables.targets()}
    missing = []
    for name, (kind, prefix, draw) in plots.ALL.items():
        run = newest_with(kind, prefix)
        if run is None:
            missing.append(name)
            continue
        parts[name] = [run.about(), "", _image(draw(run))]
    if run := newest_with("memory", "send_receive_complete/100B/", "partition_ids/", "send_arrow/"):
        parts["cases"] = tables.cases(run)
    for level, prefix in (("memory", "send_receive_complete/1KiB/memory_"), ("fsync", "send/1KiB/fsync_")):
        run = newest_with("peers", prefix)
        if run is None:
            missing.append(f"peers at the level {level}")
        else:
            parts |= _peers(level, run)
    parts |= _amqp(missing)
    if run := newest_with("durable", "send/"):
        parts["durable"] = tables.durable(run)
    page = PAGE.read_text(encoding="utf-8")
    for name, lines in parts.items():
        page = _fill(page, name, lines)
    PAGE.write_text(page, encoding="utf-8")
    files = sorted(FOLDER.glob("*.png"))
    print(f"wrote docs/performance.md and {len(files)} plots, {sum(file.stat().st_size for file in files) // 1024} KiB")
    for name in missing:
        print(f"no result yet for {name}: see bench/README.md")
    return 0


def _amqp(missing: list[str]) -> dict[str, list[str]]:
    parts: dict[str, list[str]] = {}
    for level in ("memory", "fsync"):
        run = newest_with("amqp", f"amqp_ping/1KiB/{level}")
        if run is None:
            missing.append(f"AMQP brokers at the level {level}")
            continue
        parts[f"amqp-{level}"] = amqp_table.beside_brokers(run, level)
        if level == "memory":
            parts["amqp-clients"] = amqp_table.clients_in_python(run)
    if run := newest_with("amqp", "network_cycle/"):
        parts["network"] = network_table.beside_work_queues(run)
    else:
        missing.append("work queues over the network")
    return parts


def _peers(level: str, run: Run) -> dict[str, list[str]]:
    if level == "memory":
        single, hundred = tables.MEMORY_COLUMNS["1 KiB single"], tables.MEMORY_COLUMNS["by 100"]
        columns = [("one by one, 1 KiB", tables.column(run, single)), ("by 100, 1 KiB", tables.column(run, hundred))]
        title = "In memory, or at the weakest level a peer offers: send, then receive and acknowledge"
        drawn = plots.bars("peers-memory", title, columns, "messages per second")
        lines = [*tables.peers_in_memory(run), "", _image(drawn)]
        if weights := tables.column(run, "memory/100B/memory", "bytes_per_message"):
            head = [("100-byte messages that wait", weights)]
            name = plots.bars("peers-weight", "Memory per message", head, "bytes", better="lower")
            lines += ["", _image(name)]
        return {"peers-memory": lines}
    single, hundred = tables.SYNCED_COLUMNS["cycle"], tables.SYNCED_COLUMNS["cycle by 100"]
    columns = [("one by one, 1 KiB", tables.column(run, single)), ("by 100, 1 KiB", tables.column(run, hundred))]
    title = "Surviving power loss: send, then receive and acknowledge"
    drawn = plots.bars("peers-synced", title, columns, "messages per second")
    return {"peers-synced": [*tables.peers_synced(run), "", _image(drawn)]}


def _image(name: str) -> str:
    return f"[![{CAPTIONS[name]}](performance/{name}.png)](performance/{name}.svg)"


def _fill(page: str, name: str, lines: list[str]) -> str:
    """Replace what stands between the markers of a part."""
    pattern = re.compile(rf"(<!-- report: {re.escape(name)} -->\n).*?(<!-- end of report -->)", re.DOTALL)
    if not pattern.search(page):
        raise SystemExit(f"docs/performance.md has no place for `{name}`: add <!-- report: {name} -->, then its end")
    return pattern.sub(lambda found: found[1] + "\n".join(["", *lines, "", ""]) + found[2], page)


if __name__ == "__main__":
    sys.exit(main())
