// SPDX-License-Identifier: Apache-2.0
//! The runtime of a server: its threads and its shutdown.

use std::future::Future;
use std::sync::Mutex;
use std::time::Duration;

use oxbus_model::caps::SERVER_BLOCKING_THREADS_MAX;
use oxbus_model::sync::ignore_poison;
use oxbus_model::{Error, ErrorKind, Result};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The maximum number of worker threads. Work that waits for a store runs on blocking threads instead.
const WORKER_THREADS_MAX: usize = 4;

pub(super) fn cannot_start(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Storage, format!("the server cannot start: {error}")).with_source(error)
}

/// The runtime of a server.
pub(super) fn build_runtime() -> Result<Runtime> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(processors.min(WORKER_THREADS_MAX))
        .max_blocking_threads(SERVER_BLOCKING_THREADS_MAX)
        .thread_name("oxbus-serve")
        .enable_io()
        .enable_time()
        .build()
        .map_err(cannot_start)
}

/// A started server.
pub(super) struct ServerRuntime {
    stop: watch::Sender<bool>,
    /// The task ends when all connections are closed. A panic leaves it consistent: it is taken in one step.
    running: Mutex<Option<(Runtime, JoinHandle<()>)>>,
    close_timeout: Duration,
}

impl ServerRuntime {
    /// Spawns `serving`, which must end after `stop` turns true.
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

    /// Waits for `work`, but not longer than `limit`. Does nothing after [`ServerRuntime::close`].
    pub(super) fn run_for(&self, limit: Duration, work: impl Future<Output = ()>) {
        let handle = ignore_poison(self.running.lock())
            .as_ref()
            .map(|(runtime, _)| runtime.handle().clone());
        if let Some(handle) = handle {
            let _ = handle.block_on(async { tokio::time::timeout(limit, work).await });
        }
    }

    /// Stops the server. Connections get `close_timeout` to finish. A second call has no effect.
    pub(super) fn close(&self) {
        self.stop.send_replace(true);
        let running = ignore_poison(self.running.lock()).take();
        let Some((runtime, serving)) = running else { return };
        // Connections that are still open are aborted. Stored messages stay.
        let _ = runtime.block_on(async { tokio::time::timeout(self.close_timeout, serving).await });
        runtime.shutdown_background();
    }
}

impl Drop for ServerRuntime {
    fn drop(&mut self) {
        self.close();
    }
}
