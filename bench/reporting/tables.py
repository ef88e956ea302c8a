# SPDX-License-Identifier: Apache-2.0
"""Tables in Markdown: targets, cases beside the ceiling, peers in memory, peers that survive power loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bodies import UNREAD
from metrics import RATE
from results_file import newest_first
from targets import ASYNCIO, BARE_WRITES, CEILING, CORE_TARGETS, OURS, SPARK_TARGETS
from targets_in_stores import STORED_TARGETS
from targets_of_servers import AMQP_TARGETS, CLIENT_TARGETS, NETWORK_TARGETS
from targets_on_disk import DURABLE_TARGETS, FOUR_THREADS, PEER_TARGETS

from reporting.about import about
from reporting.style import short

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from results_file import Run, Verdict
    from targets import Target

BY_SUITE: dict[str, Sequence[Target]] = {
    "core": CORE_TARGETS,
    "spark": SPARK_TARGETS,
    "durable": DURABLE_TARGETS,
    "stored": STORED_TARGETS,
    "peers": PEER_TARGETS,
    "network": NETWORK_TARGETS,
    "amqp": AMQP_TARGETS,
    "client": CLIENT_TARGETS,
}
KNOWN = {target.text: target for targets in BY_SUITE.values() for target in targets}
"""Texts change, and old files stay."""
ELSEWHERE = (
    ("the lock-free store / its mutex twin, threads on one partition and alone", "`cargo bench -p oxbus-bench`"),
    ("two threads on different partitions / one, in Rust", "`cargo bench -p oxbus-bench`"),
    ("throughput over 1 to 16 shards whose commits take 5 ms", "`cargo bench -p oxbus-bench`"),
)
"""Targets that these programs cannot measure, and where their figures come from."""

OF_CEILING = "share of the ceiling"
"""Stands for a metric; it follows from the rates."""
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
    newest: dict[str, tuple[Verdict, Run]] = {}
    for run in newest_first():
        for verdict in run.verdicts:
            if verdict.target in KNOWN:
                newest.setdefault(verdict.target, (verdict, run))
    if not newest:
        return ["No run has judged a target yet: `make bench`."]
    ordered = sorted(newest.values(), key=lambda one: list(BY_SUITE).index(one[0].suite))
    files = list(dict.fromkeys(run.file for _, run in ordered))
    rows = [_target_row(verdict, files.index(run.file) + 1) for verdict, run in ordered]
    missed = sum("missed" in judged for *_, judged, _ in rows)
    lines = [
        f"{len(rows) - missed} of {len(rows)} met, {missed} missed. The runs: "
        + ", ".join(f"[{number}] `{file}`" for number, file in enumerate(files, 1))
        + ".",
        "",
    ]
    rows += [[text, "", "not measured here", where, ""] for text, where in ELSEWHERE]
    return lines + table(["Work", "Wanted", "Measured", "Verdict", "Run"], rows)


def _target_row(judged: Verdict, run: int) -> list[str]:
    target, found = KNOWN[judged.target], judged.found
    sign = "≥" if target.at_least else "≤"
    if not target.met(found):
        verdict = "**missed**"
    elif target.moonshot is None:
        verdict = "met"
    else:
        moonshot = f"moonshot {sign} {short(target.moonshot)}"
        verdict = f"met, {moonshot} met" if target.moonshot_met(found) else f"met; next: {moonshot}"
    return [target.text, f"{sign} {short(target.wanted)}", _three(found), verdict, f"[{run}]"]


def cases(run: Run) -> list[str]:
    """Every case of ours whose bodies are read, with its share of the ceiling and the rates beside it.

    Those of asyncio have a table of their own.
    """
    rows = []
    ids = dict.fromkeys(row.case for row in run.rows if row.suite == "core" and row.get(RATE) and not row.point)
    for case in (case for case in ids if not case.endswith(UNREAD) and not case.startswith(ASYNCIO)):
        here = {row.contender: row for row in run.of(case)}
        for contender, row in here.items():
            if not contender.startswith(OURS):
                continue
            others = [
                f"{name} {short(one[RATE])}" for name, one in here.items() if name != contender and CEILING not in name
            ]
            share = run.share_of_ceiling(row)
            rows.append(
                [
                    f"`{case}`" if contender == OURS else f"`{case}`, {contender.removeprefix('oxbus, ')}",
                    f"{short(row[RATE])} ± {50 * row.spread():.0f} %",
                    f"{share:.2f}" if share is not None else "",
                    "; ".join(others),
                ]
            )
    return [
        about(run, "core"),
        "",
        *table(["Case", "oxbus, per second", "ratio to the ceiling", "others, per second"], rows),
    ]


def peers_in_memory(run: Run) -> list[str]:
    """Table 1: everyone at the weakest level it offers."""
    lines = [about(run, "peers"), *about_peers(run, "peers", "memory"), ""]
    rows = []
    for contender in _contenders(run, MEMORY_COLUMNS.values()):
        cells = [_rate_cell(run, case, contender, beside=OF_CEILING) for case in MEMORY_COLUMNS.values()]
        size = _figure(run, "memory/100B/memory", contender, "bytes_per_message")
        p50 = _figure(run, "wake_up/100B/memory_thread", contender, "latency_us_p50")
        p99 = _figure(run, "wake_up/100B/memory_thread", contender, "latency_us_p99")
        cells.append(f"{size:.0f} B" if size is not None else "on disk")
        cells.append(f"{short(p50)} / {short(p99)}" if p50 is not None and p99 is not None else "cannot wait")
        rows.append([contender, *cells])
    head = ["", *MEMORY_COLUMNS, "per 100-byte message", "p50 / p99 send → receive, µs"]
    return [*lines, *table(head, rows), *unavailable(run, "peers", "memory")]


def peers_synced(run: Run) -> list[str]:
    """Table 2: everyone that survives power loss."""
    disk_of = run.about["peers"]["fsync"]["disk"]
    disk = (
        f"Disk ({disk_of['file_system']}): append 4 KiB + fdatasync {disk_of['append_fdatasync_per_s']:,.0f}/s, "
        f"over 16 files in turn {disk_of['append_fdatasync_16_files_per_s']:,.0f}/s, "
        f"overwrite + fdatasync {disk_of['overwrite_fdatasync_per_s']:,.0f}/s; "
        "in brackets: ratio to the appends of the same run."
    )
    lines = [about(run, "peers"), disk, *about_peers(run, "peers", "fsync"), ""]
    rows = []
    for contender in _contenders(run, SYNCED_COLUMNS.values()):
        cells = [_rate_cell(run, case, contender, beside="ratio_to_append") for case in SYNCED_COLUMNS.values()]
        flushes = _figure(run, SYNCED_COLUMNS["cycle"], contender, "flushes_per_message")
        rows.append([contender, *cells, f"{flushes:.1f}" if flushes is not None else ""])
    head = ["1 KiB, messages per second", *SYNCED_COLUMNS, "flushes per message"]
    return [*lines, *table(head, rows), *unavailable(run, "peers", "fsync")]


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
    lines = [about(run, "durable")]
    for payload, name in (("100B", "100 bytes"), ("1KiB", "1 KiB")):
        ids = [pattern.format(payload) for pattern in columns.values()]
        rows = [
            [contender, *(_rate_cell(run, case, contender, beside="ratio_to_append") for case in ids)]
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


def column(run: Run, case: str, figure: str = RATE) -> dict[str, float]:
    """A figure of every contender."""
    return {row.contender: row[figure] for row in run.of(case) if row.get(figure)}


def _contenders(run: Run, ids: Iterable[str]) -> list[str]:
    wanted = set(ids)
    return list(dict.fromkeys(row.contender for row in run.rows if row.case in wanted))


def _figure(run: Run, case: str, contender: str, figure: str) -> float | None:
    for row in run.of(case):
        if row.contender == contender:
            return run.share_of_ceiling(row) if figure == OF_CEILING else row.get(figure)
    return None


def _rate_cell(run: Run, case: str, contender: str, beside: str = "") -> str:
    rate = _figure(run, case, contender, RATE)
    if rate is None:
        return ""
    ratio = _figure(run, case, contender, beside) if beside else None
    return short(rate) + (f" ({short(ratio) if ratio >= 10 else f'{ratio:.2g}'})" if ratio is not None else "")


def about_peers(run: Run, suite: str, part: str, leave_out: Collection[str] = ()) -> list[str]:
    """The contenders of a part of a run."""
    versions: dict[str, Any] = run.about[suite][part]["versions"]
    shown = [f"{name} {version}" for name, version in versions.items() if version and name not in leave_out]
    return ["Versions: " + "; ".join(shown) + "."]


def unavailable(run: Run, suite: str, part: str) -> list[str]:
    """The contenders that could not take part, and why."""
    reasons: dict[str, str] = run.about[suite][part]["unavailable"]
    if not reasons:
        return []
    return ["", *(f"- Not here: {name}: {reason.splitlines()[0]:.200}" for name, reason in reasons.items())]


def _three(value: float) -> str:
    return short(value) if value >= 1000 else f"{value:.3g}"
