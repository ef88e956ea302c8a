# SPDX-License-Identifier: Apache-2.0
"""The command line has a flag for every option of the API: a new option without a flag fails here."""

from __future__ import annotations

import argparse
import inspect
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest
from oxbus import ServiceBusMessage
from oxbus.cli._commands import make_parser
from oxbus.management import (
    CorrelationRuleFilter,
    QueueProperties,
    ServiceBusAdministrationClient,
    SubscriptionProperties,
    TopicProperties,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNTED = {"size_in_bytes"}
"""An option of the SDK that is accepted and has no effect."""
SECRET = {"authorization_rules"}
"""Options that contain keys: other users of the machine could read them in the arguments."""
READ_ONLY = {"availability_status", "total_max_size_in_megabytes"}


def parsers(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command with its parser."""
    inner = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    yield path, parser
    for action in inner:
        for name, child in action.choices.items():
            yield from parsers(child, (*path, name))


COMMANDS = dict(parsers(make_parser()))
LEAVES = [path for path, parser in COMMANDS.items() if parser.get_default("run")]


def names(*path: str) -> set[str]:
    """The options of a command, by their names in the API."""
    return {action.dest for action in COMMANDS[path]._actions}


def parameters(call: Any) -> set[str]:
    """The keyword options of a call."""
    found = inspect.signature(call).parameters.values()
    return {parameter.name for parameter in found if parameter.kind is parameter.KEYWORD_ONLY}


@pytest.mark.parametrize("kind", ["queue", "topic", "subscription"])
def test_every_option_of_create_has_a_flag(kind: str) -> None:
    """The options of `create_queue`, `create_topic` and so on."""
    options = parameters(getattr(ServiceBusAdministrationClient, f"create_{kind}"))
    assert options - names(kind, "create") == options & (COUNTED | SECRET)


@pytest.mark.parametrize(
    ("kind", "model"),
    [("queue", QueueProperties), ("topic", TopicProperties), ("subscription", SubscriptionProperties)],
)
def test_every_property_that_can_change_has_a_flag(kind: str, model: Any) -> None:
    """The fields of the data classes that `update_queue` and the like accept."""
    options = {field.name for field in fields(model)}
    assert options - names(kind, "update") == options & (COUNTED | SECRET | READ_ONLY)


@pytest.mark.parametrize("command", [("rule", "create"), ("rule", "update"), ("subscription", "create")], ids=" ".join)
def test_every_part_of_a_rule_has_a_flag(command: tuple[str, ...]) -> None:
    """The fields of a correlation filter, a SQL filter and an action, and their values."""
    assert {field.name for field in fields(CorrelationRuleFilter)} <= names(*command)
    assert {"sql", "true", "false", "action", "parameters"} <= names(*command)


def test_every_property_of_a_message_has_a_flag() -> None:
    """The options of `ServiceBusMessage`."""
    assert set(inspect.signature(ServiceBusMessage).parameters) <= names("send")


def test_every_choice_of_dead_letters_has_a_flag() -> None:
    """The options of `resubmit_dead_letters` and `purge_messages`."""
    resubmit = parameters(ServiceBusAdministrationClient.resubmit_dead_letters)
    assert resubmit <= names("deadletter", "resubmit")
    purge = parameters(ServiceBusAdministrationClient.purge_messages) - {"sub_queue", "before_enqueued_time_utc"}
    assert purge | {"before"} <= names("deadletter", "purge")


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: " ".join(path) or "oxbus")
def test_every_command_has_help(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` shows its usage, its purpose, and a text for each option."""
    with pytest.raises(SystemExit) as end:
        make_parser().parse_args([*path, "--help"])
    assert end.value.code == 0
    shown = capsys.readouterr().out
    assert shown.startswith(" ".join(["usage: oxbus", *path]))
    assert COMMANDS[path].description
    silent = [action for action in COMMANDS[path]._actions if not action.help]
    assert [action.dest for action in silent if not isinstance(action, argparse._SubParsersAction)] == []


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_every_command_prints_json(path: tuple[str, ...]) -> None:
    """For programs."""
    assert "json" in names(*path)
