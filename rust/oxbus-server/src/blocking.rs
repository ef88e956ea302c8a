// SPDX-License-Identifier: Apache-2.0
//! Calls of the broker, on threads that may wait.

use oxbus_broker::Namespace;
use oxbus_broker::clock::with_timeout;
use oxbus_model::caps::CALL_MS_DEFAULT;
use oxbus_model::{Effect, Error, ErrorKind, Result};
use oxbus_store::Wait;

/// Runs `work` with a wait that leaves a store which does not answer.
pub(crate) fn with_call_timeout<T>(work: impl FnOnce(&Wait<'_>) -> T) -> T {
    with_timeout(CALL_MS_DEFAULT, &Wait::FOREVER, work)
}

/// Runs `work` on a thread that may wait for a store; it leaves one that does not answer.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce(&Wait<'_>) -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(|| with_call_timeout(work)).await;
    done.unwrap_or_else(|_| {
        // The panic was told where it happened; whoever called learns that nothing is known of the call.
        let detail = "the server failed within the call; look at its error output";
        Err(Error::new(ErrorKind::Storage, detail).with_effect(Effect::Unknown))
    })
}

/// Runs a short `work` that may wait for the catalog of a namespace: in place when the namespace is in memory, else on a thread
/// that may wait.
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
