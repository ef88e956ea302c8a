# SPDX-License-Identifier: Apache-2.0
"""Tables in Markdown: targets, cases beside the ceiling, peers in memory, peers that survive power loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bodies import UNREAD
from targets import (
    AMQP_TARGETS,
    BARE_WRITES,
    CEILING,
    DISK_MEMORY_TARGET,
    DURABLE_ALONE_TARGETS,
    DURABLE_TARGETS,
    FOUR_THREADS,
    LATENCY_TARGETS,
    MEMORY_TARGETS,
    NETWORK_TARGETS,
    OS_SHARE_TARGET,
    OURS,
    PACE_TARGET,
    PEER_TARGETS,
    SPARK_BATCH_TARGET,
    TARGETS,
    TWO_THREADS_TARGET,
    Target,
)

from reporting.loaded import RATE, Row, Run, runs
from reporting.style import short

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

KNOWN = {
    target.text: target
    for group in (
        TARGETS,
        LATENCY_TARGETS,
        MEMORY_TARGETS,
        DURABLE_TARGETS,
        DURABLE_ALONE_TARGETS,
        PEER_TARGETS,
        AMQP_TARGETS,
        NETWORK_TARGETS,
        (PACE_TARGET, DISK_MEMORY_TARGET, TWO_THREADS_TARGET, OS_SHARE_TARGET, SPARK_BATCH_TARGET),
    )
    for target in group
}
ELSEWHERE = (
    ("the lock-free store / its mutex twin, threads on one partition and alone", "`make bench-store` (Rust)"),
    ("two threads on different partitions / one, in Rust", "`make bench-store` (Rust)"),
    ("throughput over 1 to 16 shards whose commits take 5 ms", "`make bench-store` (Rust)"),
)
"""Targets that these programs cannot measure, and where their figures come from."""

MEMORY_COLUMNS = {
    "100 B single": "send_receive_complete/100B/memory_single",
    "1 KiB single": "send_receive_complete/1KiB/memory_single",
    "1 + 1 threads": "send_receive_complete/1KiB/memory_1+1_single",
    "by 100": "send_receive_complete/1KiB/memory_batch_100",
    "2 + 2 threads": "send_receive_complete/1KiB/memory_2+2_single",
    "2 + 2 by 100": "send_receive_complete/1KiB/memory_2+2_batch_100",
}
SYNCED_COLUMNS = {
    "send": "send/1KiB/fsync_single",
    "cycle": "send_receive_complete/1KiB/fsync_single",
    "send by 100": "send/1KiB/fsync_batch_100",
    "cycle by 100": "send_receive_complete/1KiB/fsync_batch_100",
    "2 + 2 threads": "send_receive_complete/1KiB/fsync_2+2_single",
    "2 + 2 by 100": "send_receive_complete/1KiB/fsync_2+2_batch_100",
}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table in Markdown."""
    return [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *(f"| {' | '.join(row)} |" for row in rows)]


def targets() -> list[str]:
    """Each target with the newest figure, whichever run it comes from."""
    newest: dict[str, tuple[Row, Run]] = {}
    for kind in ("memory", "durable", "peers", "amqp"):
        for run in runs(kind):
            for row in filter(_known, run.judged):
                newest.setdefault(row["target"], (row, run))
    if not newest:
        return ["No run has judged a target yet: `make bench`."]
    files = list(dict.fromkeys(run.file for _, run in newest.values()))
    rows = [_target_row(row, files.index(run.file) + 1) for row, run in newest.values()]
    missed = sum("missed" in verdict for *_, verdict, _ in rows)
    lines = [
        f"{len(rows) - missed} of {len(rows)} met, {missed} missed. The runs: "
        + ", ".join(f"[{number}] `{file}`" for number, file in enumerate(files, 1))
        + ".",
        "",
    ]
    rows += [[text, "", "not measured here", where, ""] for text, where in ELSEWHERE]
    return lines + table(["Work", "Wanted", "Measured", "Verdict", "Run"], rows)


