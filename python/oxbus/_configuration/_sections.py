# SPDX-License-Identifier: Apache-2.0
"""Access to one object of a configuration file; every error names the place in the file."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from oxbus.management._durations import to_milliseconds, to_timedelta

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import timedelta

_KINDS = {dict: "an object", list: "a list", str: "a string", bool: "true or false", int: "an integer"}


class Section:
    """An object of the file.

    Args:
        value: The value in the file.
        path: Its path in the file, such as ``UserConfig.Namespaces[0].Queues[2]``; empty for the whole file.
        keys: The keys that it may have.

    Raises:
        ValueError: The value is not an object, or has an unknown key.
    """

    def __init__(self, value: object, path: str, keys: Collection[str]) -> None:
        self.path = path
        if not isinstance(value, Mapping):
            raise self._wrong("", f"must be {_KINDS[dict]}, not {_shown(value)}")
        self._values = value
        for key in value:
            if key not in keys:
                close = difflib.get_close_matches(str(key), keys, n=1)
                hint = f"did you mean {close[0]}?" if close else f"the keys here are {', '.join(keys)}"
                raise self._wrong(key, f"unknown key; {hint}")

    def __contains__(self, key: str) -> bool:
        """Return whether the key is present and not null."""
        return self._values.get(key) is not None

    def location(self, key: object) -> str:
        """Return the location of a key in the file."""
        return ".".join(filter(None, (self.path, str(key))))

    def section(self, key: str, keys: Collection[str]) -> Section:
        """Return the object under a key; an empty one if it is missing."""
        return Section(self._values[key] if key in self else {}, self.location(key), keys)

    def required_section(self, key: str, keys: Collection[str]) -> Section:
        """Return the object under a required key."""
        return Section(self._required(key), self.location(key), keys)

    def sections(self, key: str, keys: Collection[str]) -> list[Section]:
        """Return the objects of the list under a key; an empty list if it is missing."""
        items = self._of_kind(key, list) if key in self else []
        return [Section(item, f"{self.location(key)}[{index}]", keys) for index, item in enumerate(items)]

    def values(self, key: str) -> dict[str, Any]:
        """Return the strings, numbers and booleans of the object under a key; empty if it is missing."""
        values = self._of_kind(key, dict) if key in self else {}
        for name, value in values.items():
            if not isinstance(value, str | int | float):
                raise self._wrong(f"{key}.{name}", f"must be a string, a number, true or false, not {_shown(value)}")
        return dict(values)

    def text(self, key: str) -> str:
        """Return the string under a key."""
        return str(self._of_kind(key, str))

    def flag(self, key: str) -> bool:
        """Return the boolean under a key."""
        return bool(self._of_kind(key, bool))

    def number(self, key: str) -> int:
        """Return the integer under a key."""
        return int(self._of_kind(key, int))

    def duration(self, key: str) -> timedelta:
        """Return the ISO 8601 duration under a key."""
        text = self.text(key)
        try:
            return to_timedelta(to_milliseconds(key, text) or 0)
        except ValueError:
            raise self._wrong(key, f"must be an ISO 8601 duration such as PT30S or P1DT2H: `{text}`") from None

    def one_of(self, key: str, choices: Collection[str]) -> str:
        """Return the string under a key, which must be one of `choices`."""
        text = self.text(key)
        if text not in choices:
            raise self._wrong(key, f"must be {' or '.join(choices)}: `{text}`")
        return text

    def _required(self, key: str) -> Any:
        if key not in self:
            raise self._wrong(key, "is missing")
        return self._values[key]

    def _of_kind(self, key: str, kind: type) -> Any:
        value = self._required(key)
        # bool is a subclass of int in Python, not in the file.
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self._wrong(key, f"must be {_KINDS[kind]}, not {_shown(value)}")
        return value

    def _wrong(self, key: object, problem: str) -> ValueError:
        return ValueError(f"config: {self.location(key) or 'the file'} {problem}")


def _shown(value: object) -> str:
    return next((name for kind, name in _KINDS.items() if type(value) is kind), f"`{value}`")
