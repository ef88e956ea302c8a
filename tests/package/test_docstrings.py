# SPDX-License-Identifier: Apache-2.0
"""Every public function documents its parameters, its errors and its source.

Covers `oxbus.aio`, `oxbus.aio.management`, `oxbus.management`, and the stub of the native module, whose docstrings are
the public documentation of the synchronous classes.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import importlib
import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import oxbus.exceptions
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
STUB = ROOT / "python/oxbus/_oxbus.pyi"
MODULES = ("oxbus.aio", "oxbus.aio.management", "oxbus.management")

SECTION = re.compile(r"^(?P<name>[A-Z]\w+):$\n(?P<body>(?:^(?:[ \t].*)?$\n?)*)", re.MULTILINE)
ENTRY = re.compile(r"^ {4}(\w+): \S", re.MULTILINE)


class Documented(NamedTuple):
    """A public function and its class."""

    name: str
    parameters: tuple[str, ...]
    doc: str
    owner_doc: str = ""


def entries(doc: str, section: str) -> list[str]:
    """The names that a section of a docstring explains."""
    bodies = [match["body"] for match in SECTION.finditer(doc + "\n") if match["name"] == section]
    return [name for body in bodies for name in ENTRY.findall(body)]


def is_exception(name: str) -> bool:
    """Whether a name is that of an exception, of oxbus or built in."""
    found = getattr(oxbus.exceptions, name, getattr(builtins, name, None))
    return isinstance(found, type) and issubclass(found, BaseException)


def faults(function: Documented) -> list[str]:
    """The missing parts of the docstring of a function."""
    if not function.doc:
        return ["has no docstring"]
    explained = entries(function.doc, "Args")
    found = [f"does not explain {name}" for name in function.parameters if name not in explained]
    found += [f"explains {name}, which it does not take" for name in explained if name not in function.parameters]
    errors = entries(function.doc, "Raises")
    if not errors and "Raises nothing." not in " ".join(function.doc.split()):
        found.append("states neither what it raises nor that it raises nothing")
    found += [f"raises {name}, which is no exception" for name in errors if not is_exception(name)]
    if "Source:" not in function.doc + function.owner_doc:
        found.append("names no source")
    return found


def functions_of(owner: type[Any]) -> Iterator[Documented]:
    """The constructor, public methods and properties of a class, except those inherited from Python's classes."""
    owner_doc = inspect.getdoc(owner) or ""
    for name in dir(owner):
        found = inspect.getattr_static(owner, name)
        if isinstance(found, property):
            function: Any = found.fget
        else:
            function = getattr(found, "__func__", found)
        is_constructor = name == "__init__" and not dataclasses.is_dataclass(owner)
        if (name.startswith("_") and not is_constructor) or not inspect.isfunction(function):
            continue
        if not function.__module__.startswith("oxbus"):
            continue
        parameters = tuple(it for it in inspect.signature(function).parameters if it not in {"self", "cls"})
        doc = inspect.cleandoc(function.__doc__ or "")
        yield Documented(f"{owner.__module__}.{owner.__name__}.{name}", parameters, doc, owner_doc)


def public_functions() -> Iterator[Documented]:
    """The public functions of the modules."""
    for name in MODULES:
        module = importlib.import_module(name)
        for key in module.__all__:
            value = getattr(module, key)
            if inspect.isclass(value):
                yield from functions_of(value)
            elif inspect.isfunction(value):
                yield Documented(
                    f"{name}.{key}", tuple(inspect.signature(value).parameters), inspect.getdoc(value) or ""
                )


def stub_functions() -> Iterator[Documented]:
    """The functions of the stub; its properties document no errors."""
    for node in ast.parse(STUB.read_text()).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield stub_function(node, "")
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            for part in node.body:
                if isinstance(part, ast.FunctionDef) and is_public_method(part):
                    yield stub_function(part, node.name, ast.get_docstring(node) or "")


def is_public_method(function: ast.FunctionDef) -> bool:
    """Whether it is a public method or a constructor, and neither a property nor its setter."""
    decorators = {ast.unparse(decorator).rpartition(".")[2] for decorator in function.decorator_list}
    if decorators & {"property", "setter"}:
        return False
    return function.name == "__new__" or not function.name.startswith("_")


def stub_function(function: ast.FunctionDef, owner: str, owner_doc: str = "") -> Documented:
    """The function of a node."""
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, arguments.vararg, *arguments.kwonlyargs, arguments.kwarg]
    names = tuple(it.arg for it in every if it is not None and it.arg not in {"self", "cls"})
    doc = inspect.cleandoc(ast.get_docstring(function) or "")
    return Documented(".".join(filter(None, ("oxbus", owner, function.name))), names, doc, owner_doc)


EVERY = [*public_functions(), *stub_functions()]


@pytest.mark.parametrize("function", EVERY, ids=lambda function: function.name)
def test_public_function_documents_parameters_errors_and_source(function: Documented) -> None:
    """The docstring explains each parameter, names each error or states that there is none, and cites its source."""
    assert not faults(function)


@pytest.mark.parametrize(
    "owner",
    [
        value
        for name in MODULES
        for value in vars(importlib.import_module(name)).values()
        if inspect.isclass(value) and "__dataclass_params__" in vars(value)
    ],
    ids=lambda owner: owner.__name__,
)
def test_data_class_documents_its_fields(owner: type[Any]) -> None:
    """The docstring explains each field, and cites its source."""
    doc = inspect.getdoc(owner) or ""
    assert entries(doc, "Attributes") == [it.name for it in dataclasses.fields(owner) if it.name != "_"]
    assert "Source:" in doc


GOOD = """Do it.

Args:
    first: What to do.
        It may take long.

Raises:
    ValueError: It is wrong.

Source: docs/behaviour.md B-001.
"""


@pytest.mark.parametrize(
    ("doc", "parameters", "fault"),
    [
        ("", (), "has no docstring"),
        (GOOD, ("first", "second"), "does not explain second"),
        (GOOD, (), "explains first, which it does not take"),
        (GOOD.replace("Raises:", "Errors:"), ("first",), "states neither what it raises nor that it raises nothing"),
        (GOOD.replace("ValueError", "WrongError"), ("first",), "raises WrongError, which is no exception"),
        (GOOD.replace("Source:", "From:"), ("first",), "names no source"),
    ],
)
def test_missing_part_is_found(doc: str, parameters: tuple[str, ...], fault: str) -> None:
    """The check itself fails when a part is missing."""
    assert faults(Documented("it", parameters, doc)) == [fault]


def test_complete_docstring_has_no_fault() -> None:
    """With errors, and without."""
    assert faults(Documented("it", ("first",), GOOD)) == []
    assert faults(Documented("it", (), "Do it. Raises nothing.\n\nSource: docs/bulk.md.")) == []


def test_the_check_finds_the_public_functions() -> None:
    """The other checks would pass if the search found no function."""
    names = {function.name.rpartition("oxbus.")[2] for function in EVERY}
    assert len(names) > 150
    assert {"aio._receiver.ServiceBusReceiver.receive_messages", "ServiceBusSender.send_messages"} <= names
