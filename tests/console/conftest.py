# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests of the console: a served namespace, and somebody who has signed in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from chromium import NoChromiumError, chromium
from console_browser import Person
from console_http import Console
from oxbus import Namespace, ServiceBusClient
from oxbus.management import ServiceBusAdministrationClient
from oxbus.server import serve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oxbus.server import Server


@pytest.fixture
def bus() -> Iterator[Namespace]:
    """A namespace in memory with four partitions and the clock of the system."""
    with Namespace(partitions=4) as bus:
        yield bus


@pytest.fixture
def admin(bus: Namespace) -> ServiceBusAdministrationClient:
    """The administration client of the namespace."""
    return ServiceBusAdministrationClient(bus)


@pytest.fixture
def client(bus: Namespace) -> Iterator[ServiceBusClient]:
    """A client in this process."""
    with ServiceBusClient(bus) as client:
        yield client


@pytest.fixture
def server(bus: Namespace) -> Iterator[Server]:
    """A server with the console, on loopback, with the development key."""
    with serve(bus, console=True) as server:
        yield server


@pytest.fixture
def console(server: Server) -> Console:
    """Somebody who has signed in with all rights."""
    console = Console(server)
    assert console.sign_in().status == 200
    return console


# Not longer than a module: Playwright has an event loop in this thread, and other tests begin their own.
@pytest.fixture(scope="module")
def chromium_browser() -> Iterator[Any]:
    """A headless Chromium. Tests with it are left out where it or Playwright cannot be had."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is missing: make test-console")
    try:
        program, environment = chromium()
    except NoChromiumError as error:
        pytest.skip(str(error))
    with playwright.sync_playwright() as driver:
        # The sandbox needs rights that a container does not give; the pages are our own.
        browser = driver.chromium.launch(executable_path=program, env=environment, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def person(chromium_browser: Any, server: Server) -> Iterator[Person]:
    """Somebody who has signed in. The test fails if the browser had anything to complain about."""
    with chromium_browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        person = Person(context.new_page(), server)
        person.sign_in()
        yield person
        assert person.complaints == []
