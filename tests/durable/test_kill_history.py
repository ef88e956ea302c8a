# SPDX-License-Identifier: Apache-2.0
"""The checker of the kill test rejects each kind of wrong history and accepts each right one."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from kill_history import Record, check
from kill_messages import REASON, expected_digest

_ids = count()


def seen(uid: str, number: int, times: int = 0, **changes: Any) -> Record:
    """A message as a receive or a peek shows it."""
    known = {
        "uid": uid,
        "number": number,
        "key": "k",
        "count": times,
        "digest": expected_digest(uid),
        "deferred": False,
        "reason": None,
    }
    return known | changes


def call(verb: str, *uids: str, acked: bool = True, **more: Any) -> list[Record]:
    """The records of a call, acknowledged or cut off."""
    name = f"call-{next(_ids)}"
    messages = more.pop("messages", [])
    tried = {"do": "try", "id": name, "verb": verb, "uids": list(uids), "key": "k", "limit": 3} | more
    return [tried, {"do": "ack", "id": name, "messages": messages}] if acked else [tried]


def receive(*messages: Record, verb: str = "receive", **more: Any) -> list[Record]:
    """The records of a receive that returned these messages."""
    return call(verb, messages=list(messages), **more)


def audit(*messages: Record, dead: tuple[Record, ...] = (), **counts: int) -> list[Record]:
    """The record of an audit that saw these messages, with right counts unless given."""
    right = {
        "total": len(messages) + len(dead),
        "active": len(messages),
        "deferred": sum(message["deferred"] for message in messages),
        "dead": len(dead),
        "locked": 0,
    }
    return [{"do": "audit", "messages": list(messages), "dead_letters": list(dead), "counts": right | counts}]


END: list[Record] = [{"do": "end"}]
SENT_A = call("send", "a")
HELD_A = SENT_A + receive(seen("a", 1))
DEFERRED_A = HELD_A + call("defer", "a")
BATCH = call("send", "a", "b", "c", acked=False)
AT_ONCE = [record for pair in zip(call("send", "a"), call("send", "b"), strict=True) for record in pair]
A_DEFERRED = seen("a", 1, deferred=True)
B_CHANGED = expected_digest("b")

RIGHT: dict[str, list[Record]] = {
    "nothing": [],
    "kept": SENT_A + END + audit(seen("a", 1)),
    "unknown send, stored": call("send", "a", acked=False) + END + audit(seen("a", 1)),
    "unknown send, not stored": call("send", "a", acked=False) + END + audit() + END + audit(),
    "unknown batch, stored": BATCH + END + audit(seen("a", 1), seen("b", 2), seen("c", 3)),
    "unknown batch, not stored": BATCH + END + audit(),
    "completed": HELD_A + call("complete", "a") + END + audit() + END + audit(),
    "unknown complete, done": HELD_A + call("complete", "a", acked=False) + END + audit(),
    "unknown complete, not done": HELD_A + call("complete", "a", acked=False) + END + audit(seen("a", 1, 1)),
    "held at the end": HELD_A + END + receive(seen("a", 1, 1)) + END + audit(seen("a", 1, 2)),
    "abandoned": HELD_A + call("abandon", "a") + receive(seen("a", 1, 1)) + END + audit(seen("a", 1, 2)),
    "unknown abandon": HELD_A + call("abandon", "a", acked=False) + END + audit(seen("a", 1, 1)),
    "unknown receive, not done": SENT_A + receive(acked=False) + END + audit(seen("a", 1)),
    "unknown receive, done": SENT_A + receive(acked=False) + END + audit(seen("a", 1, 1)),
    "deferred": DEFERRED_A + END + audit(A_DEFERRED),
    "fetched, abandoned": DEFERRED_A
    + receive(seen("a", 1, 1), verb="fetch")
    + call("abandon", "a")
    + END
    + audit(A_DEFERRED | {"count": 1}),
    "fetched, held": DEFERRED_A + receive(seen("a", 1, 1), verb="fetch") + END + audit(A_DEFERRED | {"count": 1}),
    "unknown fetch": DEFERRED_A + call("fetch", "a", acked=False) + END + audit(A_DEFERRED | {"count": 1}),
    "unknown defer": HELD_A + call("defer", "a", acked=False) + END + audit(seen("a", 1, 1)),
    "dead": HELD_A + call("dead_letter", "a") + END + audit(dead=(seen("a", 1, reason=REASON),)),
    "taken": SENT_A + receive(seen("a", 1), verb="take") + END + audit(),
    "unknown take": SENT_A + receive(verb="take", acked=False) + END + audit(),
    "gap": SENT_A + END + call("send", "b") + END + audit(seen("a", 1), seen("b", 90)),
    "at once": AT_ONCE + END + audit(seen("a", 2), seen("b", 1)),
    "redelivered before its abandon was logged": HELD_A
    + (abandon := call("abandon", "a"))[:1]
    + receive(seen("a", 1, 1))
    + abandon[1:]
    + call("complete", "a")
    + END
    + audit(),
    "other partition": SENT_A + call("send", "b") + END + audit(seen("a", (2 << 48) + 7), seen("b", 1)),
}

WRONG: dict[str, tuple[str, list[Record]]] = {
    "loss": ("lost", SENT_A + END + audit()),
    "loss after an unknown receive": ("lost", SENT_A + receive(acked=False) + END + audit()),
    "loss of a held message": ("lost", HELD_A + END + audit()),
    "loss of an abandoned message": ("lost", HELD_A + call("abandon", "a") + END + audit()),
    "loss of a deferred message": ("lost", DEFERRED_A + END + audit()),
    "loss of a dead letter": ("lost", HELD_A + call("dead_letter", "a") + END + audit()),
    "loss after it was seen": ("lost", call("send", "a", acked=False) + END + audit(seen("a", 1)) + END + audit()),
    "more vanished than were taken": (
        "lost",
        SENT_A + call("send", "b") + receive(verb="take", acked=False, limit=1) + END + audit(),
    ),
    "part of a batch": ("lost", BATCH + END + audit(seen("a", 1), seen("b", 2))),
    "delivered part of a batch": ("lost", BATCH + receive(seen("c", 3)) + END + audit(seen("c", 3, 1))),
    "completed came back": ("place", HELD_A + call("complete", "a") + END + audit(seen("a", 1, 1))),
    "completed was delivered": ("place", HELD_A + call("complete", "a") + END + receive(seen("a", 1, 1))),
    "taken came back": ("place", SENT_A + receive(seen("a", 1), verb="take") + END + audit(seen("a", 1))),
    "gone came back later": ("place", call("send", "a", acked=False) + END + audit() + END + audit(seen("a", 1))),
    "two receivers": ("place", HELD_A + receive(seen("a", 1))),
    "deferred was received": ("place", DEFERRED_A + receive(seen("a", 1))),
    "ready was fetched": ("place", SENT_A + receive(seen("a", 1, 1), verb="fetch")),
    "deferred became ready": ("place", DEFERRED_A + END + audit(seen("a", 1))),
    "dead became ready": ("place", HELD_A + call("dead_letter", "a") + END + audit(seen("a", 1))),
    "ready became dead": ("place", SENT_A + END + audit(dead=(seen("a", 1, reason=REASON),))),
    "twice in the queue": ("twice", SENT_A + END + audit(seen("a", 1), seen("a", 2))),
    "in the queue and dead": ("twice", SENT_A + END + audit(seen("a", 1), dead=(seen("a", 1, reason=REASON),))),
    "ghost": ("ghost", END + audit(seen("a", 1))),
    "ghost received": ("ghost", receive(seen("a", 1))),
    "body": ("changed", SENT_A + receive(seen("a", 1, digest=B_CHANGED))),
    "key": ("changed", SENT_A + END + audit(seen("a", 1, key="other"))),
    "reason": ("changed", HELD_A + call("dead_letter", "a") + END + audit(dead=(seen("a", 1, reason="?"),))),
    "delivery forgotten": ("count", HELD_A + END + audit(seen("a", 1))),
    "delivery invented": ("count", SENT_A + END + audit(seen("a", 1, 1))),
    "abandon not counted": ("count", HELD_A + call("abandon", "a") + receive(seen("a", 1))),
    "abandon counted twice": ("count", HELD_A + call("abandon", "a") + receive(seen("a", 1, 2))),
    "defer counted": ("count", DEFERRED_A + END + audit(A_DEFERRED | {"count": 1})),
    "fetch not counted": ("count", DEFERRED_A + receive(seen("a", 1), verb="fetch")),
    "unknown receive counted twice": ("count", SENT_A + receive(acked=False) + END + audit(seen("a", 1, 2))),
    "number used twice": ("number", SENT_A + call("send", "b") + END + audit(seen("a", 1), seen("b", 1))),
    "number of a completed message": (
        "number",
        HELD_A + call("complete", "a") + END + call("send", "b") + END + audit(seen("b", 1)),
    ),
    "number changed": ("number", HELD_A + END + audit(seen("a", 2, 1))),
    "order of a key": ("order", SENT_A + call("send", "b") + END + audit(seen("b", 1), seen("a", 2))),
    "order over a kill": ("order", SENT_A + END + call("send", "b") + END + audit(seen("b", 1), seen("a", 2))),
    "order past a long call": (
        "order",
        [
            *(AT_ONCE[0], *call("send", "c"), *call("send", "d"), AT_ONCE[2], *END),
            *audit(seen("d", 1), seen("a", 2), seen("c", 3)),
        ],
    ),
    "order in a batch": ("order", BATCH + END + audit(seen("a", 1), seen("c", 2), seen("b", 3))),
    "order of a delivery": ("order", SENT_A + call("send", "b") + receive(seen("b", 2), seen("a", 1))),
    "counts": ("counts", SENT_A + END + audit(seen("a", 1), total=2)),
    "still locked": ("counts", SENT_A + END + audit(seen("a", 1), locked=1)),
    "limit": ("limit", SENT_A + call("send", "b") + receive(seen("a", 1), seen("b", 2), limit=1)),
    "error": ("failed", [*call("send", "a", acked=False, id="x"), {"do": "fail", "id": "x", "error": "OSError()"}]),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_history_passes(name: str) -> None:
    """A possible history has no violations."""
    assert check(RIGHT[name]) == []


@pytest.mark.parametrize("name", WRONG)
def test_wrong_history_is_found(name: str) -> None:
    """An impossible history has exactly one violation, of its kind."""
    kind, history = WRONG[name]
    assert {violation.partition(":")[0] for violation in check(history)} == {kind}


def test_unknown_record_is_an_error() -> None:
    """The checker does not accept a history with an unknown record."""
    with pytest.raises(ValueError, match="nothing"):
        check([{"do": "nothing"}])
