// SPDX-License-Identifier: Apache-2.0
//! Requests to the store that are repeated until they have an answer, and how long to wait between attempts.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use oxbus_blob::{BlobError, BlobStore};

use super::object::{self, HEADER_BYTES, LaneObject};
use super::place::LaneId;
use crate::lane::{CreateAnswer, Found, ObjectNumber};

/// How long to try each request of an open.
pub(super) const OPEN_PATIENCE: Duration = Duration::from_secs(20);
/// How long to wait before a request is sent again, usually.
pub(super) const RETRY_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// The waits between attempts: each twice the one before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Backoff(Duration);

impl Backoff {
    /// The waits that begin with `pause`.
    pub(super) fn new(pause: Duration) -> Self {
        Self(pause)
    }

    /// The next wait.
    pub(super) fn next(&mut self) -> Duration {
        let wait = self.0;
        self.0 = (wait * 2).min(LONGEST_WAIT);
        wait
    }
}

/// How long a request is repeated.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// From its first attempt on.
    pub(super) limit: Duration,
    /// The wait after its first attempt.
    pub(super) pause: Duration,
}

impl Patience {
    /// The patience with each request of an open.
    pub(super) fn of_open(pause: Duration) -> Self {
        Self {
            limit: OPEN_PATIENCE,
            pause,
        }
    }
}

/// Waits between attempts. A timer is never early, and up to a millisecond late: no pause takes none.
pub(super) async fn pause(wait: Duration) {
    if wait.is_zero() {
        tokio::task::yield_now().await;
    } else {
        tokio::time::sleep(wait).await;
    }
}

/// Repeats a request while the store does not answer.
pub(super) async fn repeat<T, F>(patience: Patience, mut request: impl FnMut() -> F) -> Result<T, BlobError>
where
    F: Future<Output = Result<T, BlobError>>,
{
    let end = tokio::time::Instant::now() + patience.limit;
    let mut backoff = Backoff::new(patience.pause);
    loop {
        let answer = request().await;
        let wait = backoff.next();
        match answer {
            Err(error) if error.is_unknown() && tokio::time::Instant::now() + wait < end => pause(wait).await,
            answer => return answer,
        }
    }
}

/// The answer to one creation of an object, for the protocol, and the trouble if there was any.
pub(super) fn create_answer(answer: Result<(), BlobError>) -> (CreateAnswer, Option<BlobError>) {
    match answer {
        Ok(()) => (CreateAnswer::Created, None),
        Err(BlobError::Exists) => (CreateAnswer::Exists, None),
        Err(error) => (CreateAnswer::Unknown, Some(error)),
    }
}

/// Creates an object. If there is no answer after a while, sends the same once more, and takes the first answer that
/// says something. Both have the same bytes, so it does not matter which one the store takes.
pub(super) async fn create_hedged(
    store: &dyn BlobStore,
    key: &str,
    bytes: &Bytes,
    hedge_after: Duration,
) -> (CreateAnswer, Option<BlobError>) {
    let attempt = || async { create_answer(store.create(key, bytes.clone()).await.map(drop)) };
    let first = attempt();
    tokio::pin!(first);
    tokio::select! {
        biased;
        answer = &mut first => return answer,
        () = tokio::time::sleep(hedge_after) => {}
    }
    let second = attempt();
    tokio::pin!(second);
    tokio::select! {
        biased;
        answer = &mut first => match answer {
            (CreateAnswer::Unknown, _) => second.await,
            answer => answer,
        },
        answer = &mut second => match answer {
            (CreateAnswer::Unknown, _) => first.await,
            answer => answer,
        },
    }
}

/// What lies under a number of a lane.
pub(super) async fn look(store: &dyn BlobStore, lane: LaneId, number: ObjectNumber) -> Result<Found, BlobError> {
    let key = lane.key(number);
    match store.read_range(&key, 0..HEADER_BYTES as u64).await {
        Ok(bytes) => object::kind(&bytes, lane, number).map_err(|wrong| damaged(&key, wrong)),
        Err(BlobError::Missing) => Ok(Found::Missing),
        Err(error) => Err(error),
    }
}

/// Reads an object of a lane.
pub(super) async fn read_object(
    store: &dyn BlobStore,
    lane: LaneId,
    number: ObjectNumber,
) -> Result<LaneObject, BlobError> {
    let key = lane.key(number);
    let blob = store.read(&key).await?;
    object::open(blob.bytes, lane, number).map_err(|wrong| damaged(&key, wrong))
}

fn damaged(key: &str, wrong: &str) -> BlobError {
    BlobError::Other(format!("the object {key} is damaged: {wrong}"))
}
