# SPDX-License-Identifier: Apache-2.0
"""What a command is told by signals: none is lost, whenever it comes."""

from __future__ import annotations

import os
import signal
import threading

from oxbus.cli._signals import Signals


def test_one_that_comes_as_the_wait_begins_ends_it() -> None:
    """Over every moment around the start of the wait, microsecond by microsecond; a lost one would wait for ever."""
    with Signals(signal.SIGALRM) as signals:
        for _ in range(20):
            for microseconds in range(1, 100):
                signal.setitimer(signal.ITIMER_REAL, microseconds / 1e6)
                assert signals.wait() == signal.SIGALRM


def test_those_before_the_wait_come_in_order_and_others_do_not() -> None:
    """What others handle stays theirs, and what was handled before is again so afterwards."""
    others: list[int] = []
    before = signal.signal(signal.SIGUSR2, lambda number, _: others.append(number))
    handler = signal.getsignal(signal.SIGTERM)
    try:
        with Signals(signal.SIGTERM, signal.SIGHUP) as signals:
            for number in (signal.SIGHUP, signal.SIGUSR2, signal.SIGTERM):
                os.kill(os.getpid(), number)
            assert [signals.wait(), signals.wait()] == [signal.SIGHUP, signal.SIGTERM]
        assert others == [signal.SIGUSR2]
        assert signal.getsignal(signal.SIGTERM) is handler
        assert signal.set_wakeup_fd(-1) == -1
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_one_that_another_thread_gets_ends_the_wait() -> None:
    """The operating system may give it to any thread, while the main thread sleeps."""
    with Signals(signal.SIGTERM) as signals:
        done = threading.Event()

        def send() -> None:
            # No thread but this one takes it.
            signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
            done.wait()

        sender = threading.Thread(target=send)
        sender.start()
        assert signals.wait() == signal.SIGTERM
        done.set()
        sender.join()
