# SPDX-License-Identifier: Apache-2.0
"""The allowed dependencies: python → arrow → broker → store → model, sim → broker, and no arrow upward.

The checks read cargo's resolution and the sources, so that a forgotten dependency shows up too.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from rust_modules import Crate, circles, is_family

ROOT = Path(__file__).parents[2]

BELOW_SERVER = {"oxbus-model", "oxbus-log", "oxbus-store", "oxbus-broker", "oxbus-arrow", "oxbus-wire", "oxbus-amqp"}

ALLOWED_DEPENDENCIES = {
    "oxbus-system": set[str](),
    "oxbus-model": set[str](),
    "oxbus-log": {"oxbus-model"},
    "oxbus-store": {"oxbus-model", "oxbus-log", "oxbus-system"},
    "oxbus-blob": {"oxbus-model", "oxbus-system"},
    "oxbus-object": {"oxbus-blob", "oxbus-model", "oxbus-log", "oxbus-store", "oxbus-system"},
    "oxbus-twin": {"oxbus-model", "oxbus-store"},
    "oxbus-broker": {"oxbus-model", "oxbus-log", "oxbus-store", "oxbus-system"},
    "oxbus-arrow": {"oxbus-model", "oxbus-store", "oxbus-broker"},
    "oxbus-wire": {"oxbus-model", "oxbus-system"},
    "oxbus-amqp": {"oxbus-model"},
    "oxbus-server": BELOW_SERVER | {"oxbus-system"},
    "oxbus-client": {"oxbus-model", "oxbus-amqp", "oxbus-wire"},
    "oxbus-python": BELOW_SERVER | {"oxbus-server", "oxbus-client", "oxbus-blob", "oxbus-object", "oxbus-system"},
    "oxbus-sim": {"oxbus-model", "oxbus-store", "oxbus-broker"},
    "oxbus-bench": {"oxbus-model", "oxbus-store", "oxbus-twin", "oxbus-broker", "oxbus-arrow", "oxbus-amqp"},
}

TESTED_WITH = {
    "oxbus-client": {"oxbus-store", "oxbus-broker", "oxbus-server"},
    "oxbus-sim": {"oxbus-blob", "oxbus-object"},
}
"""What the tests of a crate use beside its own dependencies: the client is tested with a server, the namespace of the
simulation may be in a store."""

BROKER_PARTS = (
    "clock",
    "memory",
    "metrics",
    "record",
    "routing",
    "filter",
    "parallel",
    "shard",
    "catalog",
    "write",
    "durable",
    "entity",
    "client",
    "stage",
    "bulk_load",
    "salvage",
    "verify",
    "backup",
    "namespace",
)
"""The top-level modules of the broker from the lowest to the highest; each names only those before it."""


TEST_ONLY = r"#\[cfg\((?:all\()?test\b[^\]]*\]\s*(?:pub(?:\([^)]*\))? )?"
"""The attribute of a module that is built for tests only."""


@cache
def metadata() -> dict[str, Any]:
    """Cargo's data on the workspace and all its dependencies."""
    command = ["cargo", "metadata", "--format-version", "1", "--all-features"]
    answer: dict[str, Any] = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    return answer


def rust_code(folder: Path) -> dict[Path, str]:
    """The sources in a folder, or of the one file, without comments and test modules."""
    files = sorted(folder.rglob("*.rs")) if folder.is_dir() else [folder]
    sources = {path: re.sub(r"//.*", "", path.read_text()) for path in files}
    tests = {
        folder / f"{name}.rs"
        for path, code in sources.items()
        for name in re.findall(rf"{TEST_ONLY}mod (\w+);", code)
        for folder in (path.parent, path.with_suffix(""))
    }
    return {
        path: re.split(rf"{TEST_ONLY}mod \w+ \{{", code)[0]
        for path, code in sources.items()
        if path not in tests and "tests" not in path.parts[path.parts.index("rust") :]
    }


def test_every_crate_of_the_workspace_has_a_layer() -> None:
    """A new crate needs a line in `ALLOWED_DEPENDENCIES`."""
    members = {package["name"] for package in metadata()["packages"] if package["source"] is None}
    assert members == set(ALLOWED_DEPENDENCIES)


@pytest.mark.timeout(120)  # The first call may have to fetch the registry's index.
@pytest.mark.parametrize("crate", ALLOWED_DEPENDENCIES)
def test_crate_depends_downward_only(crate: str) -> None:
    """No dependency of a crate, not even one for its tests, names a crate beside or above it."""
    (package,) = (package for package in metadata()["packages"] if package["name"] == crate)
    ours = [dependency for dependency in package["dependencies"] if dependency["name"].startswith("oxbus-")]
    for_tests = {dependency["name"] for dependency in ours if dependency["kind"] == "dev"}
    assert {dependency["name"] for dependency in ours} - for_tests <= ALLOWED_DEPENDENCIES[crate]
    assert for_tests <= ALLOWED_DEPENDENCIES[crate] | TESTED_WITH.get(crate, set())


@pytest.mark.parametrize("crate", ALLOWED_DEPENDENCIES)
def test_sources_name_lower_crates_only(crate: str) -> None:
    """No `use` and no path in the code of a crate names a crate beside or above it."""
    allowed = {name.replace("-", "_") for name in {*ALLOWED_DEPENDENCIES[crate], crate}}
    crates = {name.replace("-", "_") for name in ALLOWED_DEPENDENCIES}
    for path, code in rust_code(ROOT / "rust" / crate).items():
        named = set(re.findall(r"\boxbus_[a-z]+(?=\s*::)", code)) & crates
        assert named <= allowed, path


