// SPDX-License-Identifier: Apache-2.0
//! Lines between the threads that emit them and the one that writes them.
//!
//! Invariants
//! - the mutex is a leaf: nothing is called with it, so emitting cannot meet another lock;
//! - lines beyond the bound are counted and said, never waited for.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread::ThreadId;
use std::time::Duration;

use oxbus_model::caps::LOG_LINES_WAITING_MAX;
use oxbus_model::sync::ignore_poison;
use oxbus_model::{Clock, Ticks};

use super::events::LINES_LOST;
use super::limiter::RepeatLimiter;
use super::line::Line;

/// Lines on their way, until it is closed.
#[derive(Debug, Default)]
pub struct LineBuffer {
    /// Whole after a panic: each step is one push, or taking all.
    state: Mutex<LineBufferState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct LineBufferState {
    lines: Vec<Line>,
    limiter: RepeatLimiter,
    lost: u64,
    /// The state of the reader.
    reader: ReaderState,
    is_closed: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ReaderState {
    #[default]
    None,
    /// It was asked for.
    Starting,
    /// It waits for lines, or writes those that it took.
    Running(ThreadId, IsWriting),
    Ended,
}

type IsWriting = bool;

impl LineBuffer {
    fn state(&self) -> MutexGuard<'_, LineBufferState> {
        ignore_poison(self.state.lock())
    }

    /// Takes a line, unless it is one of too many. True when a reader is to be started.
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

    /// Asks for a reader before there is a line. True when one is to be started.
    pub(crate) fn request_reader(&self) -> bool {
        let mut state = self.state();
        let starts = state.reader == ReaderState::None && !state.is_closed;
        if starts {
            state.reader = ReaderState::Starting;
        }
        starts
    }

    /// True when a reader runs or was requested.
    pub fn has_reader(&self) -> bool {
        !matches!(self.state().reader, ReaderState::None)
    }

    /// Notes that no reader could be started: the next line asks for one again.
    pub fn reader_not_started(&self) {
        self.state().reader = ReaderState::None;
    }

    /// Waits for lines, at least one; `None` when no more will come. The one reader calls it again and again; what it
    /// took before is written then.
    pub fn take(&self, clock: &dyn Clock) -> Option<Vec<Line>> {
        let me = std::thread::current().id();
        let mut state = self.state();
        state.reader = ReaderState::Running(me, false);
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
                state.reader = ReaderState::Running(me, true);
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
                    // A coarse clock may be a tick behind the end of the wait.
                    let left = Duration::from_millis(due.0.saturating_sub(now.0).max(10));
                    ignore_poison(self.changed.wait_timeout(state, left)).0
                }
            };
        }
    }

    /// Waits until all lines so far are written, or for so long. The reader does not wait for itself.
    pub fn flush(&self, longest: Duration) -> bool {
        let is_on_its_way = |state: &mut LineBufferState| {
            let me = std::thread::current().id();
            match state.reader {
                ReaderState::None | ReaderState::Ended => false,
                ReaderState::Starting => true,
                ReaderState::Running(its, is_writing) => its != me && (is_writing || !state.lines.is_empty()),
            }
        };
        let (state, waited) = ignore_poison(self.changed.wait_timeout_while(self.state(), longest, is_on_its_way));
        drop(state);
        !waited.timed_out()
    }

    /// Takes no more lines, and waits until the reader has written the rest and has ended, or for so long.
    pub fn close(&self, longest: Duration) {
        let mut state = self.state();
        state.is_closed = true;
        self.changed.notify_all();
        let me = std::thread::current().id();
        let reads = |state: &mut LineBufferState| match state.reader {
            ReaderState::None | ReaderState::Ended => false,
            ReaderState::Starting => true,
            ReaderState::Running(its, _) => its != me,
        };
        let _ended = ignore_poison(self.changed.wait_timeout_while(state, longest, reads));
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
    fn lines_come_in_order_and_the_first_asks_for_a_reader() {
        let (buffer, clock) = (LineBuffer::default(), TestClock::default());
        assert!(!buffer.has_reader());
        assert!(buffer.push(line("a.a", &[]), Ticks(0)));
        assert!(!buffer.push(line("a.b", &[]), Ticks(0)));
        assert_eq!(texts(buffer.take(&clock)), ["a.a", "a.b"]);
    }

    #[test]
    fn what_is_not_read_in_time_is_counted() {
        let (buffer, clock) = (LineBuffer::default(), TestClock::default());
        for number in 0..LOG_LINES_WAITING_MAX as u64 + 3 {
            // Each has a separate window, since this test is not about the limit on repeated lines.
            buffer.push(line("a.a", &[]), Ticks(number * LOG_WINDOW_MS));
        }
        let texts = texts(buffer.take(&clock));
        assert_eq!(texts.len(), LOG_LINES_WAITING_MAX + 1);
        assert_eq!(texts.last().map(String::as_str), Some("log.lines_lost count=3"));
    }

    #[test]
    fn a_reader_that_waits_wakes_to_say_how_many_were_left_out() {
        let (buffer, clock) = (Arc::new(LineBuffer::default()), Arc::new(TestClock::default()));
        for _ in 0..9 {
            buffer.push(line("a.a", &[]), Ticks(0));
        }
        assert_eq!(texts(buffer.take(&*clock)).len(), 5);
        let (its, seen) = (Arc::clone(&buffer), Arc::clone(&clock));
        let reader = std::thread::spawn(move || texts(its.take(&*seen)));
        clock.0.store(LOG_WINDOW_MS, Ordering::SeqCst);
        // Another event has the reader look, as the end of its wait would.
        buffer.push(line("b.b", &[]), Ticks(LOG_WINDOW_MS));
        let mut said = reader.join().expect("it ends");
        said.sort();
        assert_eq!(said, ["a.a left_out=4", "b.b"]);
    }

    #[test]
    fn closing_has_the_rest_written_and_said() {
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
    fn nobody_waits_for_a_reader_that_is_not_there_or_for_himself() {
        let (buffer, clock) = (LineBuffer::default(), TestClock::default());
        assert!(buffer.flush(LONG));
        buffer.push(line("a.a", &[]), Ticks(0));
        buffer.take(&clock);
        assert!(buffer.flush(LONG), "the reader's own thread");
        buffer.close(LONG);
        assert_eq!(buffer.take(&clock), None);
    }
}
