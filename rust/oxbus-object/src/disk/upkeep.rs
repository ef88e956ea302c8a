// SPDX-License-Identifier: Apache-2.0
//! What an owner does beside writing: it shows that it lives, stores checkpoints, deletes objects that no file needs,
//! and moves the rest of objects that hold little.

use std::sync::Arc;
use std::time::Duration;

use oxbus_blob::BlobError;
use tokio::sync::mpsc::Receiver;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Shared;
use super::checkpoint::checkpoint_key;
use super::holder::{HoldError, Holder};
use super::manifest::{Manifest, OwnerInfo};
use super::place::ObjectKey;
use super::requests::{Patience, repeat};
use super::sizes::Sizes;
use super::state::{Checkpoint, Ended};
use super::sweep::{delete_all, leftovers};

/// A checkpoint is made after objects of this many bytes: a takeover reads them.
const CHECKPOINT_BYTES: usize = 64 << 20;
/// A checkpoint is made once changes take more bytes than this and than the last checkpoint.
const CHECKPOINT_CHANGES_BYTES_MIN: usize = 1 << 20;
/// A checkpoint is made once objects of this many bytes hold nothing.
const UNUSED_BYTES_MAX: u64 = 16 << 20;
/// The same, if nothing is written: whatever holds nothing is deleted after this time.
const IDLE_BEFORE_TIDY: Duration = Duration::from_secs(10);
/// How long to try the last requests of an owner that leaves.
const CLOSE_PATIENCE: Duration = Duration::from_secs(10);
/// How long to try to store a checkpoint. Afterwards a newer one is made.
const UPLOAD_PATIENCE: Duration = Duration::from_secs(300);

/// What other threads ask of the upkeep.
#[derive(Debug)]
pub(super) enum Request {
    /// The owner's server listens here.
    Address(String),
    /// Store everything, say in the manifest that the owner has left, and end.
    Close(oneshot::Sender<()>),
}

/// Keeps the namespace until it is closed or taken over.
pub(super) async fn keep(shared: Arc<Shared>, holder: Holder, requests: Receiver<Request>) {
    let upkeep = Upkeep {
        last_floor: holder.manifest.floor,
        last_bytes: 0,
        last_change: Instant::now(),
        seen: 0,
        is_uploading: false,
        running: JoinSet::new(),
        shared,
        holder,
    };
    upkeep.run(requests).await;
}

/// The end of work that ran beside the beats.
enum Ran {
    /// A checkpoint was stored, or could not be.
    Uploaded(Option<Uploaded>),
    /// What earlier owners left was looked for.
    Found(Vec<String>),
    /// Objects were deleted or moved.
    Tidied,
}

/// A checkpoint that the manifest does not name yet.
struct Uploaded {
    key: String,
    bytes: usize,
    floor: u64,
    unused: Vec<ObjectKey>,
}

struct Upkeep {
    shared: Arc<Shared>,
    holder: Holder,
    /// What the last checkpoint covers, and its bytes.
    last_floor: u64,
    last_bytes: usize,
    /// When the lane grew, and up to where.
    last_change: Instant,
    seen: u64,
    is_uploading: bool,
    running: JoinSet<Ran>,
}

impl Upkeep {
    async fn run(mut self, mut requests: Receiver<Request>) {
        let shared = Arc::clone(&self.shared);
        self.begin_sweep();
        let (beat_interval, tidy_interval) = (shared.options.beat_interval, shared.options.tidy_interval);
        let mut beat_at = Instant::now() + beat_interval;
        let mut tidy_at = Instant::now() + tidy_interval;
        while shared.state.lock().ended.is_none() {
            let went_on = tokio::select! {
                biased;
                request = requests.recv() => match request {
                    Some(Request::Close(done)) => {
                        self.close().await;
                        // The caller may have stopped waiting.
                        let _ = done.send(());
                        return;
                    }
                    Some(Request::Address(address)) => {
                        let owner = OwnerInfo { address: Some(address), ..self.holder.manifest.owner.clone() };
                        self.replace(Manifest { owner, ..self.holder.manifest.clone() }).await
                    }
                    // The disk was dropped without being closed.
                    None => return,
                },
                () = tokio::time::sleep_until(beat_at) => {
                    beat_at = Instant::now() + beat_interval;
                    self.replace(self.holder.manifest.clone()).await
                }
                Some(ran) = self.running.join_next() => match ran.expect("the work does not panic") {
                    Ran::Uploaded(uploaded) => {
                        self.is_uploading = false;
                        match uploaded {
                            Some(uploaded) => self.publish(uploaded).await,
                            None => true,
                        }
                    }
                    Ran::Found(found) => self.sweep(found).await,
                    Ran::Tidied => true,
                },
                () = shared.upkeep.notified() => {
                    self.upload_due();
                    true
                }
                () = tokio::time::sleep_until(tidy_at) => {
                    tidy_at = Instant::now() + tidy_interval;
                    self.tidy();
                    true
                }
            };
            if !went_on {
                return;
            }
        }
    }

