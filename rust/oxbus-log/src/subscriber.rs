// SPDX-License-Identifier: Apache-2.0
//! The `tracing` subscriber for the events of oxbus.
//!
//! A forked child gets a new buffer: a thread of the parent may have locked the parent's buffer at the fork, and the
//! parent writes its lines.

use std::sync::{Arc, OnceLock};

use oxbus_model::Clock;
use tracing::metadata::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

use super::buffer::LineBuffer;
use super::events::TARGETS;
use super::levels::Levels;
use super::line::Line;

/// Starts the reader thread of a buffer. Must not block.
pub type StartReader = Box<dyn Fn(Arc<LineBuffer>) + Send + Sync>;

/// Turns events into lines of a buffer.
pub struct LogSubscriber {
    clock: Arc<dyn Clock>,
    levels: Arc<Levels>,
    start: StartReader,
    /// The number of forks from the first process to this one.
    forks: fn() -> u64,
    first: ProcessBuffer,
}

/// The buffer of a process, and those of its forked children.
struct ProcessBuffer {
    forks: u64,
    buffer: Arc<LineBuffer>,
    child: OnceLock<Box<ProcessBuffer>>,
}

impl ProcessBuffer {
    fn new(forks: u64) -> Self {
        Self {
            forks,
            buffer: Arc::default(),
            child: OnceLock::new(),
        }
    }
}

impl LogSubscriber {
    /// Creates a subscriber. `start` starts the reader when the first line needs it.
    pub fn new(clock: Arc<dyn Clock>, levels: Arc<Levels>, forks: fn() -> u64, start: StartReader) -> Self {
        Self {
            clock,
            levels,
            start,
            forks,
            first: ProcessBuffer::new(forks()),
        }
    }

    /// The buffer of this process.
    pub fn buffer(&self) -> &Arc<LineBuffer> {
        let forks = (self.forks)();
        let mut process = &self.first;
        while process.forks < forks {
            process = process.child.get_or_init(|| Box::new(ProcessBuffer::new(forks)));
        }
        &process.buffer
    }

    /// Starts the reader before the first line, so that level changes take effect from now on.
    pub fn start_reader(&self) {
        let buffer = self.buffer();
        if buffer.request_reader() {
            (self.start)(Arc::clone(buffer));
        }
    }

    fn is_ours(metadata: &Metadata<'_>) -> bool {
        TARGETS.contains(&metadata.target())
    }
}

