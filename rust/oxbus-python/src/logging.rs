// SPDX-License-Identifier: Apache-2.0
//! Forwards events of all crates to Python's `logging`, under loggers `oxbus.*`.
//!
//! A thread that emits an event may hold locks of the broker, or the interpreter, so it never calls Python: it puts a
//! line into a buffer. The thread `oxbus-log` passes lines from the buffer to `pyo3_log`. It starts with the first
//! line that a level may let through, or when a directory is opened or a server starts. Handlers run in that thread
//! and may even use oxbus.
//!
//! Source: docs/decisions/0030-log-lines-through-one-thread.md.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use log::kv::{Key, Source, Value, VisitSource};
use log::{Log, Record};
use oxbus_broker::SystemClock;
use oxbus_log::{Levels, Line, LineBuffer, LogSubscriber, TARGETS};
use oxbus_model::{Clock, Ticks};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3_log::{Caching, Logger};

use crate::{fork, waiting};

/// The maximum wait for handlers at the end of the process.
const END_MAX: Duration = Duration::from_secs(10);

static LOG: OnceLock<LogBridge> = OnceLock::new();
/// True if all lines are suppressed, whatever the levels in Python.
static MUTED: AtomicBool = AtomicBool::new(false);

struct LogBridge {
    subscriber: Arc<LogSubscriber>,
    levels: Arc<Levels>,
    clock: Arc<SystemClock>,
}

/// Subscribes to the events of this library. Starts no thread.
pub(crate) fn install() -> PyResult<()> {
    let (levels, clock) = (Arc::new(Levels::default()), Arc::new(SystemClock::new()));
    let subscriber = Arc::new(LogSubscriber::new(
        clock.clone(),
        Arc::clone(&levels),
        fork::count,
        Box::new(start),
    ));
    let log = LogBridge {
        subscriber: Arc::clone(&subscriber),
        levels,
        clock,
    };
    if LOG.set(log).is_err() {
        return Ok(());
    }
    tracing::subscriber::set_global_default(subscriber)
        .map_err(|error| PyRuntimeError::new_err(format!("events cannot be logged: {error}")))
}

fn start(buffer: Arc<LineBuffer>) {
    let reader_buffer = Arc::clone(&buffer);
    let named = std::thread::Builder::new().name("oxbus-log".to_owned());
    if named.spawn(move || read(&reader_buffer)).is_err() {
        buffer.reader_not_started();
    }
}

/// Passes lines on until the buffer is closed.
fn read(buffer: &LineBuffer) {
    let clock = SystemClock::new();
    let mut logger = None;
    while let Some(lines) = buffer.take(&clock) {
        // After the interpreter has ended, lines are dropped.
        let _ = Python::try_attach(|py| write_all(py, &mut logger, &lines));
    }
}

fn write_all(py: Python<'_>, logger: &mut Option<Logger>, lines: &[Line]) {
    let written = (|| {
        // A program that never imported `logging` gets warnings and errors only.
        let is_wanted = |line: &Line| line.level <= tracing::Level::WARN;
        if logger.is_none() && (is_imported(py)? || lines.iter().any(is_wanted)) {
            *logger = Some(Logger::new(py, Caching::Loggers)?);
        }
        if let Some(logger) = logger {
            for line in lines {
                write(py, logger, line);
            }
        }
        read_levels(py)
    })();
    if let Err(error) = written {
        error.write_unraisable(py, None);
    }
}

fn write(py: Python<'_>, logger: &Logger, line: &Line) {
    let (file, number) = line.source.unzip();
    logger.log(
        &Record::builder()
            .level(level_of(line.level))
            .target(line.target)
            .args(format_args!("{line}"))
            .file_static(file)
            .line(number)
            .key_values(&LineFields(line))
            .build(),
    );
    // `pyo3_log` leaves the exception of a handler set, and the next Python call would fail with it.
    if let Some(error) = PyErr::take(py) {
        error.write_unraisable(py, None);
    }
}

