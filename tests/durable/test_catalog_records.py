# SPDX-License-Identifier: Apache-2.0
"""The catalog after any cut, kill or disk error: acknowledged changes of entities stay, and no part of one is found.

docs/format.md, "Catalog". `rust/oxbus-sim/tests/catalog_changes.rs` makes each disk call fail.
"""

from __future__ import annotations

import contextlib
import shutil
import struct
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from durable_bus import Bus, bodies
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oxbus import Namespace, ServiceBusClient
from oxbus.exceptions import ResourceExistsError, ResourceNotFoundError, StoreCorruptError
from oxbus.management import ServiceBusAdministrationClient, SqlRuleFilter
from oxbus.testing import heal, inject_fault
from stored_files import flip_bit

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

Change = tuple[str, int, int]
State = dict[str, Any]
NUMBERS = st.integers(0, 2)
VERBS = ["create", "create", "create topic", "subscribe", "subscribe", "update", "add rule", "replace rule"]
VERBS += ["delete rule", "delete", "delete topic"]
CHANGES = st.lists(st.tuples(st.sampled_from(VERBS), NUMBERS, NUMBERS), min_size=1, max_size=30)
HEAD_BYTES = 48
RECORD_HEAD_BYTES = 16


def make(admin: ServiceBusAdministrationClient, change: Change) -> None:
    """Make a change; some are refused, because their entity is missing or exists."""
    verb, one, other = change
    topic, subscription = f"t{one}", f"s{other}"
    with contextlib.suppress(ResourceExistsError, ResourceNotFoundError):
        if verb == "create":
            admin.create_queue(f"q{one}", enable_partitioning=other == 0)
        elif verb == "create topic":
            admin.create_topic(topic)
        elif verb == "subscribe":
            admin.create_subscription(topic, subscription)
        elif verb == "update":
            queue = admin.get_queue(f"q{one}")
            queue.user_metadata = "x" * (300 * other)
            admin.update_queue(queue)
        elif verb == "add rule":
            admin.create_rule(topic, subscription, "extra", filter=SqlRuleFilter("n = 1"))
        elif verb == "replace rule":
            rule = admin.get_rule(topic, subscription, "extra")
            rule.filter = SqlRuleFilter("n = 2")
            admin.update_rule(topic, subscription, rule)
        elif verb == "delete rule":
            admin.delete_rule(topic, subscription, "extra")
        elif verb == "delete":
            admin.delete_queue(f"q{one}")
        else:
            admin.delete_topic(topic)


def state_of(admin: ServiceBusAdministrationClient) -> State:
    """All entities and rules as a client sees them."""
    state: State = {queue.name: (queue.user_metadata, queue.enable_partitioning) for queue in admin.list_queues()}
    for topic in admin.list_topics():
        for subscription in admin.list_subscriptions(topic.name):
            path = f"{topic.name}/{subscription.name}"
            state[path] = [(it.name, str(it.filter)) for it in admin.list_rules(topic.name, subscription.name)]
        state.setdefault(topic.name, None)
    return state


def open_admin(path: Path) -> tuple[Namespace, ServiceBusAdministrationClient]:
    """Open a namespace with an administration client."""
    namespace = Namespace(str(path), partitions=1)
    return namespace, ServiceBusAdministrationClient(namespace)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(changes=CHANGES, data=st.data())
