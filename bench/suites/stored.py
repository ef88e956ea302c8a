# SPDX-License-Identifier: Apache-2.0
"""Namespaces in stores beside the bare stores, and beside brokers of three nodes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from importlib import metadata
from typing import TYPE_CHECKING

from cases.case import WrongAnswerError
from peers.contract import UnavailableError
from plan import OPEN_MESSAGES
from stored import bare_puts, bills, failover, links, opening, sends
from stored.contenders import CLUSTERS, contenders, name_of, served_name_of
from stored.places import PLACES, STORES, VERSITYGW
from targets import OURS
from targets_in_stores import STORED_TARGETS
from turns import Found, Group, Turn

from suites.suite import Suite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from plan import Plan

REGION_SECONDS = 0.03
"""How long a PUT to object storage of the standard class takes, about: the number of objects depends on it."""


def _group(
    part: str, turns: list[Turn], rounds_max: int | None = None, versions: dict[str, str] | None = None
) -> Iterator[Group]:
    if turns:
        versions = {} if versions is None else versions
        versions[OURS] = metadata.version("oxbus")
        guarded = [replace(turn, measure=partial(_or_unavailable, turn)) for turn in turns]
        yield Group(part, guarded, rounds_max, versions)


def _or_unavailable(turn: Turn) -> Iterator[Found]:
    """What a turn finds. A server that fails in a way of its own is left out, and the run of an hour goes on."""
    try:
        yield from turn.measure()
    except (UnavailableError, WrongAnswerError):
        raise
    except Exception as error:
        raise UnavailableError(f"{type(error).__name__}: {error}") from error


def _sends(plan: Plan) -> Iterator[Group]:
    """One at a time, in lists, received and completed."""
    cases = (*bare_puts.CASES.values(), sends.SINGLE, sends.ONE_THREAD, sends.FOUR_THREADS, sends.RECEIVE)
    if any(plan.wants("sends", case) for case in cases):
        versions: dict[str, str] = {}
        turns = [Turn(one.name, partial(sends.figures, one, plan, versions)) for one in contenders()]
        yield from _group("sends", turns, versions=versions)


def _links(plan: Plan) -> Iterator[Group]:
    """Many senders of one connection to a server."""
    over = [(place, 0.0) for place in STORES] + [(VERSITYGW, REGION_SECONDS)]
    turns = [
        Turn(bills.name_with_delay(place, delay), partial(links.figures, place, delay, plan))
        for place, delay in over
        if plan.wants("links", links.CASE)
    ]
    yield from _group("links", turns, 1)


def _bounded(plan: Plan) -> Iterator[Group]:
    """Creations per second, bounded by an option."""
    turns = [
        Turn(name_of(place), partial(bills.bounded, place, threads, plan))
        for threads, case in bills.BOUNDED.items()
        for place in STORES
        if plan.wants("bounded", case)
    ]
    yield from _group("bounded", turns)


def _failover(plan: Plan) -> Iterator[Group]:
    """Without an owner or a leader."""
    turns: list[Turn] = []
    if any(plan.wants("failover", case) for case in failover.SIGNALS):
        turns = [Turn(served_name_of(place), partial(failover.of_place, place, plan)) for place in STORES]
    if plan.wants("failover", failover.KILLED):
        turns += [Turn(shown, partial(failover.of_cluster, module, name)) for module, name, shown in CLUSTERS]
    yield from _group("failover", turns)


def _requests(plan: Plan) -> Iterator[Group]:
    """What a load asks the store for, and what that costs."""
    over = [(place, 0.0) for place in STORES] + [(VERSITYGW, REGION_SECONDS)]
    turns = [
        Turn(bills.name_with_delay(place, delay), partial(bills.bill, place, delay, case, plan))
        for case in bills.LOADS
        if plan.wants("requests", case)
        for place, delay in over
    ]
    yield from _group("requests", turns, 1)


def _open(plan: Plan) -> Iterator[Group]:
    """What a server left that was filled."""
    messages = plan.of(plan.open_messages)
    # The target is of a million.
    ending = "" if plan.open_messages == OPEN_MESSAGES else f"_{plan.open_messages}"
    turns = [
        Turn(name_of(place), partial(opening.figures, place, case, messages, ending))
        for case in opening.CASES
        if plan.wants("open", case)
        for place in PLACES
    ]
    yield from _group("open", turns, 1)


SUITE = Suite(
    name="stored",
    text="namespaces in stores, the bare stores, and brokers of three nodes",
    rounds=3,
    parts={
        "sends": _sends,
        "links": _links,
        "bounded": _bounded,
        "failover": _failover,
        "requests": _requests,
        "open": _open,
    },
    targets=STORED_TARGETS,
)
