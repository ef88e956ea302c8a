// SPDX-License-Identifier: Apache-2.0
//! The state of the console of one server.

use std::sync::{Arc, Mutex};

use oxbus_model::Timestamp;
use tokio::sync::Semaphore;

use super::attempts::Attempts;
use super::history::History;
use super::jobs::Jobs;
use super::options::ConsoleOptions;
use super::overview_row::Row;
use super::session::SignIns;

/// Streams of events at once, of all browsers.
pub(super) const STREAMS_MAX: usize = 64;

/// The rows of the overview, and when they were read.
pub(super) type OverviewCache = Mutex<Option<(Timestamp, Arc<Vec<Row>>)>>;

/// The state of a console.
pub(crate) struct Console {
    pub(super) options: ConsoleOptions,
    pub(super) sign_ins: SignIns,
    pub(super) attempts: Attempts,
    pub(super) history: History,
    pub(super) jobs: Jobs,
    pub(super) streams: Arc<Semaphore>,
    /// Replaced in one step, so it is consistent after a panic.
    pub(super) overview: OverviewCache,
}

impl Console {
    pub(crate) fn new(options: ConsoleOptions) -> Self {
        Self {
            options,
            sign_ins: SignIns::default(),
            attempts: Attempts::default(),
            history: History::default(),
            jobs: Jobs::default(),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            overview: Mutex::default(),
        }
    }

    /// True if it refuses every change.
    pub(crate) fn is_read_only(&self) -> bool {
        self.options.is_read_only
    }
}
