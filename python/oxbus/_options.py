# SPDX-License-Identifier: Apache-2.0
"""Errors for calls with wrong arguments. They name the public class and suggest the nearest option."""

from __future__ import annotations

import inspect
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

F = TypeVar("F", bound="Callable[..., Any]")
T = TypeVar("T")


class Choice:
    """Mixin of an `Enum` whose members may be given as text; an unknown text raises an error that lists all members."""

    __slots__ = ()

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        choices: Any = cls
        values = [member.value for member in choices]
        allowed = ", ".join(repr(value) for value in values)
        near = _nearest(value, values) if isinstance(value, str) else None
        suggestion = "" if near is None else f"; did you mean {near!r}?"
        raise ValueError(f"{value!r} is not a valid {cls.__name__}: use one of {allowed}{suggestion}")


def unknown_option(call: str, name: str, known: Iterable[str]) -> TypeError:
    """Return the error for a call with an unknown option.

    Args:
        call: The call as written, such as ``ServiceBusClient.get_queue_receiver``.
        name: The option.
        known: The options that it takes.
    """
    known = list(known)
    near = _nearest(name, known)
    advice = f"did you mean {near!r}?" if near is not None else f"it takes {', '.join(known) or 'none'}"
    return TypeError(f"{call}() got an unexpected keyword argument {name!r}; {advice}")


def unknown_option_of(owner: type, method: str, name: str) -> TypeError:
    """Return the same error for a call of a native class; `method` is empty for its constructor."""
    function = getattr(owner, method) if method else owner
    known = [name for name in inspect.signature(function).parameters if name != "self"]
    return unknown_option(f"{owner.__name__}.{method}" if method else owner.__name__, name, known)


def explains_options(owner: type[T], *, hot: Collection[str] = ()) -> type[T]:
    """Decorate a class: errors of its public and inherited methods explain unknown options.

    Args:
        owner: The class.
        hot: Methods that stay as they are, because the explanation takes longer than a call of them.
    """
    for name in dir(owner):
        if name in hot or (name.startswith("_") and name != "__init__"):
            continue
        found = inspect.getattr_static(owner, name)
        is_classmethod = isinstance(found, classmethod)
        function = found.__func__ if is_classmethod else found
        if not inspect.isfunction(function) or not _takes_options(function):
            continue
        explained = _explained(function, owner.__name__ if name == "__init__" else f"{owner.__name__}.{name}")
        setattr(owner, name, classmethod(explained) if is_classmethod else explained)
    return owner


def explains(function: F) -> F:
    """Decorate a function: its errors explain unknown options."""
    explained: Any = _explained(function, function.__name__)
    return cast("F", explained)


def _takes_options(function: Any) -> bool:
    """Return whether a method takes more than `self`, without computing its signature."""
    code = function.__code__
    return bool(code.co_argcount + code.co_kwonlyargcount > 1 or function.__kwdefaults__)


def _explained(function: Callable[..., Any], call: str) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def explained_coroutine(*args: object, **options: object) -> Any:
            try:
                called = function(*args, **options)
            except TypeError as error:
                raise _argument_error(error, function, call, options) from None
            return await called

        return explained_coroutine

    @wraps(function)
    def explained(*args: object, **options: object) -> Any:
        try:
            return function(*args, **options)
        except TypeError as error:
            # The function did not start: the arguments do not fit its signature.
            if error.__traceback__ is not None and error.__traceback__.tb_next is None:
                raise _argument_error(error, function, call, options) from None
            raise

    return explained


def _argument_error(error: TypeError, function: Callable[..., Any], call: str, options: Iterable[str]) -> TypeError:
    known = list(_option_names(function))
    for name in options:
        if name not in known:
            return unknown_option(call, name, known)
    return TypeError(str(error).replace(function.__qualname__, call, 1))


def _option_names(function: Callable[..., Any]) -> Iterator[str]:
    """Iterate over the options of a function, those of its connection included."""
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            if not str(parameter.annotation).startswith("Unpack["):
                continue
            from oxbus._remote import _options  # noqa: PLC0415 (it imports this module)

            # The annotation is a text such as "Unpack[ConnectionOptions]".
            known: Any = getattr(_options, str(parameter.annotation).removeprefix("Unpack[").removesuffix("]"))
            yield from known.__annotations__
        elif name not in {"self", "cls"}:
            yield name


def _nearest(name: str, known: list[str]) -> str | None:
    """Return the nearest known name, if any."""
    from difflib import get_close_matches  # noqa: PLC0415 (only errors need it)

    close = get_close_matches(name.lower(), known, n=1) or [other for other in known if name.lower() in other]
    return close[0] if close else None
