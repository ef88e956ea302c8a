# SPDX-License-Identifier: Apache-2.0
"""The queue cases for peers: the same work by the calls that each peer offers; bodies are read as in oxbus's cases."""

from __future__ import annotations

import queue
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import ceiling
from bodies import read_bytes, read_taken, read_tuple
from peers.peeklock import Message, PeekLockQueue
from targets import CEILING, CEILING_BATCH, PEEKLOCK, SIMPLE_QUEUE

from cases.bus import BATCH, hundreds
from cases.case import Case, expect

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class Peer:
    """A peer's queue and what goes through it."""

    queue: Any
    bodies: list[bytes]
    prepared: Any = None

    @property
    def body_bytes(self) -> int:
        """How long each body is."""
        return len(self.bodies[0])


def _check_sent(state: Peer, _answer: None) -> None:
    expect("messages in the peer", len(state.queue), len(state.bodies))


def _check_drained(state: Peer, count: int) -> None:
    expect("messages received from the peer", count, len(state.bodies))
    expect("messages left in the peer", len(state.queue), 0)


def _send_prepared(state: Peer) -> None:
    send = state.queue.send_many
    for messages in state.prepared:
        send(messages)


# --- PeekLockQueue: written by hand in Python


def _peek_send(state: Peer, at_once: int) -> None:
    bodies = state.bodies
    if at_once == 1:
        send = state.queue.send
        for body in bodies:
            send(Message(body))
        return
    send_many = state.queue.send_many
    for start in range(0, len(bodies), at_once):
        send_many([Message(body) for body in bodies[start : start + at_once]])


def _peek_drain(state: Peer, at_once: int, *, read: bool = True) -> int:
    receive, body_bytes, count = state.queue.receive, state.body_bytes, 0
    if at_once == 1:
        complete = state.queue.complete
        while taken := receive(timeout=0):
            (one,) = taken
            if read:
                read_taken(one, body_bytes)
            complete(one[0])
            count += 1
        return count
    complete_many = state.queue.complete_many
    while taken := receive(at_once, 0):
        if read:
            for one in taken:
                read_taken(one, body_bytes)
        complete_many([token for token, _ in taken])
        count += len(taken)
    return count


def _peek_prepare(state: Peer) -> Peer:
    state.prepared = hundreds([Message(body) for body in state.bodies])
    return state


# --- queue.SimpleQueue: no locks, no acknowledgement, references only


def _simple_cycle(bodies: list[bytes], *, read: bool) -> int:
    simple: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    put, get, body_bytes = simple.put, simple.get_nowait, len(bodies[0])
    for body in bodies:
        put(body)
    for _ in bodies:
        body = get()
        if read:
            read_bytes(body, body_bytes)
    return simple.qsize()


def _simple_check(_state: Any, remaining: int) -> None:
    expect("messages left in SimpleQueue", remaining, 0)


# --- the ceiling: the least a compiled broker can do behind CPython's API


def _ceiling_send(state: Peer, at_once: int) -> None:
    bodies = state.bodies
    if at_once == 1:
        send = state.queue.send
        for body in bodies:
            send(body)
        return
    send_many = state.queue.send_many
    for start in range(0, len(bodies), at_once):
        send_many(bodies[start : start + at_once])


def _ceiling_drain(state: Peer, at_once: int, *, read: bool = True) -> int:
    receive, body_bytes, count = state.queue.receive, state.body_bytes, 0
    if at_once == 1:
        complete = state.queue.complete
        while messages := receive(1):
            (message,) = messages
            if read:
                read_tuple(message, body_bytes)
            complete(message)
            count += 1
        return count
    complete_many = state.queue.complete_many
    while messages := receive(at_once):
        if read:
            for message in messages:
                read_tuple(message, body_bytes)
        complete_many(messages)
        count += len(messages)
    return count


def _ceiling_prepare(state: Peer) -> Peer:
    state.prepared = hundreds(state.bodies)
    return state


# --- the cases


def _cycle(
    send: Callable[[Peer, int], None], drain: Callable[..., int], at_once: int, *, read: bool
) -> Callable[[Peer], int]:
    def run(state: Peer) -> int:
        send(state, at_once)
        return drain(state, at_once, read=read)

    return run