    /// Begins to look for what earlier owners left.
    fn begin_sweep(&mut self) {
        let shared = Arc::clone(&self.shared);
        let checkpoint = self.holder.manifest.checkpoint.clone();
        self.running
            .spawn(async move { Ran::Found(leftovers(&shared, checkpoint.as_deref()).await) });
    }

    /// Deletes what earlier owners left. Another process may be about to take over with a checkpoint that was found;
    /// once the manifest was replaced, it cannot any more. False if another owner has taken over.
    async fn sweep(&mut self, found: Vec<String>) -> bool {
        // A checkpoint of this owner may be among them, if it was stored meanwhile.
        let own = self.shared.lane.to_string();
        let found: Vec<String> = found.into_iter().filter(|key| !key.contains(&own)).collect();
        if found.is_empty() {
            return true;
        }
        if !self.replace(self.holder.manifest.clone()).await {
            return false;
        }
        let shared = Arc::clone(&self.shared);
        self.running.spawn(async move {
            let found = found.into_iter().map(|key| (key, ()));
            // What fails is found again at the next open.
            delete_all(&shared, found, |()| {}).await;
            Ran::Tidied
        });
        true
    }

    /// Replaces the manifest. False if another owner has taken over.
    async fn replace(&mut self, next: Manifest) -> bool {
        let shared = Arc::clone(&self.shared);
        let replaced = self
            .holder
            .replace(&*shared.store, next, shared.options.retry_pause, |trouble| {
                shared.note_trouble(trouble);
            });
        match replaced.await {
            Ok(lease_until) => {
                shared.state.extend_lease(lease_until);
                true
            }
            Err(HoldError::TakenOver(by)) => {
                let by = format!("process {} on {}", by.owner.pid, by.owner.host);
                shared.state.end(Ended::TakenOver(by));
                shared.work.notify_one();
                false
            }
            Err(HoldError::Damaged(wrong)) => {
                shared.state.end(Ended::TakenOver(wrong));
                shared.work.notify_one();
                false
            }
        }
    }

    /// Begins to store the checkpoint that is made, if all objects that it covers are acknowledged.
    fn upload_due(&mut self) {
        let due = {
            let mut state = self.shared.state.lock();
            let is_due = state.is_checkpoint_due() && !self.is_uploading;
            if is_due { state.checkpoint.take() } else { None }
        };
        if let Some(made) = due {
            self.is_uploading = true;
            let shared = Arc::clone(&self.shared);
            self.running
                .spawn(async move { Ran::Uploaded(upload(&shared, made).await) });
        }
    }

    /// Names a checkpoint in the manifest. Then deletes what nobody needs any more. False if another owner has taken
    /// over.
    async fn publish(&mut self, uploaded: Uploaded) -> bool {
        let before = self.holder.manifest.checkpoint.clone();
        let next = Manifest {
            floor: uploaded.floor,
            checkpoint: Some(uploaded.key.clone()),
            ..self.holder.manifest.clone()
        };
        if !self.replace(next).await {
            return false;
        }
        (self.last_floor, self.last_bytes) = (uploaded.floor, uploaded.bytes);
        let before = before.filter(|before| *before != uploaded.key);
        let shared = Arc::clone(&self.shared);
        self.running.spawn(async move {
            if let Some(before) = before {
                // What is left over is deleted at a later open.
                let _ = shared.store.delete(&before).await;
            }
            delete_unused(&shared, uploaded.unused).await;
            Ran::Tidied
        });
        true
    }

