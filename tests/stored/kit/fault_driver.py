# SPDX-License-Identifier: Apache-2.0
"""The schedule of the fault suite: which fault comes next, and what is waited for after it."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fault_audit import History
from fault_proxy import Armed, Fault
from fault_tokens import Tokens
from stored_server import LIVENESS_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from fault_cluster import Cluster, Member

WORKER: Final = Path(__file__).with_name("fault_worker.py")
MODULES: Final = ("oxbus", "azure.servicebus")
LOSING: Final = (Fault.ANSWER_DROPPED, Fault.ANSWER_HELD)
LEASE_SECONDS: Final = 6.0


class Load:
    """Clients, each in its own process, that work until they are killed."""

    def __init__(self, connection_string: str, directory: Path, seed: str) -> None:
        self.logs = [directory / f"{module}.log" for module in MODULES]
        self.history = History(self.logs)
        self._processes = [
            subprocess.Popen([sys.executable, str(WORKER), module, connection_string, str(log), module, seed])
            for module, log in zip(MODULES, self.logs, strict=True)
        ]

    def wait_for_more(self, look: Callable[[], None] = lambda: None) -> None:
        """Wait until each client has sent and received more, and a settlement was confirmed; look after servers."""
        self.history.read()
        before = Counter(self.history.acknowledged)
        wanted = [(log, verb) for log in self.logs for verb in ("send", "receive")] + [(self.logs[0], "complete")]

        def went_on() -> bool:
            look()
            self.history.read()
            return all(self.history.acknowledged[each] > before[each] for each in wanted)

        wait_until(went_on, "work of the clients after a fault")

    def lines_about(self, uids: list[str]) -> list[str]:
        """Return what was logged about some messages, with the answers."""
        found = []
        for log in self.logs:
            calls: set[str] = set()
            for line in log.read_text().splitlines():
                call = line.partition(",")[2].partition(",")[0]
                if any(f'"{uid}"' in line for uid in uids):
                    calls.add(call)
                if call in calls:
                    found.append(f"{log.stem} {line}")
        return found

    def stop(self) -> None:
        """Kill the clients, and read the rest of what they logged."""
        for process in self._processes:
            process.kill()
            process.wait()
        self.history.read()


class Driver:
    """Does one step of the schedule after the other.

    Attributes:
        faults: How often each fault happened.
        at: When each step began.
    """

    def __init__(self, cluster: Cluster, load: Load, seed: str) -> None:
        self.cluster, self.load = cluster, load
        self.chance = random.Random(f"{seed} driver")
        self.tokens = Tokens(random.Random(f"{seed} tokens"))
        self.faults: Counter[str] = Counter()
        self.at: list[tuple[float, str]] = []
        self._has_proxy = cluster.owner.proxy is not None

    def run(self, number: int) -> None:
        """Take steps until so many faults have happened."""
        steps: dict[Callable[[], None], int] = {
            self.kill_the_owner: 4,
            self.kill_the_standby: 1,
            self.kill_both: 1,
            self.terminate_the_owner: 2,
            self.pause_the_owner: 2,
            self.take_over_at_once: 2,
        }
        if self._has_proxy:
            steps |= {
                self.lose_answers_of_the_owner: 12,
                self.lose_answers_of_a_taker: 10,
                self.cut_the_owner_off: 2,
                self.trouble_the_store: 4,
                self.trouble_the_store_of_a_taker: 3,
            }
        # Each once, in some order; then by their weights.
        planned = self.chance.sample(list(steps), len(steps))
        if self._has_proxy:
            planned.append(self.drop_the_answer_for_each_kind)
        while self.total < number:
            step = planned.pop() if planned else self.chance.choices([*steps], weights=[*steps.values()])[0]
            self.at.append((round(time.time(), 1), step.__name__))
            step()
            self._look_after_servers()
            self.load.wait_for_more(self._look_after_servers)
        self._count_fired()

    def _look_after_servers(self) -> None:
        """End what went wrong, and replace servers that ended or were taken over."""
        self.cluster.settle()
        self.cluster.replace_others()

    @property
    def total(self) -> int:
        """How many faults have happened."""
        self._count_fired()
        return self.faults.total()

    def _count_fired(self) -> None:
        for member in self.cluster.members:
            if member.proxy is not None:
                for (kind, fault), number in member.proxy.fired.items():
                    self.faults[f"{kind}: {fault}"] += number
                member.proxy.fired.clear()

    def kill_the_owner(self) -> None:
        """SIGKILL."""
        self._crash(self.cluster.owner, "owner killed")

    def _crash(self, member: Member, name: str) -> None:
        """Kill the owner and wait for a takeover; try a lock that was held at it."""
        with self.tokens.held(member.port) as old:
            began = time.monotonic()
            member.send(signal.SIGKILL)
            self.faults[name] += 1
            self.cluster.settle(after=began)
            if old is not None:
                self.tokens.use(old, self.cluster.owner.port, old_owner_runs=False)

    def kill_the_standby(self) -> None:
        """SIGKILL, at some moment of its start, too."""
        self.cluster.standby.send(signal.SIGKILL)
        self.cluster.standby.start()
        time.sleep(self.chance.uniform(0, 2))
        self.cluster.standby.send(signal.SIGKILL)
        self.faults["standby killed"] += 2

    def kill_both(self) -> None:
        """SIGKILL to both, and both start again."""
        began = time.monotonic()
        for member in self.chance.sample([self.cluster.owner, self.cluster.standby], 2):
            member.send(signal.SIGKILL)
            self.faults["both killed"] += 1
        self.cluster.owner.start()
        self.cluster.standby.start()
        self.cluster.settle(after=began)

    def terminate_the_owner(self) -> None:
        """SIGTERM."""
        began = time.monotonic()
        self.cluster.owner.send(signal.SIGTERM)
        self.faults["owner terminated"] += 1
        self.cluster.settle(after=began)

    def pause_the_owner(self) -> None:
        """SIGSTOP for about a lease, then SIGCONT under load."""
        owner = self.cluster.owner
        with self.tokens.held(owner.port) as old:
            began = time.monotonic()
            owner.send(signal.SIGSTOP)
            self.faults["owner paused"] += 1
            seconds = LEASE_SECONDS + self.chance.choice([-1.0, 0.3, 0.6, 0.9, 2.0, 2.0])
            time.sleep(seconds)
            if seconds > LEASE_SECONDS + 1:
                self.cluster.settle(after=began)
            owner.send(signal.SIGCONT)
            time.sleep(self.chance.uniform(0.5, 1.5))
            self.cluster.settle()
            if old is not None and self.cluster.owner is not owner:
                self.tokens.use(old, self.cluster.owner.port, old_owner_runs=True)

    def take_over_at_once(self) -> None:
        """A third server takes over, beside the standby and with the owner alive or just killed."""
        began, owner, third = time.monotonic(), self.cluster.owner, self.cluster.third
        third.start("--take-over")
        self.faults["taken over beside a standby"] += 1
        if self.chance.random() < 0.5:
            time.sleep(self.chance.uniform(0, 1.5))
            owner.send(signal.SIGKILL)
            self.faults["owner killed"] += 1
        # The standby may be first; then the third server takes over from it.
        wait_until(lambda: third.served_at is not None, "a takeover at once")
        self.cluster.settle(after=began)

    def drop_the_answer_for_each_kind(self) -> None:
        """The store does it, and the answer is lost: data and the manifest of an owner, and all that a taker stores."""
        owner, standby = self.cluster.owner.proxy, self.cluster.standby.proxy
        assert owner is not None
        assert standby is not None
        armed = [owner.arm(kind, Fault.ANSWER_DROPPED) for kind in ("data", "manifest")]
        _wait_for(armed)
        armed = [standby.arm(kind, Fault.ANSWER_DROPPED) for kind in ("fence", "checkpoint", "manifest")]
        self._crash(self.cluster.owner, "owner killed")
        _wait_for(armed)

    def lose_answers_of_the_owner(self) -> None:
        """Requests of an owner fail while it works."""
        proxy = self.cluster.owner.proxy
        assert proxy is not None
        kind = self.chance.choice(["data", "data", "manifest"])
        number = self.chance.choice([1, 1, 2, 3])
        fault = self.chance.choice([*LOSING, *LOSING, Fault.LATE, Fault.BUSY, Fault.REFUSED])
        armed = [proxy.arm(kind, fault) for _ in range(number)]
        # It comes some time later, if the owner lives on.
        if self.chance.random() < 0.5 and not proxy.is_armed("checkpoint"):
            proxy.arm("checkpoint", self.chance.choice(LOSING))
        _wait_for(armed)

    def lose_answers_of_a_taker(self) -> None:
        """The owner is killed, and requests of its taker fail: the fence, its checkpoint, the manifest."""
        proxy = self.cluster.standby.proxy
        assert proxy is not None
        kinds = self.chance.sample(["fence", "checkpoint", "manifest"], self.chance.choice([1, 2, 3]))
        for kind in kinds:
            proxy.arm(kind, self.chance.choice([*LOSING, *LOSING, Fault.LATE]))
        self._crash(self.cluster.owner, "owner killed")

    def cut_the_owner_off(self) -> None:
        """The owner cannot reach the store, and everyone else can: for less than a lease, or for more."""
        owner = self.cluster.owner
        assert owner.proxy is not None
        with self.tokens.held(owner.port) as old:
            began = time.monotonic()
            owner.proxy.set(self.chance.choice([Fault.REFUSED, Fault.HELD]))
            self.faults["owner cut off from the store"] += 1
            if self.chance.random() < 0.5:
                time.sleep(self.chance.uniform(0.5, LEASE_SECONDS + 2))
            else:
                self.cluster.settle(after=began)
            owner.proxy.set(None)
            time.sleep(self.chance.uniform(0, 1))
            self.cluster.settle()
            if old is not None and self.cluster.owner is not owner:
                self.tokens.use(old, self.cluster.owner.port, old_owner_runs=True)

    def trouble_the_store(self) -> None:
        """The store is slow, busy, away or silent for everyone."""
        fault = self.chance.choice([Fault.SLOW, Fault.BUSY, Fault.HELD, Fault.REFUSED])
        self._trouble(self.cluster.members, fault)

    def trouble_the_store_of_a_taker(self) -> None:
        """The owner is killed while the store is in trouble."""
        fault = self.chance.choice([Fault.SLOW, Fault.BUSY, Fault.HELD, Fault.REFUSED])
        began = time.monotonic()
        self.cluster.owner.send(signal.SIGKILL)
        self.faults["owner killed"] += 1
        self._trouble([self.cluster.standby], fault)
        self.cluster.settle(after=began)

    def _trouble(self, members: list[Member], fault: Fault) -> None:
        for member in members:
            assert member.proxy is not None
            member.proxy.set(fault)
        self.faults[f"store: {fault}"] += 1
        time.sleep(self.chance.uniform(0.5, 3))
        for member in members:
            assert member.proxy is not None
            member.proxy.set(None)


def _wait_for(armed: list[Armed]) -> None:
    for each in armed:
        assert each.fired.wait(LIVENESS_SECONDS), f"no request for {each.kind} came"
