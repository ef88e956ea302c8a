// SPDX-License-Identifier: Apache-2.0
//! Background work of a namespace: snapshots, and healing of failed shards.
//!
//! A namespace has two threads. One does this work and may block on a disk. The other watches whether disks answer
//! (`stall_detector`) and never touches them. Between two checks they hold the namespace weakly, and they end with it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use oxbus_model::sync::ignore_poison;
use oxbus_store::file::FileLog;

use super::compaction::{Compaction, snapshot_deadline};
use super::stall_detector::StallDetector;
use crate::clock::Deadline;
use crate::shard::journal::GrowthCallback;
use crate::shard::{PartitionFault, Shard};

/// Interval between two checks.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_millis(200);
const HEAL_AFTER_MIN: Duration = Duration::from_secs(1);
const HEAL_AFTER_MAX: Duration = Duration::from_secs(60);

/// The namespace as the upkeep threads use it.
pub trait UpkeepTarget: Send + Sync {
    /// Its shards.
    fn shards(&self) -> &[Arc<Shard>];
    /// Writes a snapshot of a shard. Returns false on failure.
    fn save(&self, shard: &Arc<Shard>) -> bool;
    /// Approximate size of a shard's snapshot, in bytes.
    fn snapshot_bytes(&self, shard: &Arc<Shard>) -> u64;
    /// Saves the last use of entities that are deleted when idle.
    fn record_uses(&self);
    /// Publishes decided batches of stages and removes expired stages.
    fn resume_stages(&self);
    /// Tries to heal a shard. Returns true on success.
    fn try_heal(&self, shard: &Arc<Shard>) -> bool;
    /// The current log of a shard.
    fn log(&self, shard: &Shard) -> Option<Arc<FileLog>>;
}

/// The threads of a namespace. Dropping it stops them.
#[derive(Debug)]
pub struct Upkeep {
    stop: Arc<UpkeepSignal>,
    threads: Vec<JoinHandle<()>>,
}

/// Returns the namespace while a handle of it exists.
type Find = Arc<dyn Fn() -> Option<Arc<dyn UpkeepTarget>> + Send + Sync>;

#[derive(Debug, Default)]
struct UpkeepSignal {
    /// Valid after a panic: each flag is set in one step.
    state: Mutex<UpkeepRequests>,
    changed: Condvar,
}

/// Requests to the threads.
#[derive(Debug, Default)]
struct UpkeepRequests {
    /// True if the threads must stop.
    stop: bool,
    /// True if the thread that writes snapshots must check now.
    check: bool,
}

/// State of the upkeep of one shard.
#[derive(Debug, Clone, Copy)]
struct ShardUpkeep {
    /// When the next snapshot is due.
    compaction: Compaction,
    /// The next attempt to heal it, and the delay before that attempt.
    heal: Option<(Deadline, Duration)>,
}

/// Publishes stages, and saves the uses of entities at the longest interval between snapshots.
fn check_namespace(due: &mut Deadline, target: &dyn UpkeepTarget) {
    target.resume_stages();
    if due.remaining() == Some(Duration::ZERO) {
        target.record_uses();
        *due = snapshot_deadline();
    }
}

impl Upkeep {
    /// Starts the threads. `find` returns the namespace while a handle of it exists.
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
        // This thread counts its checks as time, so no notification may wake it early.
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

    /// A callback that makes the thread that writes snapshots check at once.
    pub fn snapshot_notifier(&self) -> GrowthCallback {
        let stop = Arc::clone(&self.stop);
        Arc::new(move || {
            if !std::mem::replace(&mut stop.state().check, true) {
                stop.changed.notify_all();
            }
        })
    }

    /// Starts a thread that calls `check` for each shard, with a state per shard, and then `after` for the namespace.
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
            // The thread may drop the last handle of its namespace, in which case it runs this itself.
            if thread.thread().id() != std::thread::current().id() {
                // The panic hook has already reported a panic.
                let _ = thread.join();
            }
        }
    }
}

impl UpkeepSignal {
    fn state(&self) -> MutexGuard<'_, UpkeepRequests> {
        ignore_poison(self.state.lock())
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

    /// Waits for the interval or a notification. Returns false if the thread must stop.
    fn pause(&self, is_notified: bool) -> bool {
        let goes_on = |requests: &mut UpkeepRequests| !(requests.stop || (is_notified && requests.check));
        let waited = self.changed.wait_timeout_while(self.state(), CHECK_INTERVAL, goes_on);
        let (mut requests, _) = ignore_poison(waited);
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
        // A stalled disk would delay the other shards.
        let hangs = |log: Arc<FileLog>| log.is_stalled() || (log.has_ended() && log.is_disk_busy());
        let hangs = target.log(shard).is_some_and(hangs);
        match shard.health().fault() {
            Some(PartitionFault::Failed) if !hangs => self.heal(shard, target),
            Some(_) => {}
            None if hangs => {}
            None => {
                self.heal = None;
                shard.spill_dead_letters();
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
