# SPDX-License-Identifier: Apache-2.0
"""Receiving selected columns (`columns=` of `receive_arrow`, an extension; R-21, B-150)."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import ServiceBusMessage, ServiceBusReceiveMode
from oxbus.aio import ServiceBusClient as AioClient
from oxbus.exceptions import MessageLockLostError

if TYPE_CHECKING:
    from collections.abc import Callable

    from oxbus import Namespace, ServiceBusReceiver, ServiceBusSender
    from oxbus.management import ServiceBusAdministrationClient
    from oxbus.testing import ManualClock

pa = pytest.importorskip("pyarrow")


@pytest.mark.parametrize("names", [["body", "lock_token"], ("lock_token", "body"), ["body", "lock_token", "body"]])
def test_only_the_named_columns_are_returned_in_their_order(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, bodies: Callable[[int], Any], names: Any
) -> None:
    """The table has the named columns once each, in the documented order."""
    sender.send_arrow(bodies(3))
    table = pa.table(receiver.receive_arrow(3, max_wait_time=0, columns=names))
    assert table.column_names == ["body", "lock_token"]


def test_an_empty_receive_has_the_named_columns(receiver: ServiceBusReceiver) -> None:
    """Without messages the table has the named columns and no rows."""
    table = pa.table(receiver.receive_arrow(3, max_wait_time=0, columns=["state", "body"]))
    assert (table.num_rows, table.column_names) == (0, ["body", "state"])


@pytest.mark.parametrize("names", [["body", "Body"], [""], ["lock_tokens"]], ids=repr)
def test_an_unknown_name_is_refused_and_receives_nothing(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    bodies: Callable[[int], Any],
    names: list[str],
) -> None:
    """The error names the column and lists the known ones; no message is locked."""
    sender.send_arrow(bodies(3))
    with pytest.raises(ValueError, match=r"body, message_id, .*dead_letter_error_description.*`" + names[-1]):
        receiver.receive_arrow(3, max_wait_time=0, columns=names)
    assert admin.get_queue_runtime_properties(queue_name).locked_message_count == 0


def test_an_empty_selection_is_refused_and_receives_nothing(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    bodies: Callable[[int], Any],
) -> None:
    """A table without columns has no rows, so an empty selection is an error that says what to do."""
    sender.send_arrow(bodies(3))
    with pytest.raises(ValueError, match="columns is empty; leave it out for all"):
        receiver.receive_arrow(3, max_wait_time=0, columns=[])
    assert admin.get_queue_runtime_properties(queue_name).locked_message_count == 0


@pytest.mark.parametrize("names", ["body", b"body", 3, [3]], ids=repr)
def test_anything_but_names_is_a_type_error(receiver: ServiceBusReceiver, names: Any) -> None:
    """One text is not a sequence of names."""
    with pytest.raises(TypeError):
        receiver.receive_arrow(3, max_wait_time=0, columns=names)


def test_body_and_token_suffice_to_settle(
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    admin: ServiceBusAdministrationClient,
    queue_name: str,
    bodies: Callable[[int], Any],
) -> None:
    """`settle_arrow` needs no other column than `lock_token` (B-162)."""
    sender.send_arrow(bodies(40))
    seen: list[bytes] = []
    while (table := pa.table(receiver.receive_arrow(30, max_wait_time=0, columns=["body", "lock_token"]))).num_rows:
        seen += table["body"].to_pylist()
        receiver.settle_arrow(table, "complete")
    assert sorted(seen) == sorted(bodies(40)["body"].to_pylist())
    assert admin.get_queue_runtime_properties(queue_name).total_message_count == 0


def test_settling_without_tokens_names_the_columns_of_the_table(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, bodies: Callable[[int], Any]
) -> None:
    """The error says which column is missing, how to get it, and what the table has."""
    sender.send_arrow(bodies(3))
    table = receiver.receive_arrow(3, max_wait_time=0, columns=["body", "sequence_number"])
    expected = r"`lock_token` is missing; name it in `columns`.*: the table has body, sequence_number"
    with pytest.raises(ValueError, match=expected):
        receiver.settle_arrow(table, "complete")


def test_lost_locks_are_named_without_the_column_of_numbers(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, clock: ManualClock, bodies: Callable[[int], Any]
) -> None:
    """A token has the number of its message, so the error names it without column `sequence_number` (B-155, B-160)."""
    sender.send_arrow(bodies(6))
    early = pa.table(receiver.receive_arrow(6, max_wait_time=0))
    numbers, tokens = early["sequence_number"].to_pylist(), early.select(["lock_token"])
    clock.advance(61)
    with pytest.raises(MessageLockLostError, match="6 messages were not settled") as lost:
        receiver.settle_arrow(tokens, "complete")
    assert sorted(lost.value.sequence_numbers) == sorted(numbers)


def test_tokens_of_another_entity_are_lost_and_the_others_are_settled(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, bodies: Callable[[int], Any]
) -> None:
    """A token that does not open has no number; with the column of numbers, the error names its row (B-150)."""
    sender.send_arrow(bodies(4))
    received = pa.table(receiver.receive_arrow(4, max_wait_time=0, columns=["lock_token", "sequence_number"]))
    count = received.num_rows
    forged = pa.table(
        {"sequence_number": pa.array([7], pa.int64()), "lock_token": pa.array([b"?" * 16], pa.binary(16))}
    )
    with pytest.raises(MessageLockLostError, match="1 messages were not settled") as lost:
        receiver.settle_arrow(
            pa.concat_tables([forged.select(["lock_token"]), received.select(["lock_token"])]), "abandon"
        )
    assert lost.value.sequence_numbers == []
    again = pa.table(receiver.receive_arrow(4, max_wait_time=0, columns=["lock_token", "sequence_number"]))
    assert again.num_rows == count
    with pytest.raises(MessageLockLostError) as lost:
        receiver.settle_arrow(pa.concat_tables([again, forged]), "complete")
    assert lost.value.sequence_numbers == [7]


@pytest.mark.parametrize("mode", list(ServiceBusReceiveMode))
def test_rows_of_a_canceled_call_have_the_columns_of_the_next(
    namespace: Namespace, queue_name: str, mode: ServiceBusReceiveMode
) -> None:
    """The next call returns the messages of a cancelled call with its own columns; a wrong name loses none (B-177)."""

    async def main() -> None:
        async with AioClient(namespace) as client, client.get_queue_sender(queue_name) as sender:
            await sender.send_messages([ServiceBusMessage(b"x"), ServiceBusMessage(b"y")])
            receiver = client.get_queue_receiver(queue_name, receive_mode=mode)
            take = partial(receiver._take_rows, 2, _columns(["body"]))
            receiver._requeue_rows(await receiver._wait_until_found(take, 0))
            with pytest.raises(ValueError, match="unknown column"):
                await receiver.receive_arrow(2, max_wait_time=0, columns=["bodies"])
            table = pa.table(await receiver.receive_arrow(2, max_wait_time=0, columns=["body", "state"]))
            assert table.to_pydict() == {"body": [b"x", b"y"], "state": ["active", "active"]}
            assert not await receiver.receive_arrow(2, max_wait_time=0)

    asyncio.run(main())


def _columns(names: list[str]) -> Any:
    from oxbus._oxbus import _Columns  # noqa: PLC0415 -- what the coroutine passes on

    return _Columns(names)


def test_a_coroutine_selects_columns_at_once_and_after_a_wait(namespace: Namespace, queue_name: str) -> None:
    """`aio` has the same option, whether or not the call waits."""

    async def main() -> None:
        async with (
            AioClient(namespace) as client,
            client.get_queue_sender(queue_name) as sender,
            client.get_queue_receiver(queue_name) as receiver,
        ):
            waiting = asyncio.create_task(receiver.receive_arrow(1, columns=["body", "lock_token"]))
            await asyncio.sleep(0.05)
            await sender.send_messages(ServiceBusMessage(b"x"))
            table = pa.table(await waiting)
            assert table.column_names == ["body", "lock_token"]
            await receiver.settle_arrow(table, "complete")
            await sender.send_messages(ServiceBusMessage(b"y"))
            assert pa.table(await receiver.receive_arrow(1, columns=["body"])).to_pydict() == {"body": [b"y"]}

    asyncio.run(main())


def test_values_that_begin_in_a_late_row_are_in_their_rows(
    sender: ServiceBusSender, receiver: ServiceBusReceiver
) -> None:
    """The rows before and after have nulls (api: Arrow)."""
    subjects = [None] * 20 + ["first"] + [None] * 20 + ["a longer subject", ""] + [None] * 3
    properties = [None] * 30 + [{"a": "1"}] + [None] * 15
    for subject, entries in zip(subjects, properties, strict=True):
        sender.send_messages(
            ServiceBusMessage(b"x", subject=subject, application_properties=entries, partition_key="k")
        )
    names = ["subject", "application_properties", "sequence_number"]
    tables = []
    while (table := pa.table(receiver.receive_arrow(46, max_wait_time=0, columns=names))).num_rows:
        tables.append(table)
    rows = pa.concat_tables(tables).sort_by("sequence_number")
    assert rows["subject"].to_pylist() == subjects
    expected = [entries and list(entries.items()) for entries in properties]
    assert rows["application_properties"].to_pylist() == expected
