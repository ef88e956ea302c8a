# SPDX-License-Identifier: Apache-2.0
"""The peers' side of the queue cases: the same work, done with what each peer offers."""

from __future__ import annotations

import queue
from dataclasses import dataclass
from typing import Any

import ceiling
from peers.peeklock import Message, PeekLockQueue
from targets import CEILING, CEILING_BATCH

from cases.bus import BATCH, bodies_of, hundreds
from cases.case import Case, expect


@dataclass
class Peer:
    """A peer's queue and what goes through it."""

    queue: Any
    bodies: list[bytes]
    prepared: Any = None


def _peek_send_single(state: Peer) -> None:
    send = state.queue.send
    for body in state.bodies:
        send(Message(body))


def _peek_send_by_hundred(state: Peer) -> None:
    send, bodies = state.queue.send_many, state.bodies
    for start in range(0, len(bodies), BATCH):
        send([Message(body) for body in bodies[start : start + BATCH]])


def _peek_prepare(state: Peer) -> Peer:
    state.prepared = hundreds([Message(body) for body in state.bodies])
    return state


def _peek_send_made_before(state: Peer) -> None:
    send = state.queue.send_many
    for messages in state.prepared:
        send(messages)


def _peek_filled(state: Peer) -> Peer:
    _peek_send_by_hundred(state)
    return state


def _peek_drain_single(state: Peer) -> int:
    receive, complete, count = state.queue.receive, state.queue.complete, 0
    while taken := receive(timeout=0):
        complete(taken[0][0])
        count += 1
    return count


def _peek_drain_by_hundred(state: Peer) -> int:
    receive, complete, count = state.queue.receive, state.queue.complete_many, 0
    while taken := receive(BATCH, 0):
        complete([token for token, _ in taken])
        count += len(taken)
    return count


def _peek_cycle_single(state: Peer) -> int:
    _peek_send_single(state)
    return _peek_drain_single(state)


def _peek_cycle_single_read(state: Peer) -> int:
    _peek_send_single(state)
    receive, complete, count = state.queue.receive, state.queue.complete, 0
    while taken := receive(timeout=0):
        token, message = taken[0]
        count += len(message.body) > 0
        complete(token)
    return count


def _peek_cycle_by_hundred(state: Peer) -> int:
    _peek_send_by_hundred(state)
    return _peek_drain_by_hundred(state)


def _peek_check_sent(state: Peer, _answer: None) -> None:
    expect("messages in the peer", len(state.queue), len(state.bodies))


def _peek_check_drained(state: Peer, count: int) -> None:
    expect("messages received from the peer", count, len(state.bodies))
    expect("messages left in the peer", len(state.queue), 0)


# --- queue.SimpleQueue: no locks, no acknowledgement, references only


def _simple_cycle(bodies: list[bytes]) -> int:
    simple: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    put, get = simple.put, simple.get_nowait
    for body in bodies:
        put(body)
    for _ in bodies:
        get()
    return simple.qsize()


def _simple_check(_state: Any, left: int) -> None:
    expect("messages left in SimpleQueue", left, 0)


# --- the ceiling: the least a compiled broker can do behind CPython's API


def _ceiling_cycle_single(state: Peer) -> int:
    send, receive, complete, count = state.queue.send, state.queue.receive, state.queue.complete, 0
    for body in state.bodies:
        send(body)
    while messages := receive(1):
        complete(messages[0])
        count += 1
    return count


def _ceiling_cycle_by_hundred(state: Peer) -> int:
    send, receive, complete, count = state.queue.send_many, state.queue.receive, state.queue.complete_many, 0
    for start in range(0, len(state.bodies), BATCH):
        send(state.bodies[start : start + BATCH])
    while messages := receive(BATCH):
        complete(messages)
        count += len(messages)
    return count


def _ceiling_send_single(state: Peer) -> None:
    send = state.queue.send
    for body in state.bodies:
        send(body)


def _ceiling_send_by_hundred(state: Peer) -> None:
    send, bodies = state.queue.send_many, state.bodies
    for start in range(0, len(bodies), BATCH):
        send(bodies[start : start + BATCH])


def _ceiling_send_made_before(state: Peer) -> None:
    send = state.queue.send_many
    for bodies in state.prepared:
        send(bodies)


def _ceiling_prepare(state: Peer) -> Peer:
    state.prepared = hundreds(state.bodies)
    return state


