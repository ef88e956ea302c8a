# SPDX-License-Identifier: Apache-2.0
"""The contract tests over the network: our client for messages against our server.

The client for messages then connects to a server whose namespace is in memory or in a directory. The administration
client stays in process: kit/http_transport.py has its tests.
All tests of tests/contract that use the fixture `client` run so, except those listed here.
`tests/package/test_client_transport.py` fails if an entry does not exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

STORES = {"client": "memory", "client-durable": "durable"}
"""The message store of each transport."""

PARTITIONED = {"client": True, "client-durable": False}
"""Whether entities are partitioned where a test leaves it open: each transport takes one, to save time."""

LEFT_OUT: dict[str, tuple[str, ...]] = {
    "reservations, stages and administration of a namespace of this process, without a client for messages": (
        "reservations",
        "test_staged_sends",
    ),
    "a receiver of one partition needs a namespace of this process": (
        "test_peek::test_peek_from_one_partition",
        "test_receive::test_a_partition_that_does_not_exist_is_refused",
        "test_receive::test_one_partition_only",
        "test_topics::test_receiver_of_one_partition",
        "sessions/test_session_outage::test_accept_from_one_partition",
        "sessions/test_sessions::test_options_that_are_refused_lock_nothing",
    ),
    "the lock policy is that of the server: prefetched messages are locked, and lost with their receiver": (
        "test_differences::test_later_receives_of_a_receiver_meet_its_own_cache",
        "test_forwarding::test_locked_messages_move_when_released",
        "test_forwarding::test_prefetched_messages_are_forwarded",
        "test_lock_policy",
        "test_prefetch::test_expired_buffer_locks_can_dead_letter_under_the_faithful_policy",
        "test_prefetch::test_expired_buffered_messages_hide_nothing",
        "test_prefetch::test_fresh_receive_and_delete_buffer_is_not_lost",
        "test_prefetch::test_one_receive_is_in_order_whatever_the_buffer_holds",
        "test_purge::test_prefetched_messages_are_purged",
    ),
    "the client follows the system clock, not the manual clock of the server's namespace": (
        "test_aio::test_a_lost_lock_is_reported",
        "test_aio::test_locks_are_renewed",
        "test_lock_renewal_by_clock",
    ),
    "the protocol has one error for a partition that is out of service and for a server that is busy": (
        "test_arrow_send::test_partial_send_names_the_rows_that_were_not_stored",
        "test_duplicate_detection::test_a_refused_message_was_never_seen",
        "test_partition_choice::test_keyed_send_to_a_faulted_partition_fails",
        "test_partition_choice::test_plain_queue_lives_in_the_partition_of_its_name",
        "test_partition_choice::test_settling_a_message_of_a_faulted_partition_is_transient",
        "sessions/test_session_outage::test_partition_out_of_service",
        "transactions/test_transaction_rollback::test_a_partition_out_of_service",
    ),
    "stalled stores of this process": ("test_store_stall",),
    "a server checks the rows of a table batch by batch, not all before the first": (
        "sessions/test_session_refusals::test_arrow_without_sessions_is_refused",
    ),
    "a server does not tell how many rows of a table each partition has stored": (
        "test_arrow_send::test_keyless_rows_are_spread_over_the_partitions",
        "test_arrow_send::test_rows_go_where_their_keys_say_in_order",
    ),
    "a server keeps at most 65,536 unsettled messages per session of a connection": (
        "test_arrow::test_round_trip_of_many_rows",
    ),
    "the lock token of a server does not tell the number of its message": (
        "test_arrow_columns::test_lost_locks_are_named_without_the_column_of_numbers",
    ),
    "the client gives an id to a message without one": (
        "test_duplicate_detection::test_a_table_is_checked_row_by_row",
        "test_duplicate_detection::test_without_any_key_a_partitioned_queue_refuses_and_a_plain_one_does_not_check",
    ),
    "the protocol peeks from one number on, in the order of numbers": (
        "test_peek::test_merged_peek_goes_by_time",
        "test_peek::test_peek_at_the_end_sees_later_messages",
    ),
    "the protocol lists the ids of sessions, without details": (
        "test_aio_sessions::test_a_session_from_end_to_end",
        "test_aio_topics::test_sessions_of_a_subscription",
        "test_session_state::test_details",
        "test_session_state::test_holder_of_an_expired_lock_is_not_listed",
        "test_topics::test_session_subscription",
    ),
    "a session ends with its link, and an error of the entity ends the link": ("test_status::test_sessions",),
    "a server gives numbers to messages that are scheduled in a transaction at the commit, and tells nobody": (
        "test_aio_transactions::test_everything_commits_together",
        "transactions/test_transaction_entities::test_scheduled_copies_are_dropped",
        "transactions/test_transaction_entities::test_scheduled_messages_wait_at_the_topic",
        "transactions/test_transaction_scopes::test_calls_in_the_scope_belong_to_the_transaction",
        "transactions/test_transactions::test_scheduled_messages_get_their_numbers_at_the_commit",
    ),
    "a server answers each settlement of a transaction at once": (
        "transactions/test_transaction_rollback::test_settling_twice",
    ),
    "closing the namespace of a server is no call of the client": (
        "transactions/test_transaction_rollback::test_a_closed_namespace_ends_its_transactions",
    ),
    "messages, threads and steps of a namespace of this process": (
        "test_abandon_delay::test_asynchronous_receiver",
        "test_aio::test_a_call_uses_a_thread_only_if_it_may_wait",
        "test_aio::test_a_thousand_receivers_wait_in_one_thread",
        "test_aio::test_a_wait_canceled_during_a_step_leaves_no_waiter",
    ),
}
"""Reasons for excluding tests, with the folders, files or tests."""


def left_out() -> Iterator[str]:
    """Iterate over the excluded entries."""
    for places in LEFT_OUT.values():
        yield from places