fn level_of(level: tracing::Level) -> log::Level {
    match level {
        tracing::Level::ERROR => log::Level::Error,
        tracing::Level::WARN => log::Level::Warn,
        tracing::Level::INFO => log::Level::Info,
        tracing::Level::DEBUG => log::Level::Debug,
        tracing::Level::TRACE => log::Level::Trace,
    }
}

/// The event name and the fields of a line, which become attributes of the log record in Python.
struct LineFields<'a>(&'a Line);

impl Source for LineFields<'_> {
    fn visit<'kvs>(&'kvs self, visitor: &mut dyn VisitSource<'kvs>) -> Result<(), log::kv::Error> {
        visitor.visit_pair(Key::from_str("event"), Value::from(self.0.event))?;
        for (name, value) in &self.0.fields {
            visitor.visit_pair(Key::from_str(name), Value::from(value.as_str()))?;
        }
        if self.0.left_out > 0 {
            visitor.visit_pair(Key::from_str("left_out"), Value::from(self.0.left_out))?;
        }
        Ok(())
    }
}

fn is_imported(py: Python<'_>) -> PyResult<bool> {
    py.import("sys")?.getattr("modules")?.contains("logging")
}

/// Reads the levels from Python again unless they are fresh. It runs Python code, and a daemon thread that loses the
/// interpreter there at exit ends the process. Use it only in calls that daemon threads rarely make.
pub(crate) fn refresh_levels(py: Python<'_>) -> PyResult<()> {
    match LOG.get() {
        Some(log) if !waiting::is_exiting() && !log.levels.are_fresh(log.clock.ticks()) => read_levels(py),
        _ => Ok(()),
    }
}

/// Starts the log thread, which keeps the levels current, and refreshes them now. For calls after which background
/// threads emit events.
pub(crate) fn start_and_refresh_levels(py: Python<'_>) -> PyResult<()> {
    if let Some(log) = LOG.get() {
        log.subscriber.start_reader();
    }
    refresh_levels(py)
}

fn read_levels(py: Python<'_>) -> PyResult<()> {
    use tracing::Level;

    let Some(log) = LOG.get() else { return Ok(()) };
    if MUTED.load(Ordering::SeqCst) {
        for target in TARGETS {
            log.levels.set(target, None, Ticks::NEVER);
        }
        return Ok(());
    }
    let get_logger = if is_imported(py)? {
        Some(py.import("logging")?.getattr("getLogger")?)
    } else {
        None
    };
    for target in TARGETS {
        let mut wanted = Some(Level::WARN);
        if let Some(get_logger) = &get_logger {
            let logger = get_logger.call1((target.replace("::", "."),))?;
            wanted = None;
            for (number, level) in [
                (10, Level::DEBUG),
                (20, Level::INFO),
                (30, Level::WARN),
                (40, Level::ERROR),
            ] {
                if logger.call_method1("isEnabledFor", (number,))?.is_truthy()? {
                    wanted = Some(level);
                    break;
                }
            }
        }
        log.levels.set(target, wanted, log.clock.ticks());
    }
    Ok(())
}

/// Waits up to `seconds` until all lines so far are written. Returns false if some are not.
#[pyfunction]
pub(crate) fn _flush_log(py: Python<'_>, seconds: f64) -> bool {
    let longest = Duration::try_from_secs_f64(seconds).unwrap_or(END_MAX);
    let Some(log) = LOG.get() else { return true };
    py.detach(|| log.subscriber.buffer().flush(longest))
}

/// Suppresses all lines, whatever their levels, or resumes writing.
#[pyfunction]
pub(crate) fn _mute_log(py: Python<'_>, muted: bool) -> PyResult<()> {
    MUTED.store(muted, Ordering::SeqCst);
    read_levels(py)
}

/// Writes all lines so far and drops later ones.
#[pyfunction]
pub(crate) fn _end_log(py: Python<'_>) {
    let Some(log) = LOG.get() else { return };
    let buffer = log.subscriber.buffer();
    if buffer.has_reader() {
        py.detach(|| buffer.close(END_MAX));
    } else {
        // Without a reader, this thread stays attached: detaching at exit would let another thread run.
        buffer.close(Duration::ZERO);
    }
}