def test_catalog_cut_anywhere_has_the_changes_before_the_cut(changes: list[Change], data: st.DataObject) -> None:
    """Every cut leaves a prefix of the changes, with all whose records are complete; the next owner continues."""
    with tempfile.TemporaryDirectory() as home:
        path, left = Path(home) / "bus", Path(home) / "left"
        namespace, admin = open_admin(path)
        catalog = path / "catalog"
        head = b""
        states: list[tuple[int, State]] = []
        for change in (None, *changes):
            if change:
                make(admin, change)
            stored = catalog.read_bytes()
            if stored[:HEAD_BYTES] != head:  # written as a whole
                head, states = stored[:HEAD_BYTES], []
            states.append((len(stored), state_of(admin)))
        shutil.copytree(path, left)
        namespace.close()
        whole = (left / "catalog").read_bytes()
        length = data.draw(st.integers(states[0][0], len(whole)), label="bytes left")
        (left / "catalog").write_bytes(whole[:length])
        kept, expected = next((end, state) for end, state in reversed(states) if end <= length)
        namespace, admin = open_admin(left)
        assert state_of(admin) == expected
        assert namespace.recovery is not None
        assert namespace.recovery.truncated_bytes == length - kept
        admin.create_queue("one-more")
        expected = state_of(admin)
        namespace.close()
        namespace, admin = open_admin(left)
        assert state_of(admin) == expected
        namespace.close()


CREATING = """
namespace = Namespace(sys.argv[1], partitions=1, durability="os")
admin = ServiceBusAdministrationClient(namespace)
number = len(list(admin.list_queues()))
print("open", flush=True)
while True:
    admin.create_queue(f"q{number}")
    print(number, flush=True)
    number += 1
"""


def test_killed_creations(tmp_path: Path, start_python: Callable[..., subprocess.Popen[str]]) -> None:
    """A process killed while it creates queues keeps each one whose creation returned."""
    path = tmp_path / "bus"
    created = 0
    for stop_at in (1, 30, 90):
        process = start_python(CREATING, path)
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        for line in process.stdout:
            created = int(line) + 1
            if created >= stop_at:
                break
        process.kill()
        created += sum(1 for line in process.stdout if line.endswith("\n"))
        process.wait()
        namespace, admin = open_admin(path)
        found = {queue.name for queue in admin.list_queues()}
        assert found in ({f"q{number}" for number in range(created)}, {f"q{number}" for number in range(created + 1)})
        created = len(found)
        namespace.close()


def records_of(catalog: Path) -> list[int]:
    """The positions of the records."""
    stored = catalog.read_bytes()
    (content_bytes,) = struct.unpack_from("<I", stored, 40)
    positions = [HEAD_BYTES + content_bytes]
    while positions[-1] < len(stored):
        (payload_bytes,) = struct.unpack_from("<I", stored, positions[-1])
        positions.append(positions[-1] + RECORD_HEAD_BYTES + payload_bytes)
    assert positions[-1] == len(stored)
    return positions[:-1]


@pytest.fixture
def killed(bus: Bus) -> Bus:
    """A bus that crashed after three queues were created, the last of which has a message."""
    for name in ("a", "b", "q"):
        bus.admin.create_queue(name)
    bus.send("kept")
    bus.stop("crash")
    return bus


@pytest.mark.parametrize("record", [0, 1])
@pytest.mark.parametrize("offset", [0, 5, 13, 40])
def test_damage_before_the_last_record_is_refused(killed: Bus, record: int, offset: int) -> None:
    """A later record shows that this one was synced; restored, the namespace opens (R-22)."""
    catalog = killed.path / "catalog"
    position = records_of(catalog)[record] + offset
    flip_bit(catalog, position)
    with pytest.raises(StoreCorruptError, match="catalog of the namespace is damaged"):
        killed.open()
    flip_bit(catalog, position)
    killed.open()
    assert bodies(killed.peek()) == ["kept"]


def test_lost_record_of_an_entity_with_messages_is_refused(
    killed: Bus, tmp_path: Path, run_python: Callable[..., str]
) -> None:
    """The journal shows that the record was there; `oxbus salvage` copies the messages (R-01)."""
    catalog = killed.path / "catalog"
    stored = catalog.read_bytes()
    catalog.write_bytes(stored[: records_of(catalog)[2] + 20])
    with pytest.raises(StoreCorruptError, match="has lost the entity with number 3"):
        killed.open()
    target = tmp_path / "salvaged"
    run_python("from oxbus.cli import main\nsys.exit(main(sys.argv[1:]))", "salvage", killed.path, target)
    with Namespace(str(target)) as namespace:
        names = {queue.name for queue in ServiceBusAdministrationClient(namespace).list_queues()}
        assert names == {"a", "b", "salvaged-3"}
        client = ServiceBusClient(namespace)
        assert bodies(client.get_queue_receiver("salvaged-3").peek_messages()) == ["kept"]
    catalog.write_bytes(stored)
    killed.open()
    assert bodies(killed.peek()) == ["kept"]


