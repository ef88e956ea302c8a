# SPDX-License-Identifier: Apache-2.0
"""The interface of the installed azure-servicebus SDK, and its counterpart here.

The comparison covers names, kinds (class, call, data), enum values, parents of errors, and signatures: parameter
names, order, kind and default. It skips the SDK's ``**kwargs``, since all options here are typed, and annotations.
"""

from __future__ import annotations

import enum
import importlib
import inspect
from typing import Any, NoReturn

SHARED_MODULES = ("", "aio", "amqp", "exceptions", "management")
PROTOCOL = (
    "__aenter__",
    "__aexit__",
    "__aiter__",
    "__anext__",
    "__enter__",
    "__exit__",
    "__getitem__",
    "__iter__",
    "__len__",
    "__next__",
    "__setitem__",
)

SAME, DIFFERS, ABSENT = "same", "differs", "absent"


def statuses() -> dict[str, str]:
    """Each name of the SDK with its status here: ``management.QueueProperties.get`` → ``same``."""
    found: dict[str, str] = {}
    for module in SHARED_MODULES:
        theirs = importlib.import_module(f"azure.servicebus.{module}".rstrip("."))
        ours = importlib.import_module(f"oxbus.{module}".rstrip("."))
        for name in _public_names(theirs):
            path = f"{module}.{name}".lstrip(".")
            found |= _compare(path, getattr(theirs, name), getattr(ours, name, None))
    return found


def refused_calls() -> list[tuple[type, str]]:
    """The methods that raise because this version does not support them: they are annotated with `NoReturn`."""
    import oxbus  # noqa: PLC0415
    import oxbus.management  # noqa: PLC0415

    classes = (oxbus.ServiceBusClient, oxbus.management.ServiceBusAdministrationClient)
    return [(owner, name) for owner in classes for name in dir(owner) if _is_refused(getattr(owner, name))]


def _public_names(module: Any) -> list[str]:
    if hasattr(module, "__all__"):
        return sorted(module.__all__)
    return sorted(name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__)


def _compare(path: str, theirs: Any, ours: Any) -> dict[str, str]:
    if ours is None:
        return {path: ABSENT}
    if inspect.isclass(theirs):
        return _compare_classes(path, theirs, ours)
    if inspect.isfunction(theirs):
        return {path: SAME if _parameters(theirs) == _parameters(ours) else DIFFERS}
    return {path: SAME if repr(theirs) == repr(ours) else DIFFERS}


def _compare_classes(path: str, theirs: type, ours: type) -> dict[str, str]:
    if issubclass(theirs, enum.Enum):
        same = {member.name: member.value for member in theirs} == {
            member.name: member.value
            for member in ours  # type: ignore[attr-defined]
        }
        return {path: SAME if same else DIFFERS}
    if issubclass(theirs, Exception):
        same = _parents(theirs) == _parents(ours) and _parameters(theirs) == _parameters(ours)
        return {path: SAME if same else DIFFERS}
    found = {path: SAME, f"{path}.__init__": _compare_constructors(theirs, ours)}
    for name in dir(theirs):
        known = inspect.getattr_static(theirs, name)
        if (name.startswith("_") and name not in PROTOCOL) or known is inspect.getattr_static(object, name, None):
            continue
        if inspect.isclass(known):
            continue
        found[f"{path}.{name}"] = _compare_members(name, theirs, ours)
    return found


def _compare_constructors(theirs: type, ours: type) -> str:
    try:
        ours_parameters = _parameters(ours)
    except ValueError:
        return ABSENT  # A native class without a public constructor.
    return SAME if _parameters(theirs) == ours_parameters else DIFFERS


def _compare_members(name: str, theirs: type, ours: type) -> str:
    their_member = inspect.getattr_static(theirs, name)
    our_member = inspect.getattr_static(ours, name, None)
    if our_member is None or _is_refused(getattr(ours, name)):
        return ABSENT
    if not _is_call(their_member):
        return DIFFERS if _is_call(our_member) else SAME
    if not _is_call(our_member):
        return DIFFERS
    if name.startswith("__"):
        return SAME  # The language fixes their parameters.
    return SAME if _parameters(getattr(theirs, name)) == _parameters(getattr(ours, name)) else DIFFERS


def _is_call(member: Any) -> bool:
    return isinstance(member, classmethod | staticmethod) or callable(member)


def _is_refused(member: Any) -> bool:
    return inspect.isfunction(member) and inspect.signature(member).return_annotation in {"NoReturn", NoReturn}


def _parents(error: type) -> list[str]:
    return [parent.__name__ for parent in error.__mro__[1:] if parent.__name__ != "AzureError"]


def _parameters(call: Any) -> list[tuple[str, str, Any]]:
    return [
        (parameter.name, parameter.kind.name, _comparable(parameter.default))
        for parameter in inspect.signature(call).parameters.values()
        if parameter.name != "self" and parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]


def _comparable(default: Any) -> Any:
    """An enum's value, or the name of a class of the package: the classes of both packages differ."""
    if isinstance(default, enum.Enum):
        return default.value
    known = type(default).__module__.startswith(("azure.", "oxbus."))
    return type(default).__name__ if known else default
