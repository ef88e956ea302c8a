// SPDX-License-Identifier: Apache-2.0
//! A server that runs: its threads, and how it ends.

use std::future::Future;
use std::sync::Mutex;
use std::time::Duration;

use oxbus_model::sync::whole;
use oxbus_model::{Error, ErrorKind, Result};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Most threads that handle requests: work that waits for a store is done on others.
const WORKER_THREADS_MAX: usize = 4;

/// What cannot be started, and why.
pub(super) fn cannot_start(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Storage, format!("the server cannot start: {error}")).with_source(error)
}

/// The threads of a server.
pub(super) fn build_runtime(name: &str, blocking_max: usize) -> Result<Runtime> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(processors.min(WORKER_THREADS_MAX))
        .max_blocking_threads(blocking_max)
        .thread_name(name)
        .enable_io()
        .enable_time()
        .build()
        .map_err(cannot_start)
}

/// A server between its start and its end.
pub(super) struct ServerRuntime {
    stop: watch::Sender<bool>,
    /// Ends once all connections have ended. Taken in one step: whole after a panic.
    running: Mutex<Option<(Runtime, JoinHandle<()>)>>,
    close_timeout: Duration,
}

impl ServerRuntime {
    /// Runs `serving`, which ends after `stop` says true, until then.
    pub(super) fn new(
        runtime: Runtime,
        stop: watch::Sender<bool>,
        serving: impl Future<Output = ()> + Send + 'static,
        close_timeout: Duration,
    ) -> Self {
        let serving = runtime.spawn(serving);
        Self {
            stop,
            running: Mutex::new(Some((runtime, serving))),
            close_timeout,
        }
    }

    /// True until [`ServerRuntime::close`].
    pub(super) fn is_open(&self) -> bool {
        !*self.stop.borrow()
    }

    /// Ends it; connections have some time to end by themselves. Closing again does nothing.
    pub(super) fn close(&self) {
        self.stop.send_replace(true);
        let running = whole(self.running.lock()).take();
        let Some((runtime, serving)) = running else { return };
        // Those that are not done by then are cut off; what they stored stays.
        let _ = runtime.block_on(async { tokio::time::timeout(self.close_timeout, serving).await });
        runtime.shutdown_background();
    }
}

impl Drop for ServerRuntime {
    fn drop(&mut self) {
        self.close();
    }
}