    /// Asks for a checkpoint if one is worth it, and moves what keeps large objects from being deleted.
    fn tidy(&mut self) {
        let few = {
            let mut state = self.shared.state.lock();
            let next = state.writer.next().0;
            if next != self.seen {
                (self.seen, self.last_change) = (next, Instant::now());
            }
            let sizes = Sizes::of(&state);
            let is_idle = self.last_change.elapsed() > IDLE_BEFORE_TIDY;
            let is_worth_it = next - self.last_floor >= self.shared.options.checkpoint_objects
                || state.changes_since > CHECKPOINT_CHANGES_BYTES_MIN.max(self.last_bytes)
                || state.bytes_since > CHECKPOINT_BYTES
                || sizes.unused > UNUSED_BYTES_MAX
                || is_idle && sizes.unused > 0 && next > self.last_floor;
            if is_worth_it && !self.is_uploading {
                state.wants_checkpoint = true;
                state.checkpoint_if_wanted();
                if state.is_checkpoint_due() {
                    self.shared.upkeep.notify_one();
                }
            }
            sizes.to_move(&state)
        };
        if !few.is_empty() && self.running.is_empty() {
            let shared = Arc::clone(&self.shared);
            self.running.spawn(async move {
                shared.move_extents(&few).await;
                Ran::Tidied
            });
        }
    }

    async fn close(mut self) {
        let shared = Arc::clone(&self.shared);
        let flushed = tokio::time::timeout(CLOSE_PATIENCE, async {
            loop {
                shared.work.notify_one();
                {
                    let mut state = shared.state.lock();
                    state.is_wanted = state.has_changes();
                    if state.ended.is_some() {
                        return false;
                    }
                    if state.writer.acknowledged() == state.next_durable() {
                        return true;
                    }
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        if flushed.await != Ok(true) {
            return;
        }
        let checkpoint = {
            let mut state = shared.state.lock();
            state.checkpoint = None;
            state.wants_checkpoint = state.writer.next().0 > self.last_floor;
            state.checkpoint_if_wanted();
            state.checkpoint.take()
        };
        let leave = async {
            if let Some(made) = checkpoint
                && let Some(uploaded) = upload(&shared, made).await
                && !self.publish(uploaded).await
            {
                return;
            }
            // What was begun is to end before the next owner begins.
            while self.running.join_next().await.is_some() {}
            let released_at = Some(shared.state.lock().writer.next().0);
            let next = Manifest {
                released_at,
                ..self.holder.manifest.clone()
            };
            self.replace(next).await;
        };
        // Without an answer, the next owner waits until the lease is over.
        let _ = tokio::time::timeout(CLOSE_PATIENCE, leave).await;
    }
}

async fn upload(shared: &Shared, made: Checkpoint) -> Option<Uploaded> {
    let key = checkpoint_key(shared.lane, made.floor);
    let bytes = made.bytes.len();
    store_new(shared, &key, made.bytes).await.ok()?;
    Some(Uploaded {
        key,
        bytes,
        floor: made.floor.0,
        unused: made.unused,
    })
}

/// Deletes objects that the stored checkpoint does not need. What fails is tried again after the next one.
async fn delete_unused(shared: &Arc<Shared>, unused: Vec<ObjectKey>) {
    let named: Vec<(String, ObjectKey)> = {
        let state = shared.state.lock();
        let name = |key: ObjectKey| Some((state.map.lane(key.lane())?.key(key.number()), key));
        unused.into_iter().filter_map(name).collect()
    };
    delete_all(shared, named, |key| shared.state.lock().map.remove_object(key)).await;
}

/// Stores a blob under a key that nobody else uses, and repeats that until the store answers.
async fn store_new(shared: &Shared, key: &str, bytes: Vec<u8>) -> Result<(), BlobError> {
    let bytes = bytes::Bytes::from(bytes);
    let store = &*shared.store;
    let patience = Patience {
        limit: UPLOAD_PATIENCE,
        pause: shared.options.retry_pause,
    };
    match repeat(patience, || store.create(key, bytes.clone())).await {
        // An earlier attempt whose answer was lost.
        Ok(_) | Err(BlobError::Exists) => Ok(()),
        Err(error) => {
            shared.note_trouble(Some(&error));
            Err(error)
        }
    }
}