impl Subscriber for LogSubscriber {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if Self::is_ours(metadata) {
            Interest::sometimes()
        } else {
            Interest::never()
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::DEBUG)
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let level = *metadata.level();
        Self::is_ours(metadata)
            && self
                .levels
                .is_enabled(metadata.target(), level, self.clock.ticks())
                // The reader checks the level again. Only warnings and errors start a reader: lower levels are usually
                // disabled and not worth a thread.
                .unwrap_or_else(|| level <= Level::WARN || self.buffer().has_reader())
    }

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let mut line = Line {
            event: metadata.name(),
            target: metadata.target(),
            level: *metadata.level(),
            fields: Vec::new(),
            source: metadata.file().zip(metadata.line()),
            left_out: 0,
        };
        event.record(&mut line);
        let buffer = self.buffer();
        if buffer.push(line, self.clock.ticks()) {
            (self.start)(Arc::clone(buffer));
        }
    }

    // oxbus uses no spans.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex, PoisonError};

    use oxbus_model::caps::LOG_VALUE_CHARS_MAX;
    use oxbus_model::{Clock, Moment, Ticks, Timestamp};
    use tracing::Level;
    use tracing::subscriber::with_default;

    use super::LogSubscriber;
    use crate::buffer::LineBuffer;
    use crate::levels::Levels;
    use crate::{enabled, event};

    /// A clock that never advances.
    struct FixedClock;

    impl Clock for FixedClock {
        fn now(&self) -> Timestamp {
            Timestamp(0)
        }

        fn ticks(&self) -> Ticks {
            Ticks(1_000)
        }

        fn moment(&self) -> Moment {
            Moment {
                now: self.now(),
                ticks: self.ticks(),
            }
        }
    }

    thread_local! {
        static FORKS: Cell<u64> = const { Cell::new(0) };
    }

    /// Runs one test at a time, because `tracing` caches the interest of call sites per process.
    static ONE: Mutex<()> = Mutex::new(());

    /// The lines that `emit` emitted in this process, and how often a reader was started.
    fn emitted(levels: &Arc<Levels>, emit: impl FnOnce()) -> (Vec<String>, usize) {
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let started = Arc::new(AtomicUsize::new(0));
        let starts = Arc::clone(&started);
        let start = move |_: Arc<LineBuffer>| {
            starts.fetch_add(1, Ordering::SeqCst);
        };
        let subscriber = Arc::new(LogSubscriber::new(
            Arc::new(FixedClock),
            Arc::clone(levels),
            || FORKS.get(),
            Box::new(start),
        ));
        with_default(Arc::clone(&subscriber), emit);
        let buffer = Arc::clone(subscriber.buffer());
        // Another event, so that `take` returns.
        event_into(&buffer);
        let taken = buffer.take(&FixedClock).unwrap_or_default();
        let lines: Vec<String> = taken.iter().map(ToString::to_string).collect();
        let end = lines.len() - 1;
        (lines[..end].to_vec(), started.load(Ordering::SeqCst))
    }

    fn event_into(buffer: &LineBuffer) {
        buffer.push(crate::line::tests::line("end", &[]), Ticks(1_000));
    }

    #[test]
    fn an_event_becomes_a_line_with_its_name_and_fields() {
        let error = std::io::Error::other("no disk");
        let (lines, started) = emitted(&Arc::default(), || {
            event!(PARTITION_FAULT, partition = 2u16, fault = "failed", cause = %error);
        });
        assert_eq!(lines, [r#"partition.fault partition=2 fault=failed cause="no disk""#]);
        assert_eq!(started, 1);
    }

    #[test]
    fn long_values_are_truncated() {
        let name = "e".repeat(3 * LOG_VALUE_CHARS_MAX);
        for is_text in [true, false] {
            let (lines, _) = emitted(&Arc::default(), || {
                if is_text {
                    event!(CLIENT_REFUSED, entity = name);
                } else {
                    event!(CLIENT_REFUSED, entity = %name);
                }
            });
            let short = "e".repeat(LOG_VALUE_CHARS_MAX);
            assert_eq!(lines, [format!("client.refused entity={short}")]);
        }
    }

    #[test]
    fn an_unknown_lower_level_starts_no_reader() {
        let (lines, started) = emitted(&Arc::default(), || {
            event!(NAMESPACE_CLOSED, partitions = 2u16);
            assert!(!enabled!(NAMESPACE_CLOSED));
            assert!(enabled!(PARTITION_HEALED));
        });
        assert_eq!((lines, started), (Vec::new(), 0));
    }

    #[test]
    fn a_disabled_level_is_dropped() {
        let levels = Arc::new(Levels::default());
        levels.set("oxbus::broker", Some(Level::ERROR), Ticks(1_000));
        let (lines, _) = emitted(&levels, || {
            event!(PARTITION_HEALED, partition = 1u16);
            event!(PARTITION_FAULT, partition = 1u16);
        });
        assert_eq!(lines, ["partition.fault partition=1"]);
    }

    #[test]
    fn events_of_other_crates_are_ignored() {
        let (lines, started) = emitted(&Arc::default(), || {
            tracing::error!(target: "somebody", "else");
        });
        assert_eq!((lines, started), (Vec::new(), 0));
    }

    #[test]
    fn a_forked_child_leaves_the_lines_of_its_parent_alone() {
        let (lines, started) = emitted(&Arc::default(), || {
            event!(PARTITION_FAULT, partition = 1u16);
            FORKS.set(FORKS.get() + 1);
            event!(PARTITION_FAULT, partition = 2u16);
        });
        assert_eq!(lines, ["partition.fault partition=2"]);
        assert_eq!(started, 2, "one in each process");
    }
}