def _filled(send: Callable[[Peer, int], None]) -> Callable[[Peer], Peer]:
    def ready(state: Peer) -> Peer:
        send(state, BATCH)
        return state

    return ready


def _peek_case(bench_id: str, bodies: list[bytes], run: Any, check: Any, ready: Any = lambda state: state) -> Case:
    return Case(bench_id, PEEKLOCK, len(bodies), lambda: ready(Peer(PeekLockQueue(), bodies)), run, check)


def _ceiling_case(
    bench_id: str,
    bodies: list[bytes],
    run: Any,
    check: Any,
    *,
    ready: Any = lambda state: state,
    contender: str = CEILING,
) -> list[Case]:
    compiled = ceiling.load()
    if compiled is None:
        return []
    return [Case(bench_id, contender, len(bodies), lambda: ready(Peer(compiled.Queue(), bodies)), run, check)]


def cycles(bench_id: str, bodies: list[bytes], at_once: int, *, read: bool) -> list[Case]:
    """The peers of an oxbus cycle; `queue.SimpleQueue`, which takes no lists, only where `at_once` is 1."""
    found = [_peek_case(bench_id, bodies, _cycle(_peek_send, _peek_drain, at_once, read=read), _check_drained)]
    if at_once == 1:
        run = partial(_simple_cycle, read=read)
        found.append(Case(bench_id, SIMPLE_QUEUE, len(bodies), lambda: bodies, run, _simple_check))
    return [*found, *ceiling_cycle(bench_id, bodies, at_once, read=read)]


def sends(bodies: list[bytes]) -> list[Case]:
    """The peers of oxbus's sends."""
    single, hundred = "send/100B/single", "send/100B/batch_100"
    made_before = f"{hundred}_made_before"
    by_hundred = partial(_ceiling_send, at_once=BATCH)
    return [
        _peek_case(single, bodies, partial(_peek_send, at_once=1), _check_sent),
        *ceiling_sends(single, bodies),
        _peek_case(hundred, bodies, partial(_peek_send, at_once=BATCH), _check_sent),
        *_ceiling_case(hundred, bodies, by_hundred, _check_sent),
        _peek_case(made_before, bodies, _send_prepared, _check_sent, _peek_prepare),
        *_ceiling_case(made_before, bodies, _send_prepared, _check_sent, ready=_ceiling_prepare),
    ]


def drains(bench_id: str, bodies: list[bytes], *, read: bool = True) -> list[Case]:
    """The peers that drain a filled queue by the hundred."""
    return [
        _peek_case(
            bench_id, bodies, partial(_peek_drain, at_once=BATCH, read=read), _check_drained, _filled(_peek_send)
        ),
        *_ceiling_drains(bench_id, bodies, CEILING, read=read),
    ]


def _ceiling_drains(bench_id: str, bodies: list[bytes], contender: str, *, read: bool = True) -> list[Case]:
    run = partial(_ceiling_drain, at_once=BATCH, read=read)
    return _ceiling_case(bench_id, bodies, run, _check_drained, ready=_filled(_ceiling_send), contender=contender)


def ceiling_cycle(bench_id: str, bodies: list[bytes], at_once: int, *, read: bool = True) -> list[Case]:
    """The ceiling for an oxbus cycle: it does the same without ids, sessions and rules."""
    return _ceiling_case(bench_id, bodies, _cycle(_ceiling_send, _ceiling_drain, at_once, read=read), _check_drained)


def ceiling_sends(bench_id: str, bodies: list[bytes]) -> list[Case]:
    """The ceiling for single sends of oxbus."""
    return _ceiling_case(bench_id, bodies, partial(_ceiling_send, at_once=1), _check_sent)


def ceiling_by_hundred(bench_id: str, bodies: list[bytes], *, sends: bool) -> list[Case]:
    """The ceiling with lists of 100, either sent or received and completed, to compare with our columns."""
    if not sends:
        return _ceiling_drains(bench_id, bodies, CEILING_BATCH)
    by_hundred = partial(_ceiling_send, at_once=BATCH)
    return _ceiling_case(bench_id, bodies, by_hundred, _check_sent, contender=CEILING_BATCH)
