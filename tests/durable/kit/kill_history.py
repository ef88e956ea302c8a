# SPDX-License-Identifier: Apache-2.0
"""The checker of the kill test: does a history of calls, acknowledgements and audits of one queue keep the promises?

A history is a list of records, in the order in which they were written:

- `try`: a call starts; `ack`: it returned, with the messages it returned; `fail`: it raised;
- `end`: the process ended, by a kill or a close, and its locks ended too;
- `audit`: all messages of the queue and its dead-letter queue, and the counts, while no other client uses them.

For each message the checker keeps the places where it may be, each with the lowest and highest delivery count.
A call without an acknowledgement leaves two possibilities; later observations decide between them for good.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kill_messages import REASON, expected_digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Record = dict[str, Any]
Range = tuple[int, int]
SETTLEMENTS = {"complete", "abandon", "defer", "dead_letter"}
DELIVERIES = {"receive": ("ready", 0, "held"), "take": ("ready", 0, "gone"), "fetch": ("deferred", 1, "held deferred")}
"""For each call: the message's state before it, the increase of its count, its state after it."""

GONE = {"absent", "gone", "taken"}
"""Never stored, settled for good, or perhaps received and deleted by a call that never returned."""

LOW_48_BITS = (1 << 48) - 1


@dataclass
class Message:
    """The possible states of one message."""

    uid: str
    key: str
    batch: list[str]
    tried: int
    possible: dict[str, Range]
    done: int | None = None
    number: int | None = None

    def describe(self) -> str:
        """The places where the message may be, for a report."""
        return f"{self.uid}, which may be {self.possible}"

    def add(self, state: str, low: int, high: int) -> None:
        """Allow one more place with a range of counts."""
        old = self.possible.get(state, (low, high))
        self.possible[state] = (min(low, old[0]), max(high, old[1]))

    def settle(self, verb: str, *, certain: bool) -> None:
        """Apply a settlement that happened or, if it is not certain, may have happened."""
        before = self.possible
        self.possible = {} if certain else dict(before)
        for state, (low, high) in before.items():
            fetched = state == "held deferred"
            if state not in {"held", "held deferred"}:
                self.add(state, low, high)
            elif verb == "complete":
                self.add("gone", 0, 0)
            elif verb == "dead_letter":
                self.add("dead", low, high)
            elif verb == "defer" or fetched:
                self.add("deferred", low, high)
            else:
                self.add("ready", low + 1, high + 1)

    def end_run(self, *, received: bool, taken: bool, fetched: bool) -> None:
        """The process ended: locks are free and their deliveries count; calls in flight may have happened."""
        before, self.possible = self.possible, {}
        for state, (low, high) in before.items():
            if state == "held":
                self.add("ready", low + 1, high + 1)
            elif state == "held deferred":
                self.add("deferred", low, high)
            elif state == "ready":
                self.add("ready", low, high + received)
                if taken:
                    self.add("taken", 0, 0)
            elif state == "deferred":
                self.add("deferred", low, high + fetched)
            else:
                self.add(state, low, high)


