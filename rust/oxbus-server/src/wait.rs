// SPDX-License-Identifier: Apache-2.0
//! Waiting in a task: the steps run on threads that may wait for a store, and the sleep between them takes none.

use std::sync::Arc;
use std::time::Duration;

use oxbus_broker::client::{Step, WaitOptions, WaitSource, step};
use oxbus_broker::clock::Deadline;
use oxbus_model::Result;
use oxbus_store::Wait;
use tokio::sync::{Notify, watch};

use crate::accept::until_stopped;
use crate::work::on_thread;

/// Looks until there is something; `None` when the deadline is over, or the server is to end.
///
/// What a look finds must go back when it is dropped: nobody is there to take it when the caller left in the meantime.
pub(crate) async fn until_found<S, T, L>(
    source: &Arc<S>,
    deadline: Deadline,
    mut stopped: watch::Receiver<bool>,
    look: L,
) -> Result<Option<T>>
where
    S: WaitSource + Send + Sync + 'static,
    T: Send + 'static,
    L: Fn(&Arc<S>, &Wait<'_>) -> Result<Option<T>> + Send + Sync + 'static,
{
    let look = Arc::new(look);
    let notified = Arc::new(Notify::new());
    let mut earlier = None;
    loop {
        let (source, look, is_stopped) = (Arc::clone(source), Arc::clone(&look), stopped.clone());
        let callback = Arc::clone(&notified);
        let stepped = on_thread(move |store| {
            let is_over = || *is_stopped.borrow();
            let options = WaitOptions {
                deadline,
                cancellation: &Wait::until(&is_over),
                ask_every: None,
            };
            let callback = Arc::new(move || callback.notify_one());
            step(&*source, earlier, &options, Some(callback), || look(&source, store))
        });
        let waiting = match stepped.await? {
            Step::Found(found) => return Ok(Some(found)),
            Step::Over => return Ok(None),
            Step::Waiting(waiting) => waiting,
        };
        tokio::select! {
            () = notified.notified() => {}
            () = tokio::time::sleep(waiting.at_most.unwrap_or(Duration::MAX)) => {}
            () = until_stopped(&mut stopped) => {}
        }
        earlier = Some(waiting);
    }
}
