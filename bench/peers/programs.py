# SPDX-License-Identifier: Apache-2.0
"""The servers of the peers: the installed one, else one fetched into this project's own cache.

Nothing is installed system-wide. Redis, beanstalkd and RabbitMQ come out of Debian's packages, NATS is built by Go's
own installer, the archives of Kafka and Artemis are fetched by Maven.
A program that cannot be installed raises an `UnavailableError` with the reason.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from peers import debian
from peers.contract import UnavailableError
from peers.fetching import CACHE, fetch

NATS_MODULE = "github.com/nats-io/nats-server/v2@latest"
KAFKA_VERSION = "4.2.0"
ARTEMIS_VERSION = "2.56.0"
RABBITMQ_RELEASE = "trixie"
RABBITMQ_PACKAGES = (
    "rabbitmq-server",
    "erlang-base",
    *(
        f"erlang-{part}"
        for part in (
            *("asn1", "crypto", "eldap", "inets", "mnesia", "os-mon", "parsetools", "public-key"),
            *("runtime-tools", "ssl", "syntax-tools", "tools", "xmerl"),
        )
    ),
    *("libc6", "libcap2", "libgcc-s1", "libssl3t64", "libstdc++6", "libsystemd0", "libtinfo6", "libzstd1", "zlib1g"),
)
"""RabbitMQ 4, the first with built-in AMQP 1.0, and Erlang, with all that they link."""
VALGRIND_PACKAGES = ("valgrind",)
BEANSTALKD_PACKAGES = ("beanstalkd",)
REDIS_PACKAGES = ("redis-server", "redis-tools", "libjemalloc2", "liblzf1")


@dataclass(frozen=True)
class Program:
    """An executable file and the environment it needs."""

    file: Path
    environment: dict[str, str]
    version: str


def _program(file: Path, environment: dict[str, str], version: str, ask: str = "--version") -> Program:
    """Ask a program for its version; `version` is a pattern with one group."""
    try:
        done = subprocess.run([str(file), ask], env=environment, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise UnavailableError(f"{file.name} does not run: {error}") from error
    found = re.search(version, done.stdout)
    return Program(file, environment, found[1] if found else "unknown")


@cache
def redis_server() -> Program:
    """Return the Redis server: installed, or unpacked from the Debian packages."""
    if installed := shutil.which("redis-server"):
        return _program(Path(installed), dict(os.environ), r"v=([\d.]+)")
    root = CACHE / "redis"
    file = root / "usr" / "bin" / "redis-server"
    if not file.exists():
        debian.unpack(root, REDIS_PACKAGES)
    libraries = ":".join(str(folder) for folder in sorted((root / "usr" / "lib").glob("*-linux-*")))
    return _program(file, {**os.environ, "LD_LIBRARY_PATH": libraries}, r"v=([\d.]+)")


@cache
def beanstalkd() -> Program:
    """Return beanstalkd: installed, or unpacked from the Debian package."""
    file = Path(shutil.which("beanstalkd") or CACHE / "beanstalkd" / "usr" / "bin" / "beanstalkd")
    if not file.exists():
        debian.unpack(CACHE / "beanstalkd", BEANSTALKD_PACKAGES)
    return _program(file, dict(os.environ), r"beanstalkd ([\d.]+)", "-v")


@cache
def valgrind() -> Program:
    """Return valgrind: installed, or unpacked from the Debian package. No peer, but fetched the same way."""
    if installed := shutil.which("valgrind"):
        return _program(Path(installed), dict(os.environ), r"-([\d.]+)")
    root = CACHE / "valgrind"
    if not (root / "usr" / "bin").exists():
        debian.unpack(root, VALGRIND_PACKAGES)
    environment = {**os.environ, "VALGRIND_LIB": str(root / "usr" / "libexec" / "valgrind")}
    return _program(root / "usr" / "bin" / "valgrind", environment, r"-([\d.]+)")


@cache
def nats_server() -> Program:
    """Return the NATS server: installed, or built with Go."""
    if installed := shutil.which("nats-server"):
        return _program(Path(installed), dict(os.environ), r"v([\d.]+)")
    root = CACHE / "nats"
    file = root / "nats-server"
    if not file.exists():
        if not shutil.which("go"):
            raise UnavailableError("no nats-server on PATH, and no go to build it with")
        root.mkdir(parents=True, exist_ok=True)
        fetch(["go", "install", NATS_MODULE], root, GOBIN=str(root))
    return _program(file, dict(os.environ), r"v([\d.]+)")


@cache
def rabbitmq_server() -> Program:
    """Return the start script of RabbitMQ, unpacked with its Erlang from the packages of a newer Debian."""
    root = CACHE / f"rabbitmq-{RABBITMQ_RELEASE}"
    erlang = root / "usr" / "lib" / "erlang"
    ready = root / "ready-to-move"
    if not ready.exists():
        shutil.rmtree(root, ignore_errors=True)
        debian.unpack(root, RABBITMQ_PACKAGES, RABBITMQ_RELEASE)
        (programs,) = erlang.glob("erts-*/bin")
        (programs / "dyn_erl").unlink(missing_ok=True)  # it would look for the others beside the C library
        for folder in (programs, *erlang.glob("lib/*/priv/bin")):
            debian.run_by_own_library(root, folder)
        ready.touch()
    (programs,) = erlang.glob("erts-*/bin")
    (home,) = (root / "usr" / "lib" / "rabbitmq" / "lib").glob("rabbitmq_server-*")
    # The packaged `erl` believes it is installed: this one knows where it is. A node that looks for others starts it.
    script = (erlang / "bin" / "erl").read_text(encoding="utf-8")
    own = script.replace("ROOTDIR=/usr/lib/erlang", f"ROOTDIR={erlang}")
    (programs / "erl").write_text(own, encoding="utf-8")
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    return Program(home / "sbin" / "rabbitmq-server", environment, home.name.rpartition("-")[2])


@cache
def artemis() -> Program:
    """Return the script of ActiveMQ Artemis, whose archive Maven fetches."""
    java, maven = shutil.which("java"), shutil.which("mvn")
    if java is None:
        raise UnavailableError("no java on PATH")
    root = CACHE / "artemis"
    file = root / f"apache-artemis-{ARTEMIS_VERSION}" / "bin" / "artemis"
    if not file.exists():
        if maven is None:
            raise UnavailableError("no mvn on PATH to fetch Artemis with")
        root.mkdir(parents=True, exist_ok=True)
        artifact = f"org.apache.artemis:apache-artemis:{ARTEMIS_VERSION}:tar.gz:bin"
        fetch([maven, "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={root}"], root)
        (archive,) = root.glob("*.tar.gz")
        shutil.unpack_archive(archive, root, filter="data")
        archive.unlink()
    return Program(file, dict(os.environ), ARTEMIS_VERSION)


@cache
def kafka_server() -> Program:
    """Return Java with Kafka's archives on its class path, fetched by Maven."""
    java, maven = shutil.which("java"), shutil.which("mvn")
    if java is None:
        raise UnavailableError("no java on PATH")
    root = CACHE / f"kafka-{KAFKA_VERSION}"
    libraries = root / "libs"
    if not libraries.exists():
        if maven is None:
            raise UnavailableError("no mvn on PATH to fetch Kafka with")
        root.mkdir(parents=True, exist_ok=True)
        (root / "pom.xml").write_text(_KAFKA_POM, encoding="utf-8")
        fetch([maven, "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={libraries}"], root)
    class_path = ":".join(str(file) for file in sorted(libraries.glob("*.jar")))
    return Program(Path(java), {**os.environ, "CLASSPATH": class_path}, KAFKA_VERSION)


_KAFKA_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>bench</groupId><artifactId>kafka</artifactId><version>1</version>
<dependencies><dependency>
<groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{KAFKA_VERSION}</version>
</dependency></dependencies></project>
"""
