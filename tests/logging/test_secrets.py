# SPDX-License-Identifier: Apache-2.0
"""Every event can be provoked, and no line of the log contains a body, a property, a session, a key or a token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from event_table import events
from secret_words import WORDS

if TYPE_CHECKING:
    from collections.abc import Callable

EVENTS = {event.name: event for event in events()}


@pytest.mark.parametrize("name", EVENTS)
def test_event_is_emitted_and_shows_no_secret(name: str, provoke: Callable[[str], list[dict[str, Any]]]) -> None:
    """The event has its name, logger and level, and no data of messages or credentials."""
    lines = provoke(name)
    found = [line for line in lines if line.get("event") == name]
    assert found, [line["text"] for line in lines]
    event = EVENTS[name]
    for line in found:
        assert (line["name"], line["levelname"].lower()) == (event.logger, event.level)
        assert line["text"].startswith(name)
    for line in lines:
        shown = str(line)
        assert not [word for word in WORDS if word in shown], line["text"]


def test_rule_that_fails_shows_nothing_of_its_message(provoke: Callable[[str], list[dict[str, Any]]]) -> None:
    """The description of the dead letter has the whole error; the line has only its kind."""
    lines = provoke("message.dead_lettered/filter")
    (line,) = [line for line in lines if line.get("event") == "message.dead_lettered"]
    assert line["entity"] == "news/Subscriptions/all"
    assert not [word for word in WORDS if word in str(lines)]
