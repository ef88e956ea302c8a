# SPDX-License-Identifier: Apache-2.0
"""Error texts of the package in command-line words: commands instead of calls."""

from __future__ import annotations

import re
from typing import Final

_VERBS: Final = {"create": "create", "get": "show", "update": "update", "delete": "delete", "list": "list"}
_CALL: Final = re.compile(r"\b(create|get|update|delete|list)_(queue|topic|subscription|rule)s?\b(?:\(\))?")
_RECEIVER: Final = re.compile(r"\bget_(queue|subscription)_receiver\b(?:\(\))?")
_SENDER: Final = re.compile(r"\bget_(?:queue|topic)_sender\b(?:\(\))?")
_SETTING: Final = re.compile(r"\b([a-z]+(?:_[a-z]+)*)=\"([^\"]*)\"")


#: Parts of error texts that name what only a program has, and what a command has instead.
_PHRASES: Final = {
    "as connection_verify": "with --connection-verify FILE",
    "connection_verify": "--connection-verify",
    "close it there, or own other partitions": (
        "close it there, or, if that is `oxbus serve`, use --connection-string with the text that it printed"
    ),
    "pass rules, or listen on": "set OXBUS_SAS_KEY or pass --rules FILE, or listen on",
}


def in_commands(text: str) -> str:
    """Replace calls in an error text by commands: ``create_queue`` becomes ``oxbus queue create``, and so on."""
    for phrase, other in _PHRASES.items():
        text = text.replace(phrase, other)
    text = _CALL.sub(lambda found: f"`oxbus {found[2]} {_VERBS[found[1]]}`", text)
    text = _RECEIVER.sub(
        lambda found: "`oxbus receive TOPIC --subscription NAME`" if found[1] == "subscription" else "`oxbus receive`",
        text,
    )
    text = _SENDER.sub("`oxbus send`", text)
    return _SETTING.sub(lambda found: f"--{found[1].replace('_', '-')} {found[2]}", text)
