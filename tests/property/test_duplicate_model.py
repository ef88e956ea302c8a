# SPDX-License-Identifier: Apache-2.0
"""Duplicate detection against a plain model: a dict from id to time (B-218 to B-231)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import oxbus
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.management import ServiceBusAdministrationClient
from oxbus.testing import ManualClock

WINDOW_SECONDS = 60

IDS = st.sampled_from(["a", "b", "A", "c", None])
KEYS = st.sampled_from([None, "a", "k", "l"])
MESSAGES = st.tuples(IDS, KEYS, st.sampled_from([None, 30, 90]))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), MESSAGES),
        st.tuples(st.just("batch"), KEYS, st.lists(IDS, max_size=6)),
        st.tuples(st.just("advance"), st.sampled_from([1, 29, 30, 59, 60, 61])),
        st.tuples(st.just("take"), st.booleans()),
        st.tuples(st.just("reopen")),
    ),
    max_size=40,
)


class Model:
    """The accepted messages and remembered ids of a queue with duplicate detection."""

    def __init__(self, *, partitioned: bool) -> None:
        self.partitioned = partitioned
        self.now = 0
        self.seen: dict[tuple[str | None, str], int] = {}
        self.stored: list[str] = []

    def accepts(self, message_id: str | None, key: str | None) -> bool:
        """Return whether a message is new, and remember it."""
        if message_id is None:
            return True
        identity = ((key or message_id) if self.partitioned else None, message_id)
        since = self.seen.get(identity)
        if since is not None and self.now < since + WINDOW_SECONDS:
            return False
        self.seen[identity] = self.now
        return True


class Subject:
    """The queue under test, in memory or in a directory."""

    def __init__(self, path: str | None, *, partitioned: bool) -> None:
        self.path = path
        self.clock = ManualClock()
        self.sent = 0
        self._open()
        ServiceBusAdministrationClient(self.namespace).create_queue(
            "q",
            enable_partitioning=partitioned,
            requires_duplicate_detection=True,
            duplicate_detection_history_time_window=timedelta(seconds=WINDOW_SECONDS),
        )

    def _open(self) -> None:
        options: dict[str, Any] = {} if self.path is None else {"durability": "os"}
        self.namespace = Namespace(self.path, partitions=3, clock=self.clock, **options)
        self.client = ServiceBusClient(self.namespace)

    def reopen(self) -> None:
        """Close and reopen the namespace if it is in a directory."""
        if self.path is not None:
            self.namespace.close()
            self._open()

    def message(self, message_id: str | None, key: str | None) -> ServiceBusMessage:
        """A message with a unique body."""
        self.sent += 1
        return ServiceBusMessage(str(self.sent), message_id=message_id, partition_key=key)

    def bodies(self) -> list[str]:
        """The bodies in the queue, sorted."""
        with self.client.get_queue_receiver("q") as receiver:
            found = []
            while page := receiver.peek_messages(100, sequence_number=0):
                found += [str(each) for each in page]
            return sorted(found)


def play(subject: Subject, model: Model, steps: list[Any]) -> None:
    """Apply each step to both, then compare their contents."""
    for step in steps:
        if step[0] == "send":
            message_id, key, delay = step[1]
            message = subject.message(message_id, key)
            with subject.client.get_queue_sender("q") as sender:
                if model.partitioned and message_id is None and key is None:
                    with pytest.raises(oxbus.exceptions.InvalidOperationError):
                        sender.send_messages(message)
                    continue
                if delay is None:
                    sender.send_messages(message)
                else:
                    sender.schedule_messages(message, subject.clock.now() + timedelta(seconds=delay))
            if model.accepts(message_id, key):
                model.stored.append(str(message))
        elif step[0] == "batch":
            key, ids = step[1] or "k", step[2]
            messages = [subject.message(message_id, key) for message_id in ids]
            with subject.client.get_queue_sender("q") as sender:
                sender.send_messages(messages)
            new = zip(ids, messages, strict=True)
            model.stored += [str(message) for message_id, message in new if model.accepts(message_id, key)]
        elif step[0] == "advance":
            subject.clock.advance(step[1])
            model.now += step[1]
        elif step[0] == "take":
            with subject.client.get_queue_receiver("q") as receiver:
                for message in receiver.receive_messages(5, max_wait_time=0):
                    model.stored.remove(str(message))
                    (receiver.complete_message if step[1] else receiver.dead_letter_message)(message)
        else:
            subject.reopen()
        assert subject.bodies() == sorted(model.stored)


@given(steps=STEPS, partitioned=st.booleans())
def test_in_memory(steps: list[Any], partitioned: bool) -> None:
    """A queue in memory has the messages of the model."""
    subject = Subject(None, partitioned=partitioned)
    play(subject, Model(partitioned=partitioned), steps)
    subject.namespace.close()


@given(steps=STEPS, partitioned=st.booleans())
def test_in_a_directory(tmp_path_factory: pytest.TempPathFactory, steps: list[Any], partitioned: bool) -> None:
    """A queue in a directory has the messages of the model, also after it is reopened."""
    subject = Subject(str(tmp_path_factory.mktemp("bus") / "bus"), partitioned=partitioned)
    play(subject, Model(partitioned=partitioned), steps)
    subject.namespace.close()
