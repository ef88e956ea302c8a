# SPDX-License-Identifier: Apache-2.0
"""Draws the newest results into README.md and docs/performance.md, between their markers, and into docs/performance/.

    python bench/report.py

Each table and plot comes from one run, the newest that measured all of it; those of docs/performance.md name its file.
A part that no run has measured is marked so; no figure of an older method stays.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from reporting import amqp_table, asyncio_table, client_table, network_table, plots, readme_tables, stored_table, tables
from reporting.about import about
from reporting.style import FOLDER
from results_file import newest_with
from targets import ASYNCIO

if TYPE_CHECKING:
    from collections.abc import Iterable

    from results_file import Run

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", ROOT / "docs" / "performance.md")
NOT_MEASURED = ["No run that reads every body has measured this yet; run `make bench`."]
MARKED_PART = re.compile(r"(<!-- report: (?P<name>\S+) -->\n).*?(<!-- end of report -->)", re.DOTALL)
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
    """Write the parts that have results; print what is missing."""
    parts: dict[str, list[str]] = {"targets": tables.targets()}
    missing = []
    for name, (prefix, draw) in plots.ALL.items():
        run = newest_with("core", prefix)
        if run is None:
            missing.append(name)
            continue
        parts[name] = [about(run, "core"), "", _image(draw(run))]
    if run := newest_with("core", "send_receive_complete/100B/", "partition_ids/", "send_arrow/"):
        parts |= {"cases": tables.cases(run), "speed": readme_tables.in_memory(run)}
    else:
        missing.append("the cases in memory")
    if run := newest_with("core", ASYNCIO):
        parts["asyncio"] = asyncio_table.beside_threads(run)
    else:
        missing.append("asyncio")
    for level, prefix in (("memory", "send_receive_complete/1KiB/memory_"), ("fsync", "send/1KiB/fsync_")):
        run = newest_with("peers", prefix)
        if run is None:
            missing.append(f"peers at the level {level}")
        else:
            parts |= peers(level, run)
    parts |= _amqp(missing)
    parts |= _durable(missing)
    fill(PAGES, parts)
    files = sorted(FOLDER.glob("*.png"))
    size = sum(file.stat().st_size for file in files) // 1024
    print(f"wrote {', '.join(page.name for page in PAGES)} and {len(files)} plots, {size} KiB")
    for name in missing:
        print(f"no result yet for {name}: see bench/README.md")
    return 0


def _durable(missing: list[str]) -> dict[str, list[str]]:
    parts: dict[str, list[str]] = {}
    if run := newest_with("durable", "send/"):
        parts |= {"durable": tables.durable(run), "speed-on-disk": readme_tables.on_disk(run)}
    else:
        missing.append("queues on disk")
    if run := newest_with("stored", "send/"):
        parts["stored"] = stored_table.in_stores(run)
    else:
        missing.append("namespaces in stores")
    return parts


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
    if run := newest_with("client", "client_single/"):
        parts["clients"] = client_table.clients(run)
    else:
        missing.append("clients for Python")
    if run := newest_with("network", "network_cycle/"):
        parts["network"] = network_table.beside_work_queues(run)
    else:
        missing.append("work queues over the network")
    return parts


def peers(level: str, run: Run) -> dict[str, list[str]]:
    """The table and the plots of everyone at a level."""
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


def fill(pages: Iterable[Path], parts: dict[str, list[str]]) -> None:
    """Replace what stands between the markers of each part; a part without a place ends the program."""
    remaining = set(parts)

    def part(match: re.Match[str]) -> str:
        remaining.discard(match["name"])
        return match[1] + "\n".join(["", *parts.get(match["name"], NOT_MEASURED), "", ""]) + match[3]

    for page in pages:
        page.write_text(MARKED_PART.sub(part, page.read_text(encoding="utf-8")), encoding="utf-8")
    if remaining:
        names = ", ".join(sorted(remaining))
        raise SystemExit(f"no page has a place for {names}: add <!-- report: NAME -->, then <!-- end of report -->")


if __name__ == "__main__":
    sys.exit(main())
