// SPDX-License-Identifier: Apache-2.0
//! What goes on beside the callers: snapshots now and then, and another try for shards that failed.
//!
//! One thread per namespace. It holds the namespace weakly between two looks, and ends with it.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use oxbus_model::caps::SNAPSHOT_INTERVAL_MS;

use crate::clock::Alarm;
use crate::shard::{Fault, Shard};

const LOOK_EVERY: Duration = Duration::from_millis(200);
const HEAL_AFTER_MIN: Duration = Duration::from_secs(1);
const HEAL_AFTER_MAX: Duration = Duration::from_secs(60);

/// What the thread asks of its namespace.
pub trait Kept: Send + Sync {
    /// Its shards.
    fn shards(&self) -> &[Arc<Shard>];
    /// Writes a snapshot of a shard.
    fn save(&self, shard: &Arc<Shard>);
    /// Writes down when the entities were used last that are deleted when nobody uses them.
    fn note_uses(&self);
    /// Tries to heal a shard; true when it works again.
    fn try_heal(&self, shard: &Arc<Shard>) -> bool;
}

/// The thread, until it is dropped.
#[derive(Debug)]
pub struct Upkeep {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Stop {
    stopped: Mutex<bool>,
    changed: Condvar,
}

/// What the thread remembers of a shard.
#[derive(Debug, Clone, Copy)]
struct Watch {
    /// When a snapshot is due, however little there is to save.
    save: Alarm,
    /// When to try to heal it, and how long that wait is.
    heal: Option<(Alarm, Duration)>,
}

/// An alarm after the longest time between snapshots.
fn next_save() -> Alarm {
    Alarm::after(Some(Duration::from_millis(SNAPSHOT_INTERVAL_MS)))
}

impl Upkeep {
    /// Starts the thread. `find` gives the namespace while somebody uses it.
    pub fn start(find: impl Fn() -> Option<Arc<dyn Kept>> + Send + 'static) -> std::io::Result<Self> {
        let stop = Arc::new(Stop::default());
        let seen = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("oxbus-upkeep".to_owned())
            .spawn(move || seen.run(&find))?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        *self.stop.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.changed.notify_all();
        let Some(thread) = self.thread.take() else { return };
        // The thread itself may hold the last handle of its namespace for a moment.
        if thread.thread().id() != std::thread::current().id() {
            // A panic there was reported by the thread itself.
            let _ = thread.join();
        }
    }
}

impl Stop {
    fn run(&self, find: &dyn Fn() -> Option<Arc<dyn Kept>>) {
        let mut watches: Vec<Watch> = Vec::new();
        let mut note = next_save();
        while self.pause() {
            let Some(kept) = find() else { return };
            watches.resize(
                kept.shards().len(),
                Watch {
                    save: next_save(),
                    heal: None,
                },
            );
            for (shard, watch) in kept.shards().iter().zip(&mut watches) {
                watch.look(shard, &*kept);
            }
            if note.remaining() == Some(Duration::ZERO) {
                kept.note_uses();
                note = next_save();
            }
        }
    }

    /// Waits for the next look; false when there is none.
    fn pause(&self) -> bool {
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .changed
            .wait_timeout_while(stopped, LOOK_EVERY, |stopped| !*stopped);
        let (stopped, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !*stopped
    }
}

impl Watch {
    fn look(&mut self, shard: &Arc<Shard>, kept: &dyn Kept) {
        let Some(journal) = shard.journal() else { return };
        match shard.health().fault() {
            Some(Fault::Failed) => self.heal(shard, kept),
            Some(_) => {}
            None => {
                self.heal = None;
                shard.leave_buried();
                if journal.wants_snapshot(self.save.remaining() == Some(Duration::ZERO)) {
                    kept.save(shard);
                    self.save = next_save();
                }
            }
        }
    }

    fn heal(&mut self, shard: &Arc<Shard>, kept: &dyn Kept) {
        let first = || (Alarm::after(Some(HEAL_AFTER_MIN)), HEAL_AFTER_MIN);
        let (alarm, pause) = *self.heal.get_or_insert_with(first);
        if alarm.remaining() != Some(Duration::ZERO) {
            return;
        }
        self.heal = if kept.try_heal(shard) {
            None
        } else {
            let pause = (pause * 2).min(HEAL_AFTER_MAX);
            Some((Alarm::after(Some(pause)), pause))
        };
    }
}
