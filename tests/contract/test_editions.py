# SPDX-License-Identifier: Apache-2.0
"""Differences between editions of the service's page on partitioning (section 23, B-466, B-467).

Each row of the section's table has a test here or, in `WORDS`, a reason why it has none.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import Namespace, ServiceBusClient, ServiceBusMessage
from oxbus.exceptions import InvalidOperationError, MessageSizeExceededError, ServiceBusQuotaExceededError
from oxbus.management import ServiceBusAdministrationClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

EDITIONS = ("2017", "2019", "current")
PAGE = Path(__file__).parents[2] / "docs/behaviour.md"

WORDS = {
    1: "a word for the same thing",
    4: "whether a page names the tier",
    6: "two wordings of one product",
    10: "a version of the HTTP front end",
    13: "advice",
    15: "a wording",
    16: "which libraries assign ids; here every sender does",
    17: "a comparison with another service",
}
"""Rows without a test because they describe no behaviour, with their subject."""

ROWS: dict[int, Any] = {}


class Edition:
    """Namespaces of one edition."""

    def __init__(self, profile: str) -> None:
        self.profile = profile

    def open(self, tier: str, **options: Any) -> tuple[ServiceBusAdministrationClient, ServiceBusClient]:
        """Both clients of a new namespace."""
        namespace = Namespace(tier=tier, profile=self.profile, **options)
        return ServiceBusAdministrationClient(namespace), ServiceBusClient(namespace)

    def by(self, oldest: Any, middle: Any, newest: Any) -> Any:
        """The value for this edition."""
        return {"2017": oldest, "2019": middle, "current": newest}[self.profile]


def row(number: int) -> Callable[[Callable[[Edition], None]], Callable[[Edition], None]]:
    """Register a function as the test of a row."""

    def note(test: Callable[[Edition], None]) -> Callable[[Edition], None]:
        ROWS[number] = test
        return test

    return note


@row(2)
def partitioning_by_default(edition: Edition) -> None:
    """Partitioning is the default in the oldest edition; later the entity, or on Premium the namespace, chooses it."""
    admin, _ = edition.open("standard")
    assert admin.create_queue("q").enable_partitioning is edition.by(True, False, False)
    assert admin.create_topic("t").enable_partitioning is edition.by(True, False, False)
    admin, _ = edition.open("premium")
    assert admin.create_queue("q").enable_partitioning is edition.by(True, False, False)


@row(3)
def partitions_of_premium(edition: Edition) -> None:
    """Premium has two partitions, none, or one, two or four for every entity, by edition."""
    for asked in (True, False, None):
        admin, _ = edition.open("premium")
        assert admin.create_queue("q", enable_partitioning=asked).enable_partitioning is edition.by(True, False, False)
    assert Namespace(tier="premium", profile=edition.profile).partitions == edition.by(2, 1, 1)
    allowed = []
    for partitions in (1, 2, 3, 4, 16):
        try:
            Namespace(tier="premium", profile=edition.profile, partitions=partitions)
        except InvalidOperationError:
            continue
        allowed.append(partitions)
    assert allowed == edition.by([2], [1], [1, 2, 4])
    if edition.profile == "current":
        admin, _ = edition.open("premium", partitions=4)
        assert admin.create_queue("q", enable_partitioning=False).enable_partitioning is True


@row(5)
def partitions_of_standard(edition: Edition) -> None:
    """Standard always has sixteen partitions."""
    for tier in ("basic", "standard"):
        assert Namespace(tier=tier, profile=edition.profile).partitions == 16
        with pytest.raises(InvalidOperationError):
            Namespace(tier=tier, profile=edition.profile, partitions=4)


@row(7)
def sizes(edition: Edition) -> None:
    """Sizes are one to five gigabytes, on Premium up to eighty; the newest edition does not list them (B-034)."""
    for tier, most in (("standard", 5), ("premium", 80)):
        admin, _ = edition.open(tier)
        assert admin.create_queue("q", max_size_in_megabytes=most * 1024).max_size_in_megabytes == most * 1024
        with pytest.raises(ValueError, match="max_size_in_megabytes"):
            admin.create_queue("larger", max_size_in_megabytes=most * 2048)


@row(8)
def both_kinds_side_by_side(edition: Edition) -> None:
    """A Standard namespace has entities with partitions and without."""
    admin, client = edition.open("standard")
    for name, partitioned in (("with", True), ("without", False)):
        assert admin.create_queue(name, enable_partitioning=partitioned).enable_partitioning is partitioned
        with client.get_queue_sender(name) as sender, client.get_queue_receiver(name, max_wait_time=0) as receiver:
            sender.send_messages(ServiceBusMessage(name))
            assert [str(message) for message in receiver.receive_messages()] == [name]


@row(9)
def choice_is_final(edition: Edition) -> None:
    """Partitioning of queues and topics cannot be changed, on either tier (B-008)."""
    for tier in ("standard", "premium"):
        admin, _ = edition.open(tier)
        queue, topic = admin.create_queue("q"), admin.create_topic("t")
        for entity, update in ((queue, admin.update_queue), (topic, admin.update_topic)):
            before = entity.enable_partitioning
            entity.enable_partitioning = not before
            with pytest.raises(InvalidOperationError, match="Partitioning can't be changed"):
                update(entity)
        assert admin.get_queue("q").enable_partitioning is admin.get_topic("t").enable_partitioning is before


@row(11)
def peek_answers_from_one_partition(edition: Edition) -> None:
    """Only the newest edition states it; `peek_policy="faithful"` does it in any edition (B-297)."""
    admin, client = edition.open("standard", peek_policy="faithful")
    admin.create_queue("q", enable_partitioning=True)
    with client.get_queue_sender("q") as sender, client.get_queue_receiver("q") as receiver:
        for number in range(64):
            sender.send_messages(ServiceBusMessage(str(number)))
        assert len({(message.sequence_number or 0) >> 48 for message in receiver.peek_messages(64)}) == 1


@row(12)
def bytes_of_a_peek(edition: Edition) -> None:
    """A peek returns up to 256 KB in older editions, and up to the maximum message size in the newest (B-295)."""
    for tier, kilobytes in (("standard", 256), ("premium", edition.by(256, 256, 1024))):
        admin, client = edition.open(tier)
        admin.create_queue("q")
        with client.get_queue_sender("q") as sender, client.get_queue_receiver("q") as receiver:
            for number in range(40):
                sender.send_messages(ServiceBusMessage(str(number).rjust(63 * 1024), partition_key="k"))
            sizes = []
            seen: list[int] = []
            while peeked := receiver.peek_messages(250):
                seen += [int(str(message)) for message in peeked]
                sizes.append(len(peeked))
            assert sizes[0] == kilobytes // 64
            assert seen == list(range(40))


@row(14)
def timeout_has_another_name(edition: Edition) -> None:
    """The maximum wait of a call is `timeout`, in seconds (B-091)."""
    admin, client = edition.open("standard")
    admin.create_queue("q")
    with client.get_queue_sender("q") as sender:
        sender.send_messages(ServiceBusMessage("x"), timeout=60)
        with pytest.raises(ValueError, match="timeout"):
            sender.send_messages(ServiceBusMessage("x"), timeout=-1)
    assert admin.get_queue_runtime_properties("q").total_message_count == 1


@row(18)
def premium_with_partitions_has_a_limit(edition: Edition) -> None:
    """A message and a batch are limited to one megabyte (B-013)."""
    partitions = edition.by(2, None, 4)
    admin, client = edition.open("premium", partitions=partitions)
    admin.create_queue("q")
    half = b"x" * (512 << 10)
    with client.get_queue_sender("q") as sender:
        with pytest.raises(MessageSizeExceededError):
            sender.send_messages(ServiceBusMessage(half + half))
        with pytest.raises(MessageSizeExceededError):
            sender.send_messages([ServiceBusMessage(half), ServiceBusMessage(half)])
    assert admin.get_queue_runtime_properties("q").total_message_count == 0


@row(19)
def hundred_partitioned_entities(edition: Edition) -> None:
    """Basic and Standard allow a hundred partitioned entities; Premium has no such limit (B-041)."""
    for tier, has_limit in (("basic", True), ("standard", True), ("premium", False)):
        admin, _ = edition.open(tier)
        for number in range(100):
            admin.create_queue(f"q{number}", enable_partitioning=True)
        if has_limit:
            with pytest.raises(ServiceBusQuotaExceededError):
                admin.create_queue("more", enable_partitioning=True)
        else:
            admin.create_queue("more", enable_partitioning=True)


@row(20)
def premium_without_partitions(edition: Edition) -> None:
    """In the middle edition Premium has no partitions: more are refused, and the option is ignored."""
    if edition.profile == "2019":
        with pytest.raises(InvalidOperationError, match="partitions"):
            edition.open("premium", partitions=2)
        admin, _ = edition.open("premium")
        assert admin.create_queue("q", enable_partitioning=True).enable_partitioning is False
    else:
        admin, _ = edition.open("premium", partitions=2)
        assert admin.create_queue("q").enable_partitioning is True


@row(21)
def forwarding_is_set_by_create_and_update(edition: Edition) -> None:
    """Forwarding of queues and subscriptions can be set at creation and by an update (B-331)."""
    admin, _ = edition.open("standard")
    admin.create_queue("to")
    admin.create_topic("t")
    assert admin.create_queue("q", forward_to="to").forward_to == "to"
    assert admin.create_subscription("t", "s", forward_to="to").forward_to == "to"
    queue, subscription = admin.create_queue("later"), admin.create_subscription("t", "later")
    queue.forward_to = subscription.forward_to = "to"
    admin.update_queue(queue)
    admin.update_subscription("t", subscription)
    assert admin.get_queue("later").forward_to == admin.get_subscription("t", "later").forward_to == "to"


def rows_of_the_page() -> Iterator[int]:
    """The numbers of the table's rows."""
    section = PAGE.read_text().partition("\n## 23.")[2].partition("\n## ")[0]
    return (int(number) for number in re.findall(r"^\| (\d+) \|", section, flags=re.MULTILINE))


def test_each_row_is_tested_or_exempt() -> None:
    """No row of section 23 is left out (B-466)."""
    assert sorted([*ROWS, *WORDS]) == list(rows_of_the_page())


@pytest.mark.parametrize("profile", EDITIONS)
@pytest.mark.parametrize("number", ROWS, ids=[test.__name__ for test in ROWS.values()])
def test_edition(number: int, profile: str) -> None:
    """Each profile behaves as its edition documents (B-466, B-467)."""
    ROWS[number](Edition(profile))


def test_newest_edition_is_the_default() -> None:
    """The newest edition is the default (B-466)."""
    namespace = Namespace(tier="premium", partitions=4)
    assert ServiceBusAdministrationClient(namespace).create_queue("q").enable_partitioning is True
