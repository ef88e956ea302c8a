# SPDX-License-Identifier: Apache-2.0
"""The programs behind the figures of namespaces in stores: requests are counted right, and bare creations are taken."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import TYPE_CHECKING

import engine_azurite
import pytest
import results_file
import run
from durable import measure
from engine_postgres import has_postgres
from engine_s3 import has_versitygw
from peers.contract import UnavailableError
from reporting import stored_table
from stored import bare_puts, counts
from stored.counting_proxy import kind_of
from stored.places import AZURITE, PLACES, STORES, VERSITYGW, Place
from stored.prices import PRICES
from stored.queues import declare, in_this_program
from stored.requests_of_stores import creation_of
from stored_server import wait_until
from suites import SUITES
from suites.stored import SUITE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from stored_server import StoredPlace

pytestmark = pytest.mark.timeout(600)

IS_THERE = {"PostgreSQL": has_postgres, "Azurite": engine_azurite.has_azurite, "versitygw": has_versitygw}


@contextlib.contextmanager
def running(kind: Place) -> Iterator[StoredPlace]:
    """An empty place, if its engine is installed: a test fetches nothing."""
    if not IS_THERE[kind.name]():
        pytest.skip(f"{kind.name} is not installed")
    with kind.run() as place:
        yield place


def test_kinds_of_requests() -> None:
    """What a price list tells apart."""
    assert kind_of(b"PUT /a HTTP/1.1\r\nIf-None-Match: *\r\n\r\n") == "creates"
    assert kind_of(b'PUT /a HTTP/1.1\r\nif-match: "1"\r\n\r\n') == "swaps"
    assert kind_of(b"GET /a HTTP/1.1\r\n\r\n") == "reads"
    assert kind_of(b"HEAD /a HTTP/1.1\r\n\r\n") == "reads"
    assert kind_of(b"GET /a?list-type=2&prefix=b HTTP/1.1\r\n\r\n") == "lists"
    assert kind_of(b"GET /a?restype=container&comp=list HTTP/1.1\r\n\r\n") == "lists"
    assert kind_of(b"DELETE /a HTTP/1.1\r\n\r\n") == "deletes"
    assert kind_of(b"POST /a?restype=container&comp=batch HTTP/1.1\r\n\r\n") == "batches"


def test_dollars_of_requests() -> None:
    """A million creations cost five dollars at half a cent per thousand; bytes count where they are charged."""
    standard, express = PRICES[0], PRICES[1]
    assert standard.dollars({"creates": 1e6, "deletes": 1e6}) == pytest.approx(5)
    assert standard.dollars({"reads": 1e6}) == pytest.approx(0.4)
    assert express.dollars({"creates": 1e6, "bytes_up": 100 << 30}) == pytest.approx(1.13 + 0.32)


@pytest.mark.parametrize("kind", [AZURITE, VERSITYGW], ids=lambda kind: kind.name)
def test_requests_are_counted_on_their_way(kind: Place) -> None:
    """Each acknowledged list needs an object; nothing changes for the namespace."""
    with running(kind) as place, counts.counted(kind, place) as (through, asked), in_this_program(through) as queue:
        before = asked()
        for _ in range(10):
            queue.send_many([b"a message."] * 100)
        found = asked() - before
        assert found["creates"] >= 10
        assert found["bytes_up"] >= 10 * 1000
        assert asked()["lists"] >= 1  # the open looked
        assert asked()["others"] == asked()["other_puts"] == 0
        assert len(queue.receive(100, 10)) == 100


def test_rows_are_counted_by_postgres() -> None:
    """It tells inserted, updated and deleted ones apart."""
    with running(STORES[0]) as place, counts.counted(STORES[0], place) as (through, asked):
        assert asked() == Counter()
        with in_this_program(through) as queue:
            for _ in range(10):
                queue.send_many([b"a message."] * 100)
        wait_until(lambda: asked()["creates"] >= 10, "a count of ten rows")


@pytest.mark.parametrize("kind", STORES, ids=lambda kind: kind.name)
def test_bare_creations_are_taken(kind: Place) -> None:
    """The store accepts the bytes that are sent, under new keys."""
    with running(kind) as place:
        declare(place)
        samples = bare_puts.times(creation_of(kind, place, b"x" * 100_000), 2, 0.2)
    assert len(samples) >= 2


def test_a_refused_creation_is_an_error() -> None:
    """A store that refuses quickly would look fast."""
    with running(AZURITE) as place:
        options = {**place.options, "account_key": "bm8="}
        wrong = creation_of(AZURITE, type(place)(place.url, options), b"x")
        with pytest.raises(RuntimeError, match="refused a bare creation"):
            bare_puts.times(wrong, 1, 0.1)


def test_the_size_of_an_object() -> None:
    """A list of 100 messages of 1 KiB is one object, somewhat larger than its bodies."""
    assert 100 << 10 < bare_puts.object_bytes() < 130 << 10


@pytest.mark.whole_suite
def test_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours runs every case of a target; the brokers are left out, as they take minutes to start."""
    for name, is_there in IS_THERE.items():
        if not is_there():
            pytest.skip(f"{name} is not installed")
    monkeypatch.setattr(measure, "SCRATCH", tmp_path)
    file = tmp_path / "stored.json"
    words = ["--suite", "stored", "--contender", "nobody", "--rounds", "1", "--scale", "0.001", "--output", str(file)]
    assert run.main(words) == 0
    found = results_file.read(file)
    assert not any(part["unavailable"] for part in found.about["stored"].values())
    cases = {row.case for row in found.rows}
    assert {target.case for target in SUITE.targets} <= cases
    assert {verdict.target for verdict in found.verdicts} == {target.text for target in SUITES["stored"].targets}
    drawn = "\n".join(stored_table.in_stores(found))
    assert all(place.name in drawn for place in PLACES)


def test_an_engine_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line in the output, and no error."""
    monkeypatch.setattr(engine_azurite, "has_azurite", lambda: False)
    with pytest.raises(UnavailableError, match="make engines"), AZURITE.run():
        pass
