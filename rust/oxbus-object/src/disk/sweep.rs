// SPDX-License-Identifier: Apache-2.0
//! What earlier owners left in the store, and deleting blobs.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::task::JoinSet;

use super::Shared;
use super::object::HEADER_BYTES;
use super::place::ObjectKey;

/// Blobs that are deleted at once.
const DELETES: usize = 8;

/// The keys of checkpoints and objects that the files of this owner do not need.
pub(super) async fn leftovers(shared: &Shared, checkpoint: Option<&str>) -> Vec<String> {
    let mut found = Vec::new();
    if let Ok(listing) = shared.store.list("checkpoints/").await {
        let keys = listing.into_iter().map(|it| it.key);
        found.extend(keys.filter(|key| Some(key.as_str()) != checkpoint));
    }
    let Ok(listing) = shared.store.list("lanes/").await else {
        return found;
    };
    let state = shared.state.lock();
    let needed: BTreeSet<String> = {
        let name = |key: ObjectKey| Some(state.map.lane(key.lane())?.key(key.number()));
        state.map.objects().filter_map(|(key, _)| name(key)).collect()
    };
    let own = format!("lanes/{}/", shared.lane);
    // A fence has only a header. It stays for ever.
    let is_fence = |bytes: u64| bytes == HEADER_BYTES as u64;
    let unneeded = listing
        .into_iter()
        .filter(|it| !is_fence(it.bytes) && !it.key.starts_with(&own) && !needed.contains(&it.key));
    found.extend(unneeded.map(|it| it.key));
    found
}

/// Deletes blobs, some at once. Passes what comes with each key to `deleted` once its blob is gone.
pub(super) async fn delete_all<T: Send + 'static>(
    shared: &Arc<Shared>,
    blobs: impl IntoIterator<Item = (String, T)>,
    deleted: impl Fn(T),
) {
    let mut running: JoinSet<Option<T>> = JoinSet::new();
    let ended = |done: Option<Result<Option<T>, tokio::task::JoinError>>| {
        if let Some(Ok(Some(with))) = done {
            deleted(with);
        }
    };
    for (key, with) in blobs {
        if running.len() == DELETES {
            ended(running.join_next().await);
        }
        let shared = Arc::clone(shared);
        running.spawn(async move { shared.store.delete(&key).await.is_ok().then_some(with) });
    }
    while let Some(done) = running.join_next().await {
        ended(Some(done));
    }
}
