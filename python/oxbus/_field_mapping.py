# SPDX-License-Identifier: Apache-2.0
"""Data classes that can also be read and written like a mapping from field name to value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar


class FieldMapping(Mapping[str, Any]):
    """A data class whose fields are also items: ``model["name"]`` is ``model.name``."""

    __slots__ = ()

    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, Any]]

    def _names(self) -> list[str]:
        return [field.name for field in fields(self)]

    def __getitem__(self, key: str) -> Any:
        """Return the field `key`; KeyError if there is none."""
        if key not in self._names():
            raise KeyError(key)
        return getattr(self, key)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the fields, in order."""
        return iter(self._names())

    def __len__(self) -> int:
        """Return the number of fields."""
        return len(self._names())

    def has_key(self, k: str) -> bool:
        """Return whether `k` is the name of a field. Raises nothing.

        Args:
            k: The name.

        Source: the SDK's `DictMixin.has_key`.
        """
        return k in self._names()


class MutableFieldMapping(FieldMapping):
    """A `FieldMapping` whose fields can also be set as items; fields cannot be added or removed."""

    __slots__ = ()

    def __setitem__(self, key: str, value: object) -> None:
        """Set the field `key`; KeyError if there is none."""
        if key not in self._names():
            raise KeyError(key)
        setattr(self, key, value)

    def __delitem__(self, key: str) -> None:
        """Reset the field `key` to None; KeyError if there is none."""
        self[key] = None

    def update(self, other: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> None:
        """Set several fields, or none if a name is unknown.

        Args:
            other: Field names with their values, as a mapping or as pairs.

        Raises:
            KeyError: A name is not a field; nothing is set.

        Source: the SDK's `DictMixin.update`.
        """
        changes = dict(other)
        for key in changes:
            if key not in self._names():
                raise KeyError(key)
        for key, value in changes.items():
            setattr(self, key, value)
