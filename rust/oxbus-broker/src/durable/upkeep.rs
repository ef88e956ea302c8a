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

use super::compaction::{Compaction, snapshot_deadline};
use super::stall_detector::StallDetector;
use crate::clock::Deadline;
use crate::shard::journal::Grown;
use crate::shard::{Fault, Shard};

/// Between two looks.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_millis(200);
const HEAL_AFTER_MIN: Duration = Duration::from_secs(1);
const HEAL_AFTER_MAX: Duration = Duration::from_secs(60);

/// What the thread asks of its namespace.
pub trait UpkeepTarget: Send + Sync {
    /// Its shards.
    fn shards(&self) -> &[Arc<Shard>];
    /// Writes a snapshot of a shard; false when that failed.
    fn save(&self, shard: &Arc<Shard>) -> bool;
    /// Bytes that a snapshot of a shard has, about.
    fn snapshot_bytes(&self, shard: &Arc<Shard>) -> u64;
    /// Writes down when the entities were used last that are deleted when nobody uses them.
    fn record_uses(&self);
    /// Goes on with staged sends.
    fn resume_stages(&self);
    /// Tries to heal a shard; true when it works again.
    fn try_heal(&self, shard: &Arc<Shard>) -> bool;
    /// The log of a shard that is in use.
    fn log(&self, shard: &Shard) -> Option<Arc<FileLog>>;
}

/// The threads, until it is dropped.
#[derive(Debug)]
pub struct Upkeep {
    stop: Arc<UpkeepSignal>,
    threads: Vec<JoinHandle<()>>,
}

/// The namespace, while somebody uses it.
type Find = Arc<dyn Fn() -> Option<Arc<dyn UpkeepTarget>> + Send + Sync>;

#[derive(Debug, Default)]
struct UpkeepSignal {
    /// Whole after a panic: each field is a wish, set in one step.
    state: Mutex<UpkeepRequests>,
    changed: Condvar,
}

/// What the threads are requests for.
#[derive(Debug, Default)]
struct UpkeepRequests {
    /// To end.
    stop: bool,
    /// The one that saves: to check now.
    check: bool,
}

/// What the thread remembers of a shard.
#[derive(Debug, Clone, Copy)]
struct ShardUpkeep {
    /// When it writes a snapshot.
    compaction: Compaction,
    /// When to try to heal it, and how long that wait is.
    heal: Option<(Deadline, Duration)>,
}

/// Goes on with staged sends, and writes down the uses of entities as often as a snapshot is due.
fn check_namespace(due: &mut Deadline, target: &dyn UpkeepTarget) {
    target.resume_stages();
    if due.remaining() == Some(Duration::ZERO) {
        target.record_uses();
        *due = snapshot_deadline();
    }
}

impl Upkeep {
    /// Starts the threads. `find` gives the namespace while somebody uses it.
    pub fn start(find: impl Fn() -> Option<Arc<dyn UpkeepTarget>> + Send + Sync + 'static) -> std::io::Result<Self> {
        let find: Find = Arc::new(find);
        let mut upkeep = Self {
            stop: Arc::new(UpkeepSignal::default()),
            threads: Vec::new(),
        };
        upkeep.spawn(
            "oxbus-upkeep",
            true,
            &find,
            ShardUpkeep::new(),
            ShardUpkeep::check,
            check_namespace,
        )?;
        // Its looks are its clock: nobody makes it check sooner.
        upkeep.spawn(
            "oxbus-watch",
            false,
            &find,
            StallDetector::default(),
            StallDetector::check,
            |_, _| {},
        )?;
        Ok(upkeep)
    }

    /// Has the thread that writes snapshots check now.
    pub fn snapshot_notifier(&self) -> Grown {
        let stop = Arc::clone(&self.stop);
        Arc::new(move || {
            if !std::mem::replace(&mut stop.state().check, true) {
                stop.changed.notify_all();
            }
        })
    }

    /// Starts a thread that looks at each shard with something to remember of it, and then at the namespace.
    fn spawn<W: Copy + Send + 'static>(
        &mut self,
        name: &str,
        is_notified: bool,
        find: &Find,
        initial: W,
        check: fn(&mut W, &Arc<Shard>, &dyn UpkeepTarget),
        after: fn(&mut Deadline, &dyn UpkeepTarget),
    ) -> std::io::Result<()> {
        let (stop, find) = (Arc::clone(&self.stop), Arc::clone(find));
        let named = std::thread::Builder::new().name(name.to_owned());
        self.threads
            .push(named.spawn(move || stop.run(is_notified, &*find, initial, check, after))?);
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

impl UpkeepSignal {
    fn state(&self) -> MutexGuard<'_, UpkeepRequests> {
        whole(self.state.lock())
    }

    fn run<W: Copy>(
        &self,
        is_notified: bool,
        find: &dyn Fn() -> Option<Arc<dyn UpkeepTarget>>,
        initial: W,
        check: fn(&mut W, &Arc<Shard>, &dyn UpkeepTarget),
        after: fn(&mut Deadline, &dyn UpkeepTarget),
    ) {
        let mut states: Vec<W> = Vec::new();
        let mut due = snapshot_deadline();
        while self.pause(is_notified) {
            let Some(target) = find() else { return };
            states.resize(target.shards().len(), initial);
            for (shard, of_shard) in target.shards().iter().zip(&mut states) {
                check(of_shard, shard, &*target);
            }
            after(&mut due, &*target);
        }
    }

    /// Waits for the next check, or for a call; false when there is none.
    fn pause(&self, is_notified: bool) -> bool {
        let goes_on = |requests: &mut UpkeepRequests| !(requests.stop || (is_notified && requests.check));
        let waited = self.changed.wait_timeout_while(self.state(), CHECK_INTERVAL, goes_on);
        let (mut requests, _) = whole(waited);
        if is_notified {
            requests.check = false;
        }
        !requests.stop
    }
}

impl ShardUpkeep {
    fn new() -> Self {
        Self {
            compaction: Compaction::new(),
            heal: None,
        }
    }

    fn check(&mut self, shard: &Arc<Shard>, target: &dyn UpkeepTarget) {
        let Some(journal) = shard.journal() else { return };
        // A disk that hangs would hold up the other shards.
        let hangs = |log: Arc<FileLog>| log.is_suspect() || (log.has_ended() && log.is_at_disk());
        let hangs = target.log(shard).is_some_and(hangs);
        match shard.health().fault() {
            Some(Fault::Failed) if !hangs => self.heal(shard, target),
            Some(_) => {}
            None if hangs => {}
            None => {
                self.heal = None;
                shard.leave_buried();
                if let Some(log) = target.log(shard) {
                    self.compaction.check(shard, journal, &log, target);
                }
            }
        }
    }

    fn heal(&mut self, shard: &Arc<Shard>, target: &dyn UpkeepTarget) {
        let first = || (Deadline::after(Some(HEAL_AFTER_MIN)), HEAL_AFTER_MIN);
        let (deadline, pause) = *self.heal.get_or_insert_with(first);
        if deadline.remaining() != Some(Duration::ZERO) {
            return;
        }
        self.heal = if target.try_heal(shard) {
            None
        } else {
            let pause = (pause * 2).min(HEAL_AFTER_MAX);
            Some((Deadline::after(Some(pause)), pause))
        };
    }
}