def _known(row: Row) -> bool:
    """Whether the target still exists: texts change, and old files stay."""
    text = row["target"]
    return text in KNOWN or text.startswith("backlog of ") or " threads / two, " in text


def _target_row(row: Row, run: int) -> list[str]:
    target = KNOWN.get(row["target"]) or Target(bench_id="", text=row["target"], wanted=row["wanted"])
    found, sign = row["found"], "≥" if target.at_least else "≤"
    if not target.met(found):
        verdict = "**missed**"
    elif target.moonshot is None:
        verdict = "met"
    else:
        moonshot = f"moonshot {sign} {short(target.moonshot)}"
        verdict = f"met, {moonshot} met" if target.moonshot_met(found) else f"met; next: {moonshot}"
    return [target.text, f"{sign} {short(target.wanted)}", _three(found), verdict, f"[{run}]"]


def cases(run: Run) -> list[str]:
    """Every case of ours whose bodies are read, with its share of the ceiling and the rates beside it."""
    rows = []
    ids = dict.fromkeys(row["id"] for row in run.rows if row.get(RATE) and not row.get("sweep"))
    for bench_id in (bench_id for bench_id in ids if not bench_id.endswith(UNREAD)):
        here = {row["contender"]: row for row in run.of(bench_id)}
        for contender, row in here.items():
            if not contender.startswith(OURS):
                continue
            others = [
                f"{name} {short(one[RATE])}" for name, one in here.items() if name != contender and CEILING not in name
            ]
            share = row.get("ratio_to_ceiling")
            spread = row["spread"][RATE]
            rows.append(
                [
                    f"`{bench_id}`" if contender == OURS else f"`{bench_id}`, {contender.removeprefix('oxbus, ')}",
                    f"{short(row[RATE])} ± {50 * spread:.0f} %",
                    f"{share:.2f}" if share is not None else "",
                    "; ".join(others),
                ]
            )
    return [run.about(), "", *table(["Case", "oxbus, per second", "of the ceiling", "beside it"], rows)]


def peers_in_memory(run: Run) -> list[str]:
    """Table 1: everyone at the weakest level it offers."""
    lines = [run.about(), *about_peers(run, "memory"), ""]
    rows = []
    for contender in _contenders(run, MEMORY_COLUMNS.values()):
        cells = [
            _rate_cell(run, bench_id, contender, beside="ratio_to_ceiling") for bench_id in MEMORY_COLUMNS.values()
        ]
        size = _figure(run, "memory/100B/memory", contender, "bytes_per_message")
        p50 = _figure(run, "wake_up/100B/memory_thread", contender, "latency_us_p50")
        p99 = _figure(run, "wake_up/100B/memory_thread", contender, "latency_us_p99")
        cells.append(f"{size:.0f} B" if size is not None else "on disk")
        cells.append(f"{short(p50)} / {short(p99)}" if p50 is not None and p99 is not None else "cannot wait")
        rows.append([contender, *cells])
    head = ["", *MEMORY_COLUMNS, "per 100-byte message", "p50 / p99 send → receive, µs"]
    return [*lines, *table(head, rows), *unavailable(run, "memory")]


def peers_synced(run: Run) -> list[str]:
    """Table 2: everyone that survives power loss."""
    about = run.document["about"]["fsync"]["disk"]
    disk = (
        f"Disk ({about['file_system']}): append 4 KiB + fdatasync {about['append_fdatasync_per_s']:,.0f}/s, "
        f"over 16 files in turn {about['append_fdatasync_16_files_per_s']:,.0f}/s, "
        f"overwrite + fdatasync {about['overwrite_fdatasync_per_s']:,.0f}/s; in brackets: over the appends beside it."
    )
    lines = [run.about(), disk, *about_peers(run, "fsync"), ""]
    rows = []
    for contender in _contenders(run, SYNCED_COLUMNS.values()):
        cells = [_rate_cell(run, bench_id, contender, beside="ratio_to_append") for bench_id in SYNCED_COLUMNS.values()]
        flushes = _figure(run, SYNCED_COLUMNS["cycle"], contender, "flushes_per_message")
        rows.append([contender, *cells, f"{flushes:.1f}" if flushes is not None else ""])
    head = ["1 KiB, messages per second", *SYNCED_COLUMNS, "flushes per message"]
    return [*lines, *table(head, rows), *unavailable(run, "fsync")]


