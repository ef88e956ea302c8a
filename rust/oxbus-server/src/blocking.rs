// SPDX-License-Identifier: Apache-2.0
//! Broker calls that may block, with a timeout.

use oxbus_broker::Namespace;
use oxbus_broker::clock::with_timeout;
use oxbus_model::caps::CALL_MS_DEFAULT;
use oxbus_model::{Effect, Error, ErrorKind, Result};
use oxbus_store::Wait;

/// Runs `work` with a wait that gives up on an unresponsive store after `CALL_MS_DEFAULT`.
pub(crate) fn with_call_timeout<T>(work: impl FnOnce(&Wait<'_>) -> T) -> T {
    with_timeout(CALL_MS_DEFAULT, &Wait::FOREVER, work)
}

/// Runs `work` on a blocking thread, with the timeout of [`with_call_timeout`].
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce(&Wait<'_>) -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(|| with_call_timeout(work)).await;
    done.unwrap_or_else(|_| {
        // The panic hook has already reported it. The effect of the call is unknown.
        let detail = "the server panicked during the call; see its error output";
        Err(Error::new(ErrorKind::Storage, detail).with_effect(Effect::Unknown))
    })
}

/// Runs short `work` that may wait for the namespace's catalog: in place for a namespace in memory, else on a
/// blocking thread.
pub(crate) async fn run_lookup<T: Send + 'static>(
    namespace: &Namespace,
    work: impl FnOnce(&Wait<'_>) -> Result<T> + Send + 'static,
) -> Result<T> {
    if namespace.may_wait() {
        run_blocking(work).await
    } else {
        with_call_timeout(work)
    }
}
