// SPDX-License-Identifier: Apache-2.0
//! A bounded queue of log lines, from the threads that emit them to the reader thread that writes them.
//!
//! Invariants
//! - the mutex is a leaf: no other lock is taken under it, so emitting cannot deadlock;
//! - emitting never blocks: lines beyond the limit are dropped, counted and reported.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread::ThreadId;
use std::time::Duration;

use oxbus_model::caps::LOG_LINES_WAITING_MAX;
use oxbus_model::sync::ignore_poison;
use oxbus_model::{Clock, Ticks};

use super::events::LINES_LOST;
use super::limiter::RepeatLimiter;
use super::line::Line;

/// The queue of log lines.
#[derive(Debug, Default)]
pub struct LineBuffer {
    /// A panic leaves it consistent: each change pushes one line or takes all lines.
    state: Mutex<LineBufferState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct LineBufferState {
    lines: Vec<Line>,
    limiter: RepeatLimiter,
    lost: u64,
    /// State of the reader thread.
    reader: ReaderState,
    is_closed: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ReaderState {
    #[default]
    None,
    /// A reader was requested.
    Starting,
    /// The reader waits for lines, or writes those that it took.
    Running {
        thread: ThreadId,
        is_writing: bool,
    },
    Ended,
}

impl LineBuffer {
    fn state(&self) -> MutexGuard<'_, LineBufferState> {
        ignore_poison(self.state.lock())
    }

    /// Adds a line, unless a limit drops it. Returns true if the caller must start a reader.
    pub(crate) fn push(&self, mut line: Line, now: Ticks) -> bool {
        let mut state = self.state();
        if state.is_closed {
            return false;
        }
        if state.limiter.admit(&mut line, now) {
            if state.lines.len() < LOG_LINES_WAITING_MAX {
                state.lines.push(line);
            } else {
                state.lost += 1;
            }
        }
        let starts = state.reader == ReaderState::None;
        if starts {
            state.reader = ReaderState::Starting;
        }
        drop(state);
        self.changed.notify_all();
        starts
    }

    /// Requests a reader before the first line. Returns true if the caller must start one.
    pub(crate) fn request_reader(&self) -> bool {
        let mut state = self.state();
        let starts = state.reader == ReaderState::None && !state.is_closed;
        if starts {
            state.reader = ReaderState::Starting;
        }
        starts
    }

    /// True if a reader runs or was requested.
    pub fn has_reader(&self) -> bool {
        !matches!(self.state().reader, ReaderState::None)
    }

    /// Records that the reader could not be started, so that the next line requests one again.
    pub fn reader_not_started(&self) {
        self.state().reader = ReaderState::None;
    }

    /// Waits for at least one line. Returns `None` after the last one. Only the reader calls this, in a loop: a call
    /// means that the lines of the previous call are written.
    pub fn take(&self, clock: &dyn Clock) -> Option<Vec<Line>> {
        let me = std::thread::current().id();
        let mut state = self.state();
        state.reader = ReaderState::Running {
            thread: me,
            is_writing: false,
        };
        self.changed.notify_all();
        loop {
            let now = if state.is_closed { Ticks::NEVER } else { clock.ticks() };
            let due = state.limiter.take_due(now);
            state.lines.extend(due);
            let lost = std::mem::take(&mut state.lost);
            if lost > 0 {
                state.lines.push(lines_lost(lost));
            }
            if !state.lines.is_empty() {
                state.reader = ReaderState::Running {
                    thread: me,
                    is_writing: true,
                };
                return Some(std::mem::take(&mut state.lines));
            }
            if state.is_closed {
                state.reader = ReaderState::Ended;
                self.changed.notify_all();
                return None;
            }
            state = match state.limiter.due() {
                None => ignore_poison(self.changed.wait(state)),
                Some(due) => {
                    // At least 10 ms, since a coarse clock may not have reached the end of the wait.
                    let left = Duration::from_millis(due.0.saturating_sub(now.0).max(10));
                    ignore_poison(self.changed.wait_timeout(state, left)).0
                }
            };
        }
    }

    /// Waits for at most `timeout` until all lines are written. Returns false on timeout. The reader does not wait for
    /// itself.
    pub fn flush(&self, timeout: Duration) -> bool {
        let is_unwritten = |state: &mut LineBufferState| {
            let me = std::thread::current().id();
            match state.reader {
                ReaderState::None | ReaderState::Ended => false,
                ReaderState::Starting => true,
                ReaderState::Running { thread, is_writing } => thread != me && (is_writing || !state.lines.is_empty()),
            }
        };
        let (state, waited) = ignore_poison(self.changed.wait_timeout_while(self.state(), timeout, is_unwritten));
        drop(state);
        !waited.timed_out()
    }

    /// Rejects further lines, and waits for at most `timeout` until the reader has written the rest and ended.
    pub fn close(&self, timeout: Duration) {
        let mut state = self.state();
        state.is_closed = true;
        self.changed.notify_all();
        let me = std::thread::current().id();
        let is_running = |state: &mut LineBufferState| match state.reader {
            ReaderState::None | ReaderState::Ended => false,
            ReaderState::Starting => true,
            ReaderState::Running { thread, .. } => thread != me,
        };
        let _ended = ignore_poison(self.changed.wait_timeout_while(state, timeout, is_running));
    }
}

fn lines_lost(count: u64) -> Line {
    Line {
        event: LINES_LOST.name,
        target: LINES_LOST.target,
        level: LINES_LOST.level,
        fields: vec![("count", count.to_string())],
        source: None,
        left_out: 0,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use oxbus_model::caps::{LOG_LINES_WAITING_MAX, LOG_WINDOW_MS};
    use oxbus_model::{Clock, Moment, Ticks, Timestamp};

    use super::{Line, LineBuffer};
    use crate::line::tests::line;

    const LONG: Duration = Duration::from_secs(30);

    #[derive(Default)]
    struct TestClock(AtomicU64);

    impl Clock for TestClock {
        fn now(&self) -> Timestamp {
            Timestamp(0)
        }

        fn ticks(&self) -> Ticks {
            Ticks(self.0.load(Ordering::SeqCst))
        }

        fn moment(&self) -> Moment {
            Moment {
                now: self.now(),
                ticks: self.ticks(),
            }
        }
    }

    fn texts(taken: Option<Vec<Line>>) -> Vec<String> {
        taken.into_iter().flatten().map(|line| line.to_string()).collect()
    }

    #[test]
    fn lines_keep_their_order_and_the_first_one_requests_a_reader() {
        let (buffer, clock) = (LineBuffer::default(), TestClock::default());
        assert!(!buffer.has_reader());
        assert!(buffer.push(line("a.a", &[]), Ticks(0)));
        assert!(!buffer.push(line("a.b", &[]), Ticks(0)));
        assert_eq!(texts(buffer.take(&clock)), ["a.a", "a.b"]);
    }

    #[test]
    fn lines_beyond_the_limit_are_counted() {
        let (buffer, clock) = (LineBuffer::default(), TestClock::default());
        for number in 0..LOG_LINES_WAITING_MAX as u64 + 3 {
            // Each line is in its own window, because this test is not about the limit on repeated lines.
            buffer.push(line("a.a", &[]), Ticks(number * LOG_WINDOW_MS));
        }
        let texts = texts(buffer.take(&clock));
        assert_eq!(texts.len(), LOG_LINES_WAITING_MAX + 1);
        assert_eq!(texts.last().map(String::as_str), Some("log.lines_lost count=3"));
    }

    #[test]
    fn a_waiting_reader_reports_the_suppressed_lines() {
        let (buffer, clock) = (Arc::new(LineBuffer::default()), Arc::new(TestClock::default()));
        for _ in 0..9 {
            buffer.push(line("a.a", &[]), Ticks(0));
        }
        assert_eq!(texts(buffer.take(&*clock)).len(), 5);
        let (its, seen) = (Arc::clone(&buffer), Arc::clone(&clock));
        let reader = std::thread::spawn(move || texts(its.take(&*seen)));
        clock.0.store(LOG_WINDOW_MS, Ordering::SeqCst);
        // Another event wakes the reader, as the end of its wait would.
        buffer.push(line("b.b", &[]), Ticks(LOG_WINDOW_MS));
        let mut lines = reader.join().expect("it ends");
        lines.sort();
        assert_eq!(lines, ["a.a left_out=4", "b.b"]);
    }

    #[test]
    fn closing_writes_the_rest_and_the_counts() {
        let (buffer, clock) = (Arc::new(LineBuffer::default()), TestClock::default());
        for _ in 0..6 {
            buffer.push(line("a.a", &[]), Ticks(0));
        }
        let its = Arc::clone(&buffer);
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            while let Some(lines) = its.take(&clock) {
                all.extend(lines.iter().map(ToString::to_string));
            }
            all
        });
        assert!(buffer.flush(LONG));
        buffer.close(LONG);
        buffer.push(line("a.b", &[]), Ticks(0));
        let all = reader.join().expect("it ends");
        assert_eq!(all, ["a.a", "a.a", "a.a", "a.a", "a.a", "a.a left_out=1"]);
    }

    #[test]
    fn flush_and_close_do_not_wait_without_a_reader_or_on_its_thread() {
        let (buffer, clock) = (LineBuffer::default(), TestClock::default());
        assert!(buffer.flush(LONG));
        buffer.push(line("a.a", &[]), Ticks(0));
        buffer.take(&clock);
        assert!(buffer.flush(LONG), "the reader's own thread");
        buffer.close(LONG);
        assert_eq!(buffer.take(&clock), None);
    }
}