def durable(run: Run) -> list[str]:
    """The run of queues on disk, body size by body size."""
    columns = {
        "send": "send/{}/durable_single",
        "cycle": "send_receive_complete/{}/durable_single",
        "send by 100": "send/{}/durable_batch_100",
        "cycle by 100": "send_receive_complete/{}/durable_batch_100",
        "2 + 2 threads": "send_receive_complete/{}/durable_2+2_single",
        "2 + 2 by 100": "send_receive_complete/{}/durable_2+2_batch_100",
    }
    lines = [run.about()]
    for payload, name in (("100B", "100 bytes"), ("1KiB", "1 KiB")):
        ids = [pattern.format(payload) for pattern in columns.values()]
        rows = [
            [contender, *(_rate_cell(run, bench_id, contender, beside="ratio_to_append") for bench_id in ids)]
            for contender in _contenders(run, ids)
        ]
        if rows:
            lines += ["", *table([name, *columns], rows)]
    return [*lines, *_four_threads(run)]


def _four_threads(run: Run) -> list[str]:
    """Four threads that send at once, beside what the disk takes from four that only write as much."""
    rates = column(run, FOUR_THREADS)
    share = _figure(run, FOUR_THREADS, OURS, "ratio_to_bare_writes")
    if share is None:
        return []
    rows = [[OURS, short(rates[OURS]), f"{share:.2f}"], [BARE_WRITES, short(rates[BARE_WRITES]), "1"]]
    head = ["4 threads by 100, 300 bytes", "messages per second", "of the bare writes"]
    return ["", *table(head, rows)]


def column(run: Run, bench_id: str, figure: str = RATE) -> dict[str, float]:
    """A figure of every contender."""
    return {row["contender"]: row[figure] for row in run.of(bench_id) if row.get(figure)}


def _contenders(run: Run, ids: Iterable[str]) -> list[str]:
    wanted = set(ids)
    return list(dict.fromkeys(row["contender"] for row in run.rows if row["id"] in wanted))


def _figure(run: Run, bench_id: str, contender: str, figure: str) -> float | None:
    for row in run.of(bench_id):
        if row["contender"] == contender and row.get(figure) is not None:
            return float(row[figure])
    return None


def _rate_cell(run: Run, bench_id: str, contender: str, beside: str = "") -> str:
    rate = _figure(run, bench_id, contender, RATE)
    if rate is None:
        return ""
    ratio = _figure(run, bench_id, contender, beside) if beside else None
    return short(rate) + (f" ({short(ratio) if ratio >= 10 else f'{ratio:.2g}'})" if ratio is not None else "")


def about_peers(run: Run, part: str, leave_out: Collection[str] = ()) -> list[str]:
    """Who took part in a part of a run."""
    versions: dict[str, Any] = run.document["about"][part]["versions"]
    told = [f"{name} {version}" for name, version in versions.items() if name not in leave_out]
    return ["Versions: " + ", ".join(told) + "."]


def unavailable(run: Run, part: str) -> list[str]:
    """Who could not take part, and why."""
    reasons: dict[str, str] = run.document["about"][part]["unavailable"]
    if not reasons:
        return []
    return ["", *(f"- Not here: {name}: {reason.splitlines()[0]:.200}" for name, reason in reasons.items())]


def _three(value: float) -> str:
    return short(value) if value >= 1000 else f"{value:.3g}"
