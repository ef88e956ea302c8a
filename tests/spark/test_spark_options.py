# SPDX-License-Identifier: Apache-2.0
"""The options of `format("oxbus")`: all are checked, in any letter case, and no text shows a secret."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from oxbus.spark.source.options import OPTIONS, read_options
from oxbus.spark.source.settings import sink_settings, source_settings

if TYPE_CHECKING:
    from pathlib import Path

    from oxbus.spark.source.options import Use

CONNECTION = {"connectionString": "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=k;SharedAccessKey=c2VjcmV0"}
QUEUE = CONNECTION | {"queue": "q"}


def test_names_are_compared_without_letter_case() -> None:
    """Spark passes them in lower case, and users write them in any case."""
    settings = source_settings({name.upper(): value for name, value in QUEUE.items()}, "batch read")
    assert settings.entity == "q"


def test_defaults_are_those_of_the_guide() -> None:
    """A stream settles, a batch browses; a stream writes exactly once, a batch at least once."""
    stream, batch = source_settings(QUEUE, "stream read"), source_settings(QUEUE, "batch read")
    assert (stream.peek_lock, batch.peek_lock) == (True, False)
    assert (stream.fail_on_data_loss, batch.fail_on_data_loss) == (True, False)
    assert (stream.messages_max, stream.bytes_max, stream.lock_seconds) == (100_000, 256 << 20, 60.0)
    assert (batch.task_bytes, batch.tasks_min, batch.tasks_max) == (32 << 20, 1, 16)
    assert sink_settings(QUEUE, "stream write").staged
    assert not sink_settings(QUEUE, "batch write").staged


def test_consumer_is_the_same_for_every_run() -> None:
    """The consumer's name depends on the broker and the entity, not on the key."""
    again = {**QUEUE, "connectionString": CONNECTION["connectionString"].replace("c2VjcmV0", "b3RoZXI=")}
    one, two = (source_settings(it, "stream read").consumer for it in (QUEUE, again))
    other = source_settings(QUEUE | {"queue": "r"}, "stream read").consumer
    assert one == two != other


@pytest.mark.parametrize(
    ("options", "entity"),
    [
        ({"queue": "q"}, "q"),
        ({"queue": "q", "subQueue": "deadletter"}, "q/$deadletterqueue"),
        ({"topic": "t", "subscription": "s"}, "t/Subscriptions/s"),
        ({"topic": "t", "subscription": "s", "subQueue": "deadLetter"}, "t/Subscriptions/s/$deadletterqueue"),
    ],
)
def test_entity_is_named_in_one_way(options: dict[str, str], entity: str) -> None:
    """The name is that of a receiver."""
    assert source_settings(CONNECTION | options, "batch read").entity == entity


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("maxBytesPerTrigger", "256m", 256 << 20),
        ("maxBytesPerTrigger", "512 kb", 512 << 10),
        ("lockDuration", "500ms", 0.5),
        ("lockDuration", "2m", 120.0),
        ("lockDuration", "30", 30.0),
        ("startingTimestamp", "2026-03-01T12:00:00Z", datetime(2026, 3, 1, 12, tzinfo=UTC)),
        ("startingTimestamp", "1772366400000000", datetime(2026, 3, 1, 12, tzinfo=UTC)),
        ("startingOffsets", '{"0": 17, "3": 5}', {0: 17, 3: 5}),
        ("startingOffsets", "Latest", "latest"),
        ("includeBody", "FALSE", False),
        ("partitionFilter", "0, 3,7", frozenset({0, 3, 7})),
    ],
)
def test_values_are_read(name: str, value: str, read: object) -> None:
    """Sizes, durations, moments, offsets and choices."""
    assert read_options({name: value}, "stream read")[name] == read


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("maxMessagesPerTrigger", "0"),
        ("maxMessagesPerTrigger", "many"),
        ("maxBytesPerTrigger", "0"),
        ("lockDuration", "-1s"),
        ("startingTimestamp", "yesterday"),
        ("startingOffsets", '{"a": 1}'),
        ("startingOffsets", '{"0": -1}'),
        ("startingOffsets", '{"0": true}'),
        ("startingOffsets", "[1]"),
        ("includeBody", "yes"),
        ("receiveMode", "receiveAndDelete"),
        ("partitionFilter", "0,,1"),
        ("subQueue", "transfer"),
        ("queue", " "),
    ],
)
def test_value_of_a_wrong_form_is_refused(name: str, value: str) -> None:
    """The error names the option and its valid values."""
    with pytest.raises(ValueError, match=f"option {name} takes "):
        read_options({name: value}, "stream read")