def _ceiling_filled(state: Peer) -> Peer:
    _ceiling_send_by_hundred(state)
    return state


def _ceiling_drain_by_hundred(state: Peer) -> int:
    receive, complete, count = state.queue.receive, state.queue.complete_many, 0
    while messages := receive(BATCH):
        complete(messages)
        count += len(messages)
    return count


# --- the cases


def _peek_case(bench_id: str, bodies: list[bytes], run: Any, check: Any, ready: Any = lambda state: state) -> Case:
    return Case(bench_id, "PeekLock in Python", len(bodies), lambda: ready(Peer(PeekLockQueue(), bodies)), run, check)


def _simple_case(bench_id: str, bodies: list[bytes]) -> Case:
    return Case(bench_id, "queue.SimpleQueue", len(bodies), lambda: bodies, _simple_cycle, _simple_check)


def _ceiling_case(
    bench_id: str,
    bodies: list[bytes],
    run: Any,
    check: Any = _peek_check_drained,
    *,
    ready: Any = lambda state: state,
    contender: str = CEILING,
) -> list[Case]:
    compiled = ceiling.load()
    if compiled is None:
        return []
    return [Case(bench_id, contender, len(bodies), lambda: ready(Peer(compiled.Queue(), bodies)), run, check)]


def ceiling_cycle(bench_id: str, bodies: list[bytes], shape: str) -> list[Case]:
    """The ceiling beside a cycle of ours: it knows neither ids nor sessions nor rules, and does the rest."""
    return _ceiling_case(bench_id, bodies, _ceiling_cycle_single if shape == "single" else _ceiling_cycle_by_hundred)


def ceiling_sends(bench_id: str, bodies: list[bytes]) -> list[Case]:
    """The ceiling beside single sends of ours."""
    return _ceiling_case(bench_id, bodies, _ceiling_send_single, _peek_check_sent)


def ceiling_by_hundred(bench_id: str, bodies: list[bytes], *, sends: bool) -> list[Case]:
    """The ceiling's lists of 100, sent or received and completed, beside columns of ours."""
    if sends:
        return _ceiling_case(bench_id, bodies, _ceiling_send_by_hundred, _peek_check_sent, contender=CEILING_BATCH)
    return _ceiling_case(
        bench_id, bodies, _ceiling_drain_by_hundred, _peek_check_drained, ready=_ceiling_filled, contender=CEILING_BATCH
    )


def cases(messages: int) -> list[Case]:
    """The peers' share of the cases in `queueing`."""
    found: list[Case] = []
    for size, payload in ((100, "100B"), (1024, "1KiB")):
        bodies = bodies_of(size, messages)
        cycle, hundred = f"send_receive_complete/{payload}/single", f"send_receive_complete/{payload}/batch_100"
        found += [
            _peek_case(cycle, bodies, _peek_cycle_single, _peek_check_drained),
            _simple_case(cycle, bodies),
            *_ceiling_case(cycle, bodies, _ceiling_cycle_single),
            _peek_case(hundred, bodies, _peek_cycle_by_hundred, _peek_check_drained),
            *_ceiling_case(hundred, bodies, _ceiling_cycle_by_hundred),
        ]
    bodies = bodies_of(100, messages)
    made_before, drained = "send/100B/batch_100_made_before", "receive_complete/100B/batch_100"
    read = "send_receive_complete/100B/single_body_read"
    return [
        *found,
        _peek_case(read, bodies, _peek_cycle_single_read, _peek_check_drained),
        *ceiling_cycle(read, bodies, "single"),
        _peek_case("send/100B/single", bodies, _peek_send_single, _peek_check_sent),
        *ceiling_sends("send/100B/single", bodies),
        _peek_case("send/100B/batch_100", bodies, _peek_send_by_hundred, _peek_check_sent),
        *_ceiling_case("send/100B/batch_100", bodies, _ceiling_send_by_hundred, _peek_check_sent),
        _peek_case(made_before, bodies, _peek_send_made_before, _peek_check_sent, _peek_prepare),
        *_ceiling_case(made_before, bodies, _ceiling_send_made_before, _peek_check_sent, ready=_ceiling_prepare),
        _peek_case(drained, bodies, _peek_drain_by_hundred, _peek_check_drained, _peek_filled),
        *_ceiling_case(drained, bodies, _ceiling_drain_by_hundred, _peek_check_drained, ready=_ceiling_filled),
    ]
