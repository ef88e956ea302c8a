// SPDX-License-Identifier: Apache-2.0
//! Events of all crates as lines of Python's `logging`, under loggers `oxbus.*`.
//!
//! A thread that emits an event may hold locks of the broker, or the interpreter, so it never calls Python: it leaves a line
//! in a buffer. The thread `oxbus-log` takes lines from there and hands them to `pyo3_log`. It starts with the first line that
//! may be wanted, or when a directory is opened or served; a handler may do what it likes there, even use oxbus.
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

/// For how long the end of the process waits for a handler.
const END_MAX: Duration = Duration::from_secs(10);

static LOG: OnceLock<LogBridge> = OnceLock::new();
/// Nothing is wanted, whatever Python says.
static MUTED: AtomicBool = AtomicBool::new(false);

struct LogBridge {
    subscriber: Arc<LogSubscriber>,
    levels: Arc<Levels>,
    clock: Arc<SystemClock>,
}

/// Takes the events of this library from now on; starts no thread.
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

/// Writes lines until no more come.
fn read(buffer: &LineBuffer) {
    let clock = SystemClock::new();
    let mut logger = None;
    while let Some(lines) = buffer.take(&clock) {
        // Without an interpreter there is nobody to write for.
        let _ = Python::try_attach(|py| write_all(py, &mut logger, &lines));
    }
}

fn write_all(py: Python<'_>, logger: &mut Option<Logger>, lines: &[Line]) {
    let written = (|| {
        // What a program says that never imported it: warnings are wanted, and nothing else.
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
    // The bridge leaves what a handler raised where the next call of Python would trip over it.
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

/// The name and the fields of a line; the attributes of its record in Python.
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

/// Has a change of levels in Python count from now on. For calls that are seldom made by threads that the interpreter does not
/// wait for: it runs Python code, and one that loses the interpreter in it at the exit ends the process.
pub(crate) fn refresh_levels(py: Python<'_>) -> PyResult<()> {
    match LOG.get() {
        Some(log) if !waiting::is_exiting() && !log.levels.are_fresh(log.clock.ticks()) => read_levels(py),
        _ => Ok(()),
    }
}

/// Looks, and has every later change of levels count soon: for what emits events by itself.
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

/// Waits until the lines so far are written, or for so many seconds; false when some are not.
#[pyfunction]
pub(crate) fn _flush_log(py: Python<'_>, seconds: f64) -> bool {
    let longest = Duration::try_from_secs_f64(seconds).unwrap_or(END_MAX);
    let Some(log) = LOG.get() else { return true };
    py.detach(|| log.subscriber.buffer().flush(longest))
}

/// Takes no lines, whatever levels say; or takes them again.
#[pyfunction]
pub(crate) fn _mute_log(py: Python<'_>, muted: bool) -> PyResult<()> {
    MUTED.store(muted, Ordering::SeqCst);
    read_levels(py)
}

/// Has the lines so far written; later ones are not.
#[pyfunction]
pub(crate) fn _end_log(py: Python<'_>) {
    let Some(log) = LOG.get() else { return };
    let buffer = log.subscriber.buffer();
    if buffer.has_reader() {
        py.detach(|| buffer.close(END_MAX));
    } else {
        // The interpreter is not let go of at its exit for nothing: another thread would run on.
        buffer.close(Duration::ZERO);
    }
}
