// SPDX-License-Identifier: Apache-2.0
//! The runtime of all clients of the process: one thread, started at first use.
//!
//! The thread reads and writes sockets and drives timers. Callers encode, decode and wait on their own threads.

use std::future::Future;
use std::sync::OnceLock;

use oxbus_model::ErrorKind;
use tokio::runtime::{EnterGuard, Handle};
use tokio::task::JoinHandle;

use crate::error::{ClientError, Result};

/// Threads for callbacks that give tokens, beside the runtime's own.
const TOKEN_THREADS_MAX: usize = 4;

/// The runtime, and the process that it belongs to: a fork copies no threads.
struct ProcessRuntime {
    process: u32,
    handle: std::result::Result<Handle, String>,
}

static RUNTIME: OnceLock<ProcessRuntime> = OnceLock::new();

fn start() -> ProcessRuntime {
    let built = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(TOKEN_THREADS_MAX)
        .thread_name("oxbus-token")
        .enable_io()
        .enable_time()
        .build();
    let started = built.and_then(|runtime| {
        let handle = runtime.handle().clone();
        std::thread::Builder::new()
            .name("oxbus-client".to_owned())
            .spawn(move || runtime.block_on(std::future::pending::<()>()))?;
        Ok(handle)
    });
    ProcessRuntime {
        process: std::process::id(),
        handle: started.map_err(|error| error.to_string()),
    }
}

/// The runtime of this process.
pub(crate) fn handle() -> Result<&'static Handle> {
    let runtime = RUNTIME.get_or_init(start);
    if runtime.process != std::process::id() {
        let detail = "this process was forked from one with open clients, which have no thread here; start processes \
                      with spawn, or open clients only after the fork";
        return Err(ClientError::broker(ErrorKind::Forked, detail));
    }
    runtime.handle.as_ref().map_err(|error| {
        let detail = format!("the client's thread cannot start; raise the limit of threads: {error}");
        ClientError::broker(ErrorKind::Storage, detail)
    })
}

/// Lets this thread create sockets and timers of the runtime.
pub fn enter() -> Result<EnterGuard<'static>> {
    Ok(handle()?.enter())
}

/// Runs a future on the runtime's thread.
pub(crate) fn spawn<F>(future: F) -> Result<JoinHandle<F::Output>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    Ok(handle()?.spawn(future))
}
