# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus, of Debian's package, scrapes a server: every query of the dashboard and of the alerts works."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from azure.servicebus import ServiceBusClient as SdkClient
from azure.servicebus import ServiceBusMessage as SdkMessage
from azure.servicebus.exceptions import ServiceBusError
from oxbus import Namespace, ServiceBusClient
from oxbus.management import ServiceBusAdministrationClient
from oxbus.server import Server, serve

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "deploy/prometheus/alerts.yml"
DASHBOARD = ROOT / "deploy/grafana/oxbus.json"
START_SECONDS = 60


@pytest.fixture(scope="session")
def programs() -> Path:
    """The directory of `prometheus` and `promtool`: those of the system, or of Debian's package, unpacked once."""
    found = shutil.which("promtool")
    if found is not None and shutil.which("prometheus") is not None:
        return Path(found).parent
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        pytest.skip("no prometheus, and no apt-get and dpkg to fetch it with")
    root = ROOT / "target/tools/prometheus"
    if not root.exists():
        unpacked = root.with_name(f"prometheus-{os.getpid()}")
        unpacked.mkdir(parents=True)
        subprocess.run(["apt-get", "download", "prometheus"], cwd=unpacked, check=True, capture_output=True)
        (package,) = unpacked.glob("prometheus_*.deb")
        subprocess.run(["dpkg", "-x", str(package), str(unpacked)], check=True, capture_output=True)
        package.unlink()
        try:
            unpacked.rename(root)
        except OSError:  # another worker was faster
            shutil.rmtree(unpacked)
    return root / "usr/bin"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server of a directory in which something of everything happened."""
    with Namespace(tmp_path / "bus", partitions=2) as bus, serve(bus) as server:
        admin = ServiceBusAdministrationClient(bus)
        admin.create_queue("orders", max_delivery_count=1, requires_duplicate_detection=True)
        with (
            SdkClient.from_connection_string(server.connection_string, retry_total=0) as sdk,
            sdk.get_queue_sender("orders") as sender,
            sdk.get_queue_receiver("orders", max_wait_time=5) as receiver,
        ):
            sender.send_messages([SdkMessage(str(number), message_id=str(number % 3)) for number in range(4)])
            first, second = receiver.receive_messages(2)
            receiver.complete_message(first)
            receiver.abandon_message(second)
            with pytest.raises(ServiceBusError), sdk.get_queue_receiver("missing") as missing:
                missing.receive_messages(max_wait_time=1)
        with ServiceBusClient(bus) as client, client.get_queue_receiver("orders") as own:
            own.peek_messages(1)
        yield server


def scrape(server: Server) -> str:
    """The metrics as a server without a token on loopback answers them."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics") as answer:
        return str(answer.read().decode())


def expressions() -> list[str]:
    """Each query of the dashboard and of the alerts."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    shown = [
        target["expr"].replace("$__rate_interval", "1m") for panel in panels for target in panel.get("targets", [])
    ]
    return shown + re.findall(r"expr: (.+)", ALERTS.read_text())


def test_promtool_accepts_the_metrics(programs: Path, server: Server) -> None:
    """`promtool check metrics` finds nothing to complain about."""
    command: list[str | Path] = [programs / "promtool", "check", "metrics"]
    done = subprocess.run(command, input=scrape(server), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_fires(programs: Path) -> None:
    """By `promtool test rules` over made-up series."""
    command: list[str | Path] = [programs / "promtool", "test", "rules", ALERTS.with_name("alerts_test.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    named = set(re.findall(r"alert: (\w+)", ALERTS.read_text()))
    assert named == set(re.findall(r'alertname="(\w+)"', ALERTS.with_name("alerts_test.yml").read_text()))


def test_on_call_has_an_entry_for_each_alert() -> None:
    """By its name, as a heading."""
    page = (ROOT / "docs/on-call.md").read_text()
    for alert in re.findall(r"alert: (\w+)", ALERTS.read_text()):
        assert f"### `{alert}`" in page


def test_on_call_has_an_entry_for_each_line_that_warns() -> None:
    """The lines of level warning and error that the page Logging has, and no others."""
    lines = re.findall(r"^\| `([a-z_.]+)` \| (?:warning|error)", (ROOT / "docs/logging.md").read_text(), re.MULTILINE)
    page = (ROOT / "docs/on-call.md").read_text().partition("## Log lines")[2]
    assert set(re.findall(r"^\| `([a-z_.]+)`", page, re.MULTILINE)) == set(lines)


def test_metrics_page_lists_every_metric(server: Server) -> None:
    """By name, and no other."""
    page = set(re.findall(r"^\| `(oxbus_\w+)`", (ROOT / "docs/metrics.md").read_text(), flags=re.MULTILINE))
    families = set(re.findall(r"# TYPE (\w+)", scrape(server)))
    assert page == families


def test_every_query_of_the_dashboard_finds_series(programs: Path, server: Server, tmp_path: Path) -> None:
    """After two scrapes of a server with some traffic; the queries of alerts are understood, and none fires."""
    config = tmp_path / "prometheus.yml"
    scraped = f'[{{targets: ["127.0.0.1:{server.port}"]}}]'
    config.write_text(
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
        f"rule_files: [{ALERTS}]\n"
        f"scrape_configs: [{{job_name: oxbus, metrics_path: /metrics, static_configs: {scraped}}}]\n"
    )
    command: list[str | Path] = [
        programs / "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={tmp_path / 'series'}",
        "--web.listen-address=127.0.0.1:0",
    ]
    log = tmp_path / "prometheus.log"
    with log.open("w") as out:
        running = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        address = _address(log, running)
        _until_scraped(address)
        missing = [expression for expression in expressions() if not _found(address, expression)]
        # Nothing is wrong with this server, so filters for what is wrong find nothing.
        quiet = ("up{", "oxbus_partition_healthy ==", "oxbus_disk_full ==", "oxbus_oldest", "oxbus_journal_bytes >")
        above = (") > 0.5", ") > 1", "[10m])) > 0")
        wrong = [one for one in missing if not one.startswith(quiet) and not one.endswith(above)]
        assert not wrong
    finally:
        running.terminate()
        running.wait()


def _address(log: Path, running: subprocess.Popen[bytes]) -> str:
    """Where Prometheus listens, from its log."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and running.poll() is None:
        if found := re.search(r"address=(127\.0\.0\.1:[1-9]\d*)", log.read_text()):
            return found[1]
        time.sleep(0.05)
    pytest.fail(f"prometheus did not start: {log.read_text()}")


def _ask(address: str, expression: str) -> list[Any]:
    query = urllib.parse.urlencode({"query": expression})
    with urllib.request.urlopen(f"http://{address}/api/v1/query?{query}") as answer:
        found = json.load(answer)
    assert found["status"] == "success"
    result: list[Any] = found["data"]["result"]
    return result


def _found(address: str, expression: str) -> bool:
    return bool(_ask(address, expression))


def _until_scraped(address: str) -> None:
    """Wait for two scrapes, since a rate needs them."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        try:
            if any(float(sample["value"][1]) >= 2 for sample in _ask(address, 'count_over_time(up{job="oxbus"}[1m])')):
                return
        except OSError:
            pass
        time.sleep(0.1)
    pytest.fail("prometheus did not scrape the server")
