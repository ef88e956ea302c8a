// SPDX-License-Identifier: Apache-2.0
//! What goes on beside the callers: snapshots now and then, and another try for shards that failed.
//!
//! Two threads per namespace: one that does this and may be held up by a disk, and one that watches whether disks answer
//! (`watch`) and never touches them. They hold the namespace weakly between two looks, and end with it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use oxbus_model::sync::whole;
use oxbus_store::file::FileLog;

use super::compaction::{Compaction, next_save};
use super::watch::Silence;
use crate::clock::Deadline;
use crate::shard::journal::Grown;
use crate::shard::{Fault, Shard};

/// Between two looks.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(200);
const HEAL_AFTER_MIN: Duration = Duration::from_secs(1);
const HEAL_AFTER_MAX: Duration = Duration::from_secs(60);

/// What the thread asks of its namespace.
pub trait Kept: Send + Sync {
    /// Its shards.
    fn shards(&self) -> &[Arc<Shard>];
    /// Writes a snapshot of a shard; false when that failed.
    fn save(&self, shard: &Arc<Shard>) -> bool;
    /// Bytes that a snapshot of a shard has, about.
    fn snapshot_bytes(&self, shard: &Arc<Shard>) -> u64;
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
    /// Whole after a panic: each field is a wish, set in one step.
    state: Mutex<Asked>,
    changed: Condvar,
}

/// What the threads are asked for.
#[derive(Debug, Default)]
struct Asked {
    /// To end.
    stop: bool,
    /// The one that saves: to look now.
    look: bool,
}

/// What the thread remembers of a shard.
#[derive(Debug, Clone, Copy)]
struct Watch {
    /// When it writes a snapshot.
    compaction: Compaction,
    /// When to try to heal it, and how long that wait is.
    heal: Option<(Deadline, Duration)>,
}

/// Goes on with staged sends, and writes down the uses of entities as often as a snapshot is due.
fn look_at_all(due: &mut Deadline, kept: &dyn Kept) {
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
        upkeep.spawn("oxbus-upkeep", true, &find, Watch::new(), Watch::look, look_at_all)?;
        // Its looks are its clock: nobody makes it look sooner.
        upkeep.spawn(
            "oxbus-watch",
            false,
            &find,
            Silence::default(),
            Silence::look,
            |_, _| {},
        )?;
        Ok(upkeep)
    }

    /// Has the thread that writes snapshots look now.
    pub fn bell(&self) -> Grown {
        let stop = Arc::clone(&self.stop);
        Arc::new(move || {
            if !std::mem::replace(&mut stop.state().look, true) {
                stop.changed.notify_all();
            }
        })
    }

    /// Starts a thread that looks at each shard with something to remember of it, and then at the namespace.
    fn spawn<W: Copy + Send + 'static>(
        &mut self,
        name: &str,
        is_called: bool,
        find: &Find,
        fresh: W,
        look: fn(&mut W, &Arc<Shard>, &dyn Kept),
        after: fn(&mut Deadline, &dyn Kept),
    ) -> std::io::Result<()> {
        let (stop, find) = (Arc::clone(&self.stop), Arc::clone(find));
        let named = std::thread::Builder::new().name(name.to_owned());
        self.threads
            .push(named.spawn(move || stop.run(is_called, &*find, fresh, look, after))?);
        Ok(())
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.stop.state().stop = true;
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
    fn state(&self) -> MutexGuard<'_, Asked> {
        whole(self.state.lock())
    }

    fn run<W: Copy>(
        &self,
        is_called: bool,
        find: &dyn Fn() -> Option<Arc<dyn Kept>>,
        fresh: W,
        look: fn(&mut W, &Arc<Shard>, &dyn Kept),
        after: fn(&mut Deadline, &dyn Kept),
    ) {
        let mut remembered: Vec<W> = Vec::new();
        let mut due = next_save();
        while self.pause(is_called) {
            let Some(kept) = find() else { return };
            remembered.resize(kept.shards().len(), fresh);
            for (shard, of_shard) in kept.shards().iter().zip(&mut remembered) {
                look(of_shard, shard, &*kept);
            }
            after(&mut due, &*kept);
        }
    }

    /// Waits for the next look, or for a call; false when there is none.
    fn pause(&self, is_called: bool) -> bool {
        let goes_on = |asked: &mut Asked| !(asked.stop || (is_called && asked.look));
        let waited = self.changed.wait_timeout_while(self.state(), LOOK_EVERY, goes_on);
        let (mut asked, _) = whole(waited);
        if is_called {
            asked.look = false;
        }
        !asked.stop
    }
}

impl Watch {
    fn new() -> Self {
        Self {
            compaction: Compaction::new(),
            heal: None,
        }
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
                if let Some(log) = kept.log(shard) {
                    self.compaction.look(shard, journal, &log, kept);
                }
            }
        }
    }

    fn heal(&mut self, shard: &Arc<Shard>, kept: &dyn Kept) {
        let first = || (Deadline::after(Some(HEAL_AFTER_MIN)), HEAL_AFTER_MIN);
        let (deadline, pause) = *self.heal.get_or_insert_with(first);
        if deadline.remaining() != Some(Duration::ZERO) {
            return;
        }
        self.heal = if kept.try_heal(shard) {
            None
        } else {
            let pause = (pause * 2).min(HEAL_AFTER_MAX);
            Some((Deadline::after(Some(pause)), pause))
        };
    }
}
