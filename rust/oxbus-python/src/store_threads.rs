// SPDX-License-Identifier: Apache-2.0
//! The threads that make calls of event loops to stores. A call holds none while its store takes its time, and ends
//! whatever its event loop does.

use std::future::Future;
use std::io;
use std::sync::OnceLock;

use oxbus_server::run_call;
use oxbus_store::suspended::SuspendedCall;
use pyo3::prelude::*;
use tokio::runtime::Runtime;
use tokio::task::{JoinError, JoinHandle};

use crate::fork;

/// The most threads at a time: those of calls that begin or go on.
const THREADS_MAX: usize = 32;

/// The runtime of a process, and that of its forked children: a fork copies no threads. A child takes no lock that its
/// parent may hold, since a process only initialises its own runtime and the places before it.
struct Generation {
    runtime: OnceLock<io::Result<Runtime>>,
    next: OnceLock<Box<Self>>,
}

impl Generation {
    const fn new() -> Self {
        Self {
            runtime: OnceLock::new(),
            next: OnceLock::new(),
        }
    }
}

/// It is never dropped: a child must not wait for the threads of its parent.
static FIRST: Generation = Generation::new();

fn runtime() -> io::Result<&'static Runtime> {
    let mut own = &FIRST;
    for _ in 0..fork::count() {
        own = own.next.get_or_init(|| Box::new(Generation::new()));
    }
    let built = own.runtime.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(THREADS_MAX)
            .thread_name("oxbus-calls")
            .enable_time()
            .build()
    });
    built.as_ref().map_err(|error| error.kind().into())
}

/// Starts a call. It goes on if the handle is dropped.
pub(crate) fn start<T: Send + 'static>(
    call: impl Future<Output = T> + Send + 'static,
) -> PyResult<JoinHandle<Result<T, JoinError>>> {
    Ok(runtime()?.spawn(run_call(SuspendedCall::new(call), None)))
}
