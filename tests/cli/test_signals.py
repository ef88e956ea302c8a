# SPDX-License-Identifier: Apache-2.0
"""Signals that a command waits for: none is lost, at any moment."""

from __future__ import annotations

import os
import signal
import threading

from oxbus.cli._signals import Signals


def test_signal_at_the_start_of_the_wait_ends_it() -> None:
    """Signals are sent at every microsecond around the start of the wait; a lost one would wait for ever."""
    with Signals(signal.SIGALRM) as signals:
        for _ in range(20):
            for microseconds in range(1, 100):
                signal.setitimer(signal.ITIMER_REAL, microseconds / 1e6)
                assert signals.wait() == signal.SIGALRM


def test_earlier_signals_arrive_in_order_and_other_handlers_stay() -> None:
    """Other signals keep their handlers, and the previous handlers are restored afterwards."""
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


def test_signal_delivered_to_another_thread_ends_the_wait() -> None:
    """The operating system may deliver it to any thread while the main thread sleeps."""
    with Signals(signal.SIGTERM) as signals:
        done = threading.Event()

        def send() -> None:
            # Only this thread accepts the signal.
            signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
            done.wait()

        sender = threading.Thread(target=send)
        sender.start()
        assert signals.wait() == signal.SIGTERM
        done.set()
        sender.join()
