# SPDX-License-Identifier: Apache-2.0
"""The public names of a module are those of its `__all__`, in order."""

from __future__ import annotations

import importlib
import inspect
from importlib.metadata import version

import oxbus
import pytest

MODULES = [
    "oxbus",
    "oxbus.aio",
    "oxbus.aio.management",
    "oxbus.amqp",
    "oxbus.backups",
    "oxbus.bulk",
    "oxbus.exceptions",
    "oxbus.management",
    "oxbus.server",
    "oxbus.spark",
    "oxbus.testing",
]


def in_order(name: str) -> tuple[int, str]:
    """Constants first, then classes, then functions; by name within each."""
    if name.isupper():
        return 0, name
    return (1 if name[0].isupper() else 2), name


@pytest.mark.parametrize("name", MODULES)
def test_all_lists_the_public_names(name: str) -> None:
    """Every public name is in `__all__`, and nothing else is."""
    module = importlib.import_module(name)
    shown = {
        key
        for key, value in vars(module).items()
        if not key.startswith("_")
        and not inspect.ismodule(value)
        and key != "TYPE_CHECKING"
        and getattr(value, "__module__", "oxbus").startswith("oxbus")
    }
    assert shown == set(module.__all__)


@pytest.mark.parametrize("name", MODULES)
def test_all_is_sorted(name: str) -> None:
    """Constants, classes, functions, each by name: as ruff sorts it."""
    names = importlib.import_module(name).__all__
    assert names == sorted(names, key=in_order)


def test_version_is_that_of_the_package() -> None:
    """There is one version, written in Cargo.toml."""
    assert oxbus.__version__ == version("oxbus")


def test_unknown_name_is_an_attribute_error() -> None:
    """The lazy version does not make every name exist."""
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = oxbus.no_such_name
