// SPDX-License-Identifier: Apache-2.0
//! What goes on beside the callers: snapshots now and then, and another try for shards that failed.
//!
//! Two threads per namespace: one that does this and may be held up by a disk, and one that watches whether disks answer
//! (`watch`) and never touches them. They hold the namespace weakly between two looks, and end with it.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use oxbus_model::caps::SNAPSHOT_INTERVAL_MS;
use oxbus_store::file::FileLog;

use super::watch::Silence;
use crate::clock::Alarm;
use crate::shard::{Fault, Shard};

/// Between two looks.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(200);
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
    /// Goes on with staged sends.
    fn tend_stages(&self);
    /// Tries to heal a shard; true when it works again.
    fn try_heal(&self, shard: &Arc<Shard>) -> bool;
    /// The log of a shard that is in use.
    fn log(&self, shard: &Shard) -> Option<Arc<FileLog>>;
}

/// The threads, until it is dropped.
#[derive(Debug)]
pub struct Upkeep {
    stop: Arc<Stop>,
    threads: Vec<JoinHandle<()>>,
}

/// The namespace, while somebody uses it.
type Find = Arc<dyn Fn() -> Option<Arc<dyn Kept>> + Send + Sync>;

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

/// Goes on with staged sends, and writes down the uses of entities as often as a snapshot is due.
fn look_at_all(due: &mut Alarm, kept: &dyn Kept) {
    kept.tend_stages();
    if due.remaining() == Some(Duration::ZERO) {
        kept.note_uses();
        *due = next_save();
    }
}

impl Upkeep {
    /// Starts the threads. `find` gives the namespace while somebody uses it.
    pub fn start(find: impl Fn() -> Option<Arc<dyn Kept>> + Send + Sync + 'static) -> std::io::Result<Self> {
        let find: Find = Arc::new(find);
        let mut upkeep = Self {
            stop: Arc::new(Stop::default()),
            threads: Vec::new(),
        };
        upkeep.spawn("oxbus-upkeep", &find, Watch::new(), Watch::look, look_at_all)?;
        upkeep.spawn("oxbus-watch", &find, Silence::default(), Silence::look, |_, _| {})?;
        Ok(upkeep)
    }

    /// Starts a thread that looks at each shard with something to remember of it, and then at the namespace.
    fn spawn<W: Copy + Send + 'static>(
        &mut self,
        name: &str,
        find: &Find,
        fresh: W,
        look: fn(&mut W, &Arc<Shard>, &dyn Kept),
        after: fn(&mut Alarm, &dyn Kept),
    ) -> std::io::Result<()> {
        let (stop, find) = (Arc::clone(&self.stop), Arc::clone(find));
        let named = std::thread::Builder::new().name(name.to_owned());
        self.threads
            .push(named.spawn(move || stop.run(&*find, fresh, look, after))?);
        Ok(())
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        *self.stop.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.changed.notify_all();
        for thread in self.threads.drain(..) {
            // The thread itself may hold the last handle of its namespace for a moment.
            if thread.thread().id() != std::thread::current().id() {
                // A panic there was reported by the thread itself.
                let _ = thread.join();
            }
        }
    }
}

impl Stop {
    fn run<W: Copy>(
        &self,
        find: &dyn Fn() -> Option<Arc<dyn Kept>>,
        fresh: W,
        look: fn(&mut W, &Arc<Shard>, &dyn Kept),
        after: fn(&mut Alarm, &dyn Kept),
    ) {
        let mut remembered: Vec<W> = Vec::new();
        let mut due = next_save();
        while self.pause() {
            let Some(kept) = find() else { return };
            remembered.resize(kept.shards().len(), fresh);
            for (shard, of_shard) in kept.shards().iter().zip(&mut remembered) {
                look(of_shard, shard, &*kept);
            }
            after(&mut due, &*kept);
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
    fn new() -> Self {
        let save = next_save();
        Self { save, heal: None }
    }

    fn look(&mut self, shard: &Arc<Shard>, kept: &dyn Kept) {
        let Some(journal) = shard.journal() else { return };
        // A disk that hangs would hold up the other shards.
        let hangs = |log: Arc<FileLog>| log.is_suspect() || (log.has_ended() && log.is_at_disk());
        let hangs = kept.log(shard).is_some_and(hangs);
        match shard.health().fault() {
            Some(Fault::Failed) if !hangs => self.heal(shard, kept),
            Some(_) => {}
            None if hangs => {}
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