@dataclass
class Checker:
    """Reads one history."""

    acknowledged: set[str]
    violations: list[str] = field(default_factory=list)
    messages: dict[str, Message] = field(default_factory=dict)
    owners: dict[int, str] = field(default_factory=dict)
    in_flight: dict[str, Record] = field(default_factory=dict)
    takes_in_doubt: int = 0

    def report(self, text: str) -> None:
        """Record a broken promise."""
        self.violations.append(text)

    def begin(self, at: int, record: Record) -> None:
        """A call starts."""
        self.in_flight[record["id"]] = record
        certain = record["id"] in self.acknowledged
        for uid in record.get("uids", []):
            if record["verb"] == "send":
                possible = {"ready": (0, 0)} if certain else {"ready": (0, 0), "absent": (0, 0)}
                self.messages[uid] = Message(uid, record["key"], record["uids"], at, possible)
            elif record["verb"] in SETTLEMENTS:
                self.messages[uid].settle(record["verb"], certain=certain)

    def finish_call(self, at: int, record: Record) -> None:
        """A call returned."""
        call = self.in_flight.pop(record["id"])
        if call["verb"] == "send":
            for uid in call["uids"]:
                self.messages[uid].done = at
        if call["verb"] in DELIVERIES:
            self.deliver(call, record["messages"])

    def identify(self, view: Mapping[str, Any]) -> Message | None:
        """Return the message that a view shows, after checking its identity and its content."""
        message = self.messages.get(view["uid"])
        if message is None:
            self.report(f"ghost: {view['uid']} was never sent")
            return None
        if view["digest"] != expected_digest(view["uid"]) or view["key"] != message.key:
            self.report(f"changed: {view['uid']} is not what was sent")
        if message.number not in {None, view["number"]}:
            self.report(f"number: {view['uid']} had {message.number} and has {view['number']}")
        if self.owners.setdefault(view["number"], view["uid"]) != view["uid"]:
            self.report(f"number: {view['number']} is that of {self.owners[view['number']]} and of {view['uid']}")
        message.number = view["number"]
        for other in message.batch:
            self.messages[other].possible.pop("absent", None)
        return message

    def observe(self, message: Message, state: str, count: int, added: int = 0) -> None:
        """A message was observed in a place with a count."""
        if state not in message.possible:
            self.report(f"place: seen as {state}: {message.describe()}")
        else:
            low, high = message.possible[state]
            if not low + added <= count <= high + added:
                self.report(f"count: seen as {state} with count {count}: {message.describe()}")

    def deliver(self, call: Record, views: list[Mapping[str, Any]]) -> None:
        """Messages were delivered."""
        if len(views) > call["limit"]:
            self.report(f"limit: {len(views)} messages for a limit of {call['limit']}")
        source, added, target = DELIVERIES[call["verb"]]
        last: dict[int, int] = {}
        for view in views:
            partition = view["number"] >> 48
            if call["verb"] != "fetch" and last.get(partition, -1) >= view["number"]:
                self.report(f"order: {view['uid']} came after a later one of its partition")
            last[partition] = view["number"]
            message = self.identify(view)
            if message is not None:
                self.observe(message, source, view["count"], added)
                message.possible = {target: (view["count"], view["count"])}

    def end(self, at: int) -> None:
        """The process ended."""
        calls = list(self.in_flight.values())
        self.in_flight.clear()
        verbs = {call["verb"] for call in calls}
        fetched = {uid for call in calls if call["verb"] == "fetch" for uid in call["uids"]}
        self.takes_in_doubt += sum(call["limit"] for call in calls if call["verb"] == "take")
        for message in self.messages.values():
            if message.done is None:
                message.done = at
            message.end_run(received="receive" in verbs, taken="take" in verbs, fetched=message.uid in fetched)

    def audit(self, record: Record) -> None:
        """All messages of the queue were observed."""
        seen: set[str] = set()
        for dead, views in ((False, record["messages"]), (True, record["dead_letters"])):
            for view in views:
                if view["uid"] in seen:
                    self.report(f"twice: {view['uid']} is stored more than once")
                    continue
                seen.add(view["uid"])
                state = "dead" if dead else "deferred" if view["deferred"] else "ready"
                if dead and view["reason"] != REASON:
                    self.report(f"changed: {view['uid']} is dead because of {view['reason']!r}")
                message = self.identify(view)
                if message is not None:
                    self.observe(message, state, view["count"])
                    message.possible = {state: (view["count"], view["count"])}
        perhaps_taken = 0
        for uid in self.messages.keys() - seen:
            message = self.messages[uid]
            if not message.possible.keys() & GONE:
                self.report(f"lost: not there: {message.describe()}")
            perhaps_taken += "taken" in message.possible and not message.possible.keys() & {"absent", "gone"}
            message.possible = {"gone": (0, 0)}
        if perhaps_taken > self.takes_in_doubt:
            self.report(f"lost: {perhaps_taken} are not there, and {self.takes_in_doubt} may have been taken")
        self.takes_in_doubt = 0
        self.compare_counts(record)

    def compare_counts(self, record: Record) -> None:
        """The counts must match the messages."""
        ready = [view for view in record["messages"] if not view["deferred"]]
        found = {
            "total": len(record["messages"]) + len(record["dead_letters"]),
            "active": len(record["messages"]),
            "deferred": len(record["messages"]) - len(ready),
            "dead": len(record["dead_letters"]),
            "locked": 0,
        }
        if record["counts"] != found:
            self.report(f"counts: {record['counts']} and there are {found}")

    def compare_order(self) -> None:
        """In each partition, numbers rise in send order: a send that finished earlier has the lower number."""
        numbered = sorted(
            ((message.number, message) for message in self.messages.values() if message.number is not None),
            key=lambda pair: pair[0],
        )
        latest: dict[int, Message] = {}
        for number, message in numbered:
            before = latest.setdefault(number >> 48, message)
            if message.done is not None and message.done < before.tried:
                self.report(f"order: {message.uid} was sent before {before.uid} and has a higher number")
            if message.tried >= before.tried:
                latest[number >> 48] = message
        for message in self.messages.values():
            numbers = [self.messages[uid].number or 0 for uid in message.batch]
            known = [number for number in numbers if number]
            if message.uid == message.batch[0] and known != sorted(known):
                self.report(f"order: the batch of {message.uid} has the numbers {numbers}")


def check(history: Iterable[Record]) -> list[str]:
    """The promises that a history breaks, each as a line that begins with its kind; empty if it breaks none."""
    records = list(history)
    checker = Checker({record["id"] for record in records if record["do"] == "ack"})
    for at, record in enumerate(records):
        match record["do"]:
            case "try":
                checker.begin(at, record)
            case "ack":
                checker.finish_call(at, record)
            case "fail":
                checker.report(f"failed: {checker.in_flight.pop(record['id'])} raised {record['error']}")
            case "end":
                checker.end(at)
            case "audit":
                checker.audit(record)
            case other:
                raise ValueError(f"no such record: {other}")
    checker.compare_order()
    return checker.violations