def parts_of(source: Path) -> set[str]:
    """The modules at the top of a crate."""
    return {path.stem for path in source.iterdir() if path.stem != "lib" and (path.is_dir() or path.suffix == ".rs")}


def named_parts(code: str) -> set[str]:
    """The top-level modules of its crate that a file names."""
    named = set(re.findall(r"\bcrate::([a-z_]+)", code))
    for group in re.findall(r"\bcrate::\{([^}]*)\}", code):
        named |= set(re.findall(r"(?:^|,)\s*([a-z_]+)", group))
    return named


def test_every_part_of_the_broker_has_a_layer() -> None:
    """A new module needs its place in `BROKER_PARTS`."""
    assert parts_of(ROOT / "rust/oxbus-broker/src") == set(BROKER_PARTS)


@pytest.mark.parametrize("part", BROKER_PARTS)
def test_parts_of_the_broker_name_lower_parts_only(part: str) -> None:
    """Calls go down as values and answers return: a shard never names a client."""
    source = ROOT / "rust/oxbus-broker/src"
    allowed = set(BROKER_PARTS[: BROKER_PARTS.index(part) + 1])
    folder = source / part if (source / part).is_dir() else source / f"{part}.rs"
    upward = {
        (str(path.relative_to(source)), name)
        for path, code in rust_code(folder).items()
        for name in (named_parts(code) & set(BROKER_PARTS)) - allowed
    }
    assert not upward


def crate_of(name: str) -> Crate:
    """The modules of a crate, without those for tests."""
    source = ROOT / "rust" / name / "src"
    return Crate(source, rust_code(source))


@pytest.mark.parametrize("crate", ["oxbus-python", "oxbus-server", "oxbus-client", "oxbus-store"])
def test_modules_have_no_circular_dependencies(crate: str) -> None:
    """The only allowed circle is that of a module with its submodules."""
    graph = crate_of(crate).graph()
    found = [circle for circle in circles(graph) if not is_family(graph, circle)]
    assert not [sorted("::".join(module) for module in circle) for circle in found]


def test_circles_of_modules_are_found() -> None:
    """By `use` and by path, through re-exports; not by visibilities, and not for a module with its submodules."""
    sources = {
        "lib.rs": "pub use a::A;",
        "a/mod.rs": "pub use inner::Inner as A;\npub(super) const ONE: u8 = inner::TWO;",
        "a/inner.rs": "use super::ONE;\nuse crate::b::{B, other as o};\npub(in crate::c) struct Inner;",
        "b.rs": "use crate::c::C;\npub struct B;",
        "c.rs": "pub struct C(crate::a::A);",
        "d.rs": "use crate::{c::{C as See}, b};\nuse self::e::E;\nuse std::fmt;",
        "d/e.rs": "use super::See;",
    }
    source = Path("src")
    graph = Crate(source, {source / name: code for name, code in sources.items()}).graph()
    assert graph[("a", "inner")] == {("a",), ("b",)}
    assert graph[("d",)] == {("b",), ("c",), ("d", "e")}
    assert graph[("c",)] == {("a", "inner")}
    (circle, family) = circles(graph)
    assert circle == {("a",), ("a", "inner"), ("b",), ("c",)}
    assert family == {("d",), ("d", "e")}
    assert not is_family(graph, circle)
    assert is_family(graph, family)


@pytest.mark.parametrize("crate", ["oxbus-system", "oxbus-model", "oxbus-log", "oxbus-store", "oxbus-broker"])
def test_core_builds_without_an_async_runtime(crate: str) -> None:
    """No direct or indirect dependency of the core is tokio or the Python binding."""
    names = {package["id"]: package["name"] for package in metadata()["packages"]}
    edges = defaultdict(set)
    for node in metadata()["resolve"]["nodes"]:
        for dependency in node["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                edges[node["id"]].add(dependency["pkg"])
    reached: set[str] = set()
    waiting = [key for key, name in names.items() if name == crate]
    while waiting:
        package = waiting.pop()
        if package not in reached:
            reached.add(package)
            waiting += edges[package]
    assert {"tokio", "async-std", "pyo3"} & {names[package] for package in reached} == set()


def imports(path: Path) -> set[str]:
    """The modules that a Python file imports, at any level."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_pyspark_is_imported_by_the_spark_package_and_the_demo_only() -> None:
    """A program without Spark never imports it."""
    package = ROOT / "python/oxbus"
    for path in package.rglob("*.py"):
        if not {"spark", "demo"} & {*path.relative_to(package).parts, path.stem}:
            assert not {name for name in imports(path) if name.split(".")[0] == "pyspark"}, path


def test_core_of_the_package_does_not_import_higher_modules() -> None:
    """The modules behind `import oxbus` name neither Spark nor the command line nor the demo."""
    package = ROOT / "python/oxbus"
    above = ("oxbus.spark", "oxbus.cli", "oxbus.demo")
    for path in [*package.glob("*.py"), *(package / "management").glob("*.py")]:
        if path.stem not in {"cli", "demo"}:
            assert not [name for name in imports(path) if name.startswith(above)], path