@pytest.mark.parametrize(
    ("use", "options", "text"),
    [
        ("batch read", {"colour": "red"}, "unknown option colour"),
        ("batch read", {"maxPartition": "3"}, "did you mean maxPartitions"),
        ("batch read", {"maxMessagesPerTrigger": "3"}, "no meaning for a batch read"),
        ("batch write", {"consumer": "c"}, "only for a stream read"),
        ("stream write", {"subscription": "s"}, "no meaning for a stream write"),
        ("batch read", {"receiveMode": "peekLock"}, "availableNow"),
        ("batch read", {"topic": "t"}, "together with topic"),
        ("stream read", {"receiveMode": "peek", "subQueue": "deadLetter"}, "use peekLock"),
        ("stream read", {"startingOffsets": '{"0": 1}'}, "receiveMode peek"),
        ("stream read", {"startingTimestamp": "0"}, "receiveMode peek"),
        ("stream read", {"partitionFilter": "0"}, "only when browsing"),
        ("stream read", {"receiveMode": "peek", "consumer": "c"}, "when browsing"),
        ("batch read", {"startingOffsets": "earliest", "startingTimestamp": "0"}, "both given"),
        ("batch read", {"endingOffsets": "earliest"}, "takes latest"),
        ("batch read", {"minPartitions": "3", "maxPartitions": "2"}, "above maxPartitions"),
        ("batch write", {"topic": "t"}, "both given"),
        ("batch write", {"sinkId": "s"}, "exactlyOnce"),
        ("batch read", {"connectionStringFile": "f"}, "only one"),
        ("stream write", {"asyncProgressTrackingEnabled": "true"}, "leave it out"),
    ],
)
def test_options_that_contradict_are_refused(use: Use, options: dict[str, str], text: str) -> None:
    """Each error has a remedy."""
    read = sink_settings if use.endswith("write") else source_settings
    with pytest.raises(ValueError, match=text):
        read(QUEUE | options, use)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (CONNECTION, "option queue is missing"),
        (CONNECTION | {"topic": "t"}, "option subscription is missing"),
        (CONNECTION | {"subscription": "s"}, "option topic is missing"),
        ({"queue": "q"}, "connectionString is missing"),
    ],
)
def test_option_that_is_missing_is_named(options: dict[str, str], text: str) -> None:
    """A read needs a broker and an entity."""
    with pytest.raises(ValueError, match=text):
        source_settings(options, "batch read")


def test_connection_string_may_come_from_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a file or in the environment of the driver, so that no plan shows it."""
    file = tmp_path / "connection"
    file.write_text(CONNECTION["connectionString"] + "\n")
    monkeypatch.setenv("OXBUS_CONNECTION", CONNECTION["connectionString"])
    for options in ({"connectionStringFile": str(file)}, {"connectionStringEnv": "OXBUS_CONNECTION"}):
        found = source_settings(options | {"queue": "q"}, "batch read").connection
        assert found.string == CONNECTION["connectionString"]
    with pytest.raises(ValueError, match="no variable `NONE_SUCH`"):
        source_settings({"connectionStringEnv": "NONE_SUCH", "queue": "q"}, "batch read")
    with pytest.raises(ValueError, match="cannot read"):
        source_settings({"connectionStringFile": str(tmp_path / "none"), "queue": "q"}, "batch read")


def test_settings_show_no_secret_and_can_be_pickled() -> None:
    """Settings are sent to tasks and appear in tracebacks."""
    for settings in (source_settings(QUEUE, "stream read"), sink_settings(QUEUE, "stream write")):
        assert "c2VjcmV0" not in repr(settings)
        assert pickle.loads(pickle.dumps(settings)) == settings  # noqa: S301 (a value of the test)


def test_option_names_differ_by_more_than_case() -> None:
    """No two options differ by letter case only."""
    assert len({option.name.lower() for option in OPTIONS}) == len(OPTIONS)
    assert all(option.uses for option in OPTIONS)
