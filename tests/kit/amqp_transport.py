# SPDX-License-Identifier: Apache-2.0
"""The transports of contract tests: the tests that are excluded over AMQP, and why.

All tests of tests/contract that use the fixtures `client` or `admin` run over AMQP, except those listed here.
`tests/package/test_amqp_transport.py` fails if an entry does not exist.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import client_transport
import http_transport
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

STORES = ("memory", "durable")
CONTRACT = Path(__file__).parents[1] / "contract"

LEFT_OUT: dict[str, tuple[str, ...]] = {
    # Features that the SDK does not have.
    "Arrow tables": (
        "test_arrow",
        "test_arrow_columns",
        "test_arrow_send",
        "test_arrow_settle",
        "test_bad_input::test_negative_wait",
        "test_duplicate_detection::test_a_table_is_checked_row_by_row",
        "test_status::test_operations_that_receive",
        "sessions/test_session_refusals::test_arrow_of_another_session_cannot_be_settled",
        "sessions/test_session_refusals::test_arrow_with_sessions",
        "sessions/test_session_refusals::test_arrow_without_sessions_is_refused",
    ),
    "transactions, which are not in the SDK for Python; Java and proton have them in tests/amqp": (
        "transactions",
        "test_aio_transactions",
        "test_forwarding::test_transactions",
        "test_status::test_a_commit_after_disabling_is_refused",
        "test_status::test_operations_that_send",
    ),
    "reservations and stages": ("reservations", "test_staged_sends"),
    "abandoning with a delay": ("test_abandon_delay", "sessions/test_session_delays"),
    "the asynchronous client, which tests/amqp/test_azure_sdk_aio.py tests": (
        "test_aio",
        "test_aio_sessions",
        "test_aio_topics",
    ),
    "changing properties while settling": (
        "test_defer::test_it_can_be_deferred_again_with_other_properties",
        "test_differences::test_changed_properties_may_grow",
        "test_settle::test_settlement_can_change_properties",
        "sessions/test_session_order::test_abandoned_message_is_the_next_one",
    ),
    "options of a receiver: lock policy, partition": (
        "test_differences::test_later_receives_of_a_receiver_meet_its_own_cache",
        "test_lock_policy::test_faithful_cache_drops_expired_locks",
        "test_lock_policy::test_faithful_cache_hides_messages_from_others",
        "test_lock_policy::test_faithful_cache_keeps_its_locks_when_the_receiver_closes",
        "test_lock_policy::test_expired_locks_of_a_faithful_cache_count_as_deliveries",
        "test_lock_policy::test_faithful_lock_starts_at_prefetch",
        "test_lock_policy::test_no_policy_loses_messages",
        "test_lock_policy::test_unknown_policy_is_refused",
        "test_peek::test_peek_from_one_partition",
        "test_prefetch::test_buffered_messages_are_served_first",
        "test_prefetch::test_faithful_receive_and_delete_buffer_is_lost_with_its_receiver",
        "test_prefetch::test_expired_buffer_locks_can_dead_letter_under_the_faithful_policy",
        "test_prefetch::test_prefetch_takes_no_more_than_its_count",
        "test_receive::test_a_partition_that_does_not_exist_is_refused",
        "test_receive::test_one_partition_only",
        "test_topics::test_receiver_of_one_partition",
        "sessions/test_session_outage::test_accept_from_one_partition",
        "sessions/test_sessions::test_options_that_are_refused_lock_nothing",
    ),
    "options or properties of entities that only oxbus has, pages of lists, details of sessions": (
        "test_entity::test_list_shows_every_queue",
        "test_entity::test_total_size_is_that_of_all_partitions",
        "test_rules::test_lists_come_by_name_and_in_pages",
        "test_session_state::test_details",
        "test_session_state::test_holder_of_an_expired_lock_is_not_listed",
        "test_session_state::test_list_in_pages",
        "test_topic_entity::test_lists_show_everything_by_name",
        "test_topic_entity::test_updates_take_a_whole_mapping",
        "test_topics::test_session_subscription",
        "sessions/test_session_traffic::test_whole_session_expiry_can_be_switched",
    ),
    "an error for a partition that is out of service": (
        "test_duplicate_detection::test_a_refused_message_was_never_seen",
        "test_partition_choice::test_keyed_send_to_a_faulted_partition_fails",
        "test_partition_choice::test_plain_queue_lives_in_the_partition_of_its_name",
        "test_partition_choice::test_settling_a_message_of_a_faulted_partition_is_transient",
        "sessions/test_session_outage::test_partition_out_of_service",
    ),
    "a missing partition id for messages of plain entities": (
        "test_partition_choice::test_a_plain_queue_has_one_partition_for_all_keys",
    ),
    # Features where the SDK differs.
    "the SDK renews locks by the system clock, see tests/amqp/test_azure_sdk_settlement.py": (
        "test_lock_renewal_by_clock",
    ),
    "the SDK checks arguments later, differently or not at all, with other texts": (
        "test_bad_input::test_bad_application_properties",
        "test_bad_input::test_settling_a_message_of_another_namespace",
        "test_bad_input::test_settling_a_stale_message",
        "test_bad_input::test_unknown_option",
        "test_bad_input::test_unknown_sub_queue",
        "test_defer::test_numbers_must_be_integers",
        "test_entity::test_bad_names",
        "test_entity::test_name_must_be_text",
        "test_entity::test_option_of_wrong_type_is_refused",
        "test_entity::test_option_out_of_range_is_refused",
        "test_idle_deletion::test_less_than_five_minutes_is_refused",
        "test_rules::test_names_must_be_text",
        "test_rules::test_parts_of_the_wrong_type_are_refused",
        "test_schedule::test_time_must_be_a_datetime",
        "test_session_state::test_state_of_a_closed_receiver",
        "test_session_state::test_state_of_another_type_is_refused",
        "test_topic_entity::test_bad_topic_names",
        "test_topic_entity::test_names_must_be_text",
        "test_topic_entity::test_option_of_a_subscription_of_wrong_type",
        "test_topic_entity::test_option_of_a_subscription_out_of_range",
        "test_topic_entity::test_option_of_a_topic_of_wrong_type",
        "test_topic_entity::test_option_of_a_topic_out_of_range",
        "test_topic_entity::test_receiver_takes_the_name_of_a_subscription_only",
        "sessions/test_session_locks::test_settled_after_close_is_refused",
    ),
    "the SDK has its own classes": (
        "test_batch::test_batch_object_fills_up_to_its_size",
        "test_message::test_everything_at_once",
        "test_message::test_missing_body_is_no_buffer",
        "test_message::test_received_body_is_a_buffer",
        "test_message::test_received_message_is_frozen",
        "test_message::test_repr_shows_what_matters",
        # The client for .NET refuses it (B-175), the one for Python sends it again.
        "test_settle::test_received_message_cannot_be_sent",
        "test_topic_entity::test_default_of_each_option_of_a_subscription",
        "test_topic_entity::test_default_of_each_option_of_a_topic",
    ),
    "the SDK cannot encode a 64-bit integer, a UUID in a filter or a time to live of more than 49 days": (
        "test_message::test_application_property_keeps_value_and_type",
        "test_message::test_time_to_live_is_kept",
        "test_rules::test_filter_comes_back_as_it_was_given",
        "test_time_to_live::test_long_time_to_live",
    ),
    "the SDK cannot decode property bytes that are not text": ("test_topics::test_body_of_a_copy_is_as_it_was_sent",),
    "the SDK gives a scheduled message an id": (
        "test_duplicate_detection::test_without_any_key_a_partitioned_queue_refuses_and_a_plain_one_does_not_check",
    ),
    "the SDK shows the requested name of an entity, and does not distinguish queues from topics": (
        "test_entity::test_names_compare_without_case",
        "test_rules::test_subscription_starts_with_the_default_rule",
        "test_topic_entity::test_names_compare_without_case",
        "test_topic_entity::test_queues_and_topics_share_their_names",
    ),
    "the SDK cannot update a rule with separate filter and action arguments": (
        "test_rules::test_update_replaces_filter_and_action",
    ),
    "the SDK's peek continues after the last received or peeked number": (
        "test_defer::test_deferred_message_is_hidden_from_receive_but_not_from_peek",
        "test_peek::test_merged_peek_goes_by_time",
        "test_peek::test_peek_at_the_end_sees_later_messages",
        "test_peek::test_plain_queue_peeks_in_order",
        "test_settle::test_deferred_message_is_fetched_by_number_only",
        "test_status::test_settling_and_browsing_stay_allowed",
    ),
    "the SDK closes a receiver after an error that it does not know": (
        "test_dead_letter::test_dead_letter_cannot_be_dead_lettered_again",
        "test_dead_letter::test_longer_reason_is_refused",
        "test_settle::test_dead_letter_queue_is_another_queue",
    ),
    "the SDK's receivers and senders are for one thread": (
        "test_fan_in::test_one_receiver_may_be_shared_by_threads",
        "test_receive::test_closing_ends_a_waiting_receive",
        "sessions/test_session_traffic::test_fetch_of_deferred_messages_beside_a_close",
        "sessions/test_session_turns::test_threads_that_share_a_session_are_all_woken",
        "sessions/test_sessions::test_closing_ends_an_accept_that_waits",
    ),
    # Rules that differ over AMQP.
    "an unknown entity is refused at the token request, which the SDK reports as a wrong key (B-419)": (
        "test_bad_input::test_unknown_entity",
        "test_dead_letter::test_it_goes_with_its_queue",
        "test_entity::test_unknown_queue_is_not_found",
        "test_idle_deletion::test_an_unused_queue_is_deleted_with_its_messages",
        "test_receive::test_deleting_the_queue_ends_a_waiting_receive",
        "test_session_state::test_list_refusals",
        "test_topic_entity::test_unknown_topics_and_subscriptions_are_not_found",
    ),
    "every receiver attaches a receiving link first, which sessions, forwarding or a status may forbid": (
        "test_forwarding::test_source_is_not_received_from",
        "test_forwarding_dead_letters::test_dead_letters_move",
        "test_forwarding_topics::test_subscription_to_queue_and_topic",
        "test_resubmit::test_disabled_queue",
        "test_status::test_a_queue_may_begin_with_any_status",
        "test_status::test_sessions",
        "test_status::test_subscription",
        "test_topics::test_disabled_subscription_still_gets_copies",
        "test_topics::test_peek_on_a_topic_shows_scheduled_messages_only",
        "sessions/test_session_refusals::test_receiver_without_a_session_is_refused",
        "sessions/test_session_refusals::test_send_without_a_session_is_refused",
        "sessions/test_session_traffic::test_batches_of_sessions",
        "sessions/test_session_traffic::test_peek",
        "sessions/test_session_traffic::test_whole_session_is_in_one_partition",
    ),
    "a client's credit requests messages, so prefetched ones are locked": (
        "test_prefetch::test_expired_buffered_messages_hide_nothing",
    ),
    # Tests that would prove nothing more.
    "threads and stores of this process": ("test_store_stall", "test_threads"),
    "hundreds of links, which take too long to attach": (
        "test_forwarding_outage",
        "sessions/test_session_turns::test_chatty_session_does_not_starve_others",
    ),
}
"""Reasons for excluding tests over AMQP, with the folders, files or tests."""


LEFT_OUT_OPTION = "--left-out"


def left_out() -> Iterator[str]:
    """Iterate over the excluded entries."""
    for places in LEFT_OUT.values():
        yield from places


def transports_of(metafunc: pytest.Metafunc) -> tuple[str, ...]:
    """Return the transports of a test; with `--left-out`, AMQP for excluded tests and none for others."""
    file = Path(metafunc.module.__file__).with_suffix("")
    reaches = CONTRACT in file.parents and not {"client", "admin"}.isdisjoint(metafunc.fixturenames)
    place = file.relative_to(CONTRACT) if CONTRACT in file.parents else file
    names = {str(place), *map(str, place.parents), f"{place}::{metafunc.function.__name__}"}
    is_left_out = not names.isdisjoint(left_out())
    if metafunc.config.getoption(LEFT_OUT_OPTION):
        return ("amqp",) if reaches and is_left_out else ()
    over_amqp = ("amqp",) if reaches and not is_left_out else ()
    over_http = http_transport.transports_of(str(place), metafunc.function.__name__) if reaches else ()
    is_about_messages = CONTRACT in file.parents and not {"client", "aio_client"}.isdisjoint(metafunc.fixturenames)
    over_network = client_transport.STORES if is_about_messages else ()
    if not names.isdisjoint(client_transport.left_out()):
        over_network = ()
    return (*STORES, *over_amqp, *over_http, *over_network)


def own_axes(metafunc: pytest.Metafunc) -> Iterator[str]:
    """Iterate over the parameters of a test's own marks."""
    for mark in metafunc.definition.iter_markers("parametrize"):
        names = mark.args[0]
        yield from map(str.strip, names.split(",")) if isinstance(names, str) else names


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Run a test on each of its transports; over AMQP with partitioned entities only, to save time."""
    if "transport" not in metafunc.fixturenames:
        return
    transports = transports_of(metafunc)
    if "partitioned" not in metafunc.fixturenames or "partitioned" in own_axes(metafunc):
        mark = pytest.mark.parametrize("transport", transports, indirect=True)
    else:
        scenes = [
            pytest.param(transport, partitioned, id=f"{transport}-{'partitioned' if partitioned else 'plain'}")
            for transport in transports
            for partitioned in (True, False)
            if client_transport.PARTITIONED.get(transport, partitioned) is partitioned
            and (partitioned or transport in STORES or transport in client_transport.STORES)
        ]
        mark = pytest.mark.parametrize(("transport", "partitioned"), scenes, indirect=True)
    metafunc.definition.add_marker(mark)


def try_left_out(items: list[pytest.Item]) -> None:
    """Keep the tests that are excluded over AMQP, and expect them to fail.

    The marks are not strict, since an entry may cover several tests: `unexpected_passes` evaluates them together.
    """
    callspecs = [(item, getattr(item, "callspec", None)) for item in items]
    items[:] = [item for item, callspec in callspecs if callspec and callspec.params.get("transport") == "amqp"]
    for item in items:
        item.add_marker(pytest.mark.xfail(reason="left out over AMQP", strict=False))


def unexpected_passes(reports: dict[str, list[pytest.TestReport]]) -> list[str]:
    """Return the entries whose tests all passed."""

    def places(outcome: str) -> set[str]:
        ids = [report.nodeid.partition("[")[0] for report in reports.get(outcome, [])]
        return {name.removeprefix("tests/contract/").replace(".py::", "::") for name in ids}

    return sorted((places("xpassed") - places("xfailed")).intersection(left_out()))
