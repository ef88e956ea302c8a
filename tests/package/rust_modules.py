# SPDX-License-Identifier: Apache-2.0
"""The dependencies between the modules of a crate, read from its sources."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Module = tuple[str, ...]
"""A module by its path in the crate: `("file", "segment")`; the root is empty."""
Graph = dict[Module, set[Module]]

USE = re.compile(r"^\s*use\s+([^;]+);", re.MULTILINE)
RE_EXPORT = re.compile(r"^\s*pub\s+use\s+([^;]+);", re.MULTILINE)
PATH = re.compile(r"(?<![:\w])\w+(?:::\w+)+")


def items_of(group: str) -> Iterator[str]:
    """The comma-separated items of a group; nested groups stay complete."""
    depth, start = 0, 0
    for position, character in enumerate(group + ","):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == "," and depth == 0:
            if item := group[start:position]:
                yield item
            start = position + 1


def paths_of(tree: str, before: Module = ()) -> Iterator[tuple[Module, str]]:
    """The paths in a `use` without spaces, each with its local name."""
    head, brace, rest = tree.partition("{")
    names = tuple(name for name in head.split("::") if name)
    if brace:
        for item in items_of(rest[: rest.rindex("}")]):
            yield from paths_of(item, (*before, *names))
        return
    *names_before, last = names
    path = (*before, *names_before)
    last, _, alias = last.partition("@")
    if path and last in {"self", "*"}:
        yield path, alias or path[-1]
    else:
        yield (*path, last), alias or last


def used_in(use: str) -> Iterator[tuple[Module, str]]:
    """Yield the path and alias of each name in the text between `use` and its semicolon."""
    yield from paths_of(re.sub(r"\s", "", re.sub(r"\s+as\s+", "@", use)))


def module_of(path: Path, source: Path) -> Module:
    """The module of a file."""
    parts = path.relative_to(source).with_suffix("").parts
    return parts[:-1] if parts[-1] in {"mod", "lib"} else parts


class Crate:
    """The modules of a crate."""

    def __init__(self, source: Path, code: dict[Path, str]) -> None:
        """Read the sources, which have no comments and tests."""
        # A visibility names a module but uses nothing of it.
        plain = {path: re.sub(r"\bpub\s*\([^)]*\)", "pub", text) for path, text in code.items()}
        self.code = {module_of(path, source): text for path, text in plain.items()}
        self.re_exports = {
            (*module, name): target
            for module, text in self.code.items()
            for use in RE_EXPORT.findall(text)
            for path, name in used_in(use)
            if (target := self.absolute(module, path)) is not None
        }

    def absolute(self, module: Module, path: Module) -> Module | None:
        """A path from the root of the crate; `None` for a path into another crate."""
        if path[0] == "crate":
            return path[1:]
        if path[0] in {"self", "super"}:
            base = module
            while path and path[0] in {"self", "super"}:
                base = base[:-1] if path[0] == "super" else base
                path = path[1:]
            return (*base, *path)
        return (*module, *path) if (*module, path[0]) in self.code else None

    def defined_in(self, path: Module) -> Module:
        """The module that defines the item of a path, after resolving re-exports."""
        for _ in range(len(self.code)):
            for end in range(1, len(path) + 1):
                if path[:end] in self.re_exports and path[:end] not in self.code:
                    path = (*self.re_exports[path[:end]], *path[end:])
                    break
            else:
                break
        while path not in self.code:
            path = path[:-1]
        return path

    def graph(self) -> Graph:
        """The modules that each module names. A re-export counts where the item is used."""
        graph: Graph = {}
        for module, text in self.code.items():
            kept = RE_EXPORT.sub("", text)
            named = [path for use in USE.findall(kept) for path, _ in used_in(use)]
            named += [tuple(path.split("::")) for path in PATH.findall(USE.sub("", kept))]
            found = (self.absolute(module, path) for path in named)
            graph[module] = {self.defined_in(path) for path in found if path is not None} - {module, ()}
        return graph


def circles(graph: Graph) -> list[set[Module]]:
    """Sets of modules in which each module leads to every other one."""

    def reached(start: Module) -> set[Module]:
        seen: set[Module] = set()
        waiting = [start]
        while waiting:
            for module in graph.get(waiting.pop(), set()) - seen:
                seen.add(module)
                waiting.append(module)
        return seen

    reach = {module: reached(module) for module in graph}
    found: list[set[Module]] = []
    for module in graph:
        circle = {other for other in reach[module] if module in reach[other]}
        if circle and circle not in found:
            found.append(circle)
    return found


def is_family(graph: Graph, circle: set[Module]) -> bool:
    """Whether the circle is a module with its submodules that are connected only through it."""
    head = min(circle, key=len)
    if any(module[: len(head)] != head for module in circle):
        return False

    def is_tie(one: Module, other: Module) -> bool:
        return one[: len(other)] == other or other[: len(one)] == one

    beside = {module: {other for other in graph[module] & circle if not is_tie(module, other)} for module in circle}
    return not circles(beside)