def test_zeros_after_the_catalog_are_a_record_that_was_never_written(killed: Bus) -> None:
    """A power loss may extend a file without its bytes; the cut is reported once (R-02)."""
    catalog = killed.path / "catalog"
    catalog.write_bytes(catalog.read_bytes() + bytes(700))
    recovery = killed.open().recovery
    assert recovery is not None
    assert recovery.truncated_bytes == 700
    assert bodies(killed.peek()) == ["kept"]
    recovery = killed.reopen("crash").recovery
    assert recovery is not None
    assert recovery.truncated_bytes == 0


@pytest.mark.parametrize(("fault", "effect"), [("eio-write", "none"), ("enospc", "none"), ("eio-fsync", "unknown")])
def test_effect_of_a_failed_change(wide_bus: Bus, fault: str, effect: str) -> None:
    """A failed creation or update leaves the old state, and works when the disk works again (R-25)."""
    queue = wide_bus.admin.get_queue("q")
    queue.user_metadata = "new"
    inject_fault(wide_bus.namespace, None, fault)
    for change in (lambda: wide_bus.admin.create_queue("other"), lambda: wide_bus.admin.update_queue(queue)):
        with pytest.raises(OSError, match="check its disk and try again") as refusal:
            change()
        assert getattr(refusal.value, "effect", None) in {effect, "none"}
    assert [queue.name for queue in wide_bus.admin.list_queues()] == ["q"]
    assert wide_bus.admin.get_queue("q").user_metadata == ""
    heal(wide_bus.namespace, None)
    wide_bus.admin.create_queue("other")
    wide_bus.admin.update_queue(queue)
    wide_bus.reopen("crash")
    assert [queue.name for queue in wide_bus.admin.list_queues()] == ["other", "q"]
    assert wide_bus.admin.get_queue("q").user_metadata == "new"


def test_a_deletion_in_doubt_accepts_no_message(wide_bus: Bus) -> None:
    """The next open may not find the queue, so nothing is acknowledged in it (R-01)."""
    sender = wide_bus.sender()
    inject_fault(wide_bus.namespace, None, "eio-fsync")
    with pytest.raises(OSError, match="catalog") as refusal:
        wide_bus.admin.delete_queue("q")
    assert getattr(refusal.value, "effect", None) == "unknown"
    with pytest.raises(ResourceNotFoundError):
        sender.send_messages([])
    heal(wide_bus.namespace, None)
    wide_bus.admin.create_queue("q")
    wide_bus.send("after")
    wide_bus.reopen("crash")
    assert bodies(wide_bus.peek()) == ["after"]


def test_a_deletion_that_is_surely_not_stored_leaves_the_queue(wide_bus: Bus) -> None:
    """It works as before, also after a crash."""
    inject_fault(wide_bus.namespace, None, "enospc")
    with pytest.raises(OSError, match="catalog"):
        wide_bus.admin.delete_queue("q")
    wide_bus.send("kept")
    wide_bus.reopen("crash")
    assert bodies(wide_bus.peek()) == ["kept"]


def test_a_new_file_that_fails_fails_no_change(wide_bus: Bus) -> None:
    """A change is durable with its record; the file is only written again to keep it short."""
    inject_fault(wide_bus.namespace, None, "eio-rename")
    names = [f"q{number}" for number in range(40)]
    for name in names:
        wide_bus.admin.create_queue(name)
    wide_bus.reopen("crash")
    assert [queue.name for queue in wide_bus.admin.list_queues()] == sorted(["q", *names])
