// SPDX-License-Identifier: Apache-2.0
//! Writes the objects of the lane: completes the one that gathers when it is due, and creates it in the store.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use oxbus_blob::BlobError;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Shared;
use super::pace::{DEPTH, Pace, Waiting};
use super::requests::{Backoff, create_hedged, look, pause};
use super::state::{Ended, OBJECT_BYTES, State};
use crate::lane::{CreateAnswer, Found, ObjectNumber, WriteRequest};

/// The end of a request.
struct Done {
    number: ObjectNumber,
    answer: Answer,
    trouble: Option<BlobError>,
    took: Duration,
    backoff: Backoff,
}

enum Answer {
    Create(CreateAnswer),
    Look(Found),
    /// There was none: the look is to be repeated.
    None,
}

/// Writes the objects of the lane until the disk ends.
pub(super) async fn write_lane(shared: Arc<Shared>) {
    let mut driver = Driver {
        pace: Pace::new(shared.options.creates_per_second_max, oxbus_system::awake_ms()),
        running: JoinSet::new(),
        shared,
    };
    loop {
        let wake_at = driver.start_due();
        if driver.shared.state.lock().ended.is_some() {
            return;
        }
        let sleep = async {
            match wake_at {
                Some(wait) => tokio::time::sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Some(done) = driver.running.join_next() => driver.take(done.expect("a request does not panic")),
            () = driver.shared.work.notified() => {}
            () = sleep => {}
        }
    }
}

struct Driver {
    shared: Arc<Shared>,
    pace: Pace,
    running: JoinSet<Done>,
}

impl Driver {
    /// Starts what is due. Returns how long to wait for what is not.
    fn start_due(&mut self) -> Option<Duration> {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state.lock();
        loop {
            let now = oxbus_system::awake_ms();
            let waiting = Self::waiting(&state)?;
            if waiting.on_the_way >= DEPTH {
                return None;
            }
            let start_at = self.pace.start_at(waiting, now);
            if start_at > now {
                return Some(Duration::from_millis(start_at - now));
            }
            let number = state.seal()?;
            self.pace.started(now);
            let bytes = state.on_the_way[&number].bytes.clone();
            let backoff = Backoff::new(shared.options.retry_pause);
            self.create(number, bytes, None, backoff);
        }
    }

    fn waiting(state: &State) -> Option<Waiting> {
        let since_ms = state.gathering_since?;
        Some(Waiting {
            since_ms,
            is_wanted: state.is_wanted,
            is_large: state.gathered_bytes() >= OBJECT_BYTES,
            on_the_way: state.writer.on_the_way().count(),
        })
    }

    fn create(&mut self, number: ObjectNumber, bytes: Bytes, wait: Option<Duration>, backoff: Backoff) {
        let (shared, hedge_after) = (Arc::clone(&self.shared), self.pace.hedge_after());
        let key = shared.lane.key(number);
        self.running.spawn(async move {
            if let Some(wait) = wait {
                pause(wait).await;
            }
            let began = Instant::now();
            let (answer, trouble) = create_hedged(&*shared.store, &key, &bytes, hedge_after).await;
            Done {
                number,
                answer: Answer::Create(answer),
                trouble,
                took: began.elapsed(),
                backoff,
            }
        });
    }

    fn look(&mut self, number: ObjectNumber, wait: Option<Duration>, backoff: Backoff) {
        let shared = Arc::clone(&self.shared);
        self.running.spawn(async move {
            if let Some(wait) = wait {
                pause(wait).await;
            }
            let (answer, trouble) = match look(&*shared.store, shared.lane, number).await {
                Ok(found) => (Answer::Look(found), None),
                Err(error) => (Answer::None, Some(error)),
            };
            Done {
                number,
                answer,
                trouble,
                took: Duration::ZERO,
                backoff,
            }
        });
    }

    fn take(&mut self, done: Done) {
        let Done {
            number,
            answer,
            trouble,
            took,
            mut backoff,
        } = done;
        self.shared.note_trouble(trouble.as_ref());
        let wait = trouble.is_some().then(|| backoff.next());
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state.lock();
        state.is_full = matches!(trouble, Some(BlobError::Full(_)));
        let next = match answer {
            Answer::Create(answer) => {
                if answer == CreateAnswer::Created {
                    self.pace.took(took);
                }
                state.writer.created(number, answer)
            }
            Answer::Look(found) => state.writer.looked(number, found),
            Answer::None => {
                self.look(number, wait, backoff);
                None
            }
        };
        match next {
            Some(WriteRequest::Create(number)) => {
                let bytes = state.on_the_way[&number].bytes.clone();
                self.create(number, bytes, wait, backoff);
            }
            Some(WriteRequest::Look(number)) => self.look(number, wait, backoff),
            None => {}
        }
        state.take_acknowledged();
        let durable = state.take_durable_syncs();
        let has_ended = state.writer.has_ended();
        let is_checkpoint_due = state.is_checkpoint_due();
        drop(state);
        for done in durable {
            done(Ok(()));
        }
        if has_ended {
            let by = "its lane was ended while this process did not answer in time".to_owned();
            shared.state.end(Ended::TakenOver(by));
        }
        if is_checkpoint_due {
            shared.upkeep.notify_one();
        }
        shared.state.notify();
    }
}
