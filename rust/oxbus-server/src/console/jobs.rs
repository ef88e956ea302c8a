// SPDX-License-Identifier: Apache-2.0
//! Work that takes a while, and its progress.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use oxbus_model::sync::ignore_poison;
use serde::Serialize;

/// Jobs that are remembered; the oldest finished ones are forgotten.
const JOBS_MAX: usize = 50;
/// The progress of a job.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Job {
    pub(super) id: u64,
    pub(super) entity: String,
    pub(super) what: &'static str,
    pub(super) total: u64,
    pub(super) done: u64,
    pub(super) per_second: u64,
    pub(super) started_ms: u64,
    pub(super) key_name: String,
    pub(super) is_running: bool,
    /// What ended it early.
    pub(super) end: Option<String>,
}

struct Running {
    job: Job,
    is_cancelled: Arc<AtomicBool>,
}

/// All jobs. A panic leaves them consistent: each changes in one step.
#[derive(Default)]
pub(super) struct Jobs(Mutex<BTreeMap<u64, Running>>);

impl Jobs {
    /// All jobs, the newest first.
    pub(super) fn list(&self) -> Vec<Job> {
        ignore_poison(self.0.lock())
            .values()
            .rev()
            .map(|it| it.job.clone())
            .collect()
    }

    /// Ends a job after its current step. Returns false if there is no such job.
    pub(super) fn cancel(&self, id: u64) -> bool {
        let known = ignore_poison(self.0.lock());
        known
            .get(&id)
            .map(|it| it.is_cancelled.store(true, Ordering::Relaxed))
            .is_some()
    }

    /// Adds a job. Returns its number, and a flag that turns true when somebody cancels it.
    pub(super) fn add(&self, job: Job) -> (u64, Arc<AtomicBool>) {
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let mut known = ignore_poison(self.0.lock());
        let id = known.keys().next_back().map_or(1, |last| last + 1);
        if known.len() >= JOBS_MAX {
            let ended = known.iter().find(|(_, it)| !it.job.is_running).map(|(id, _)| *id);
            ended.map(|id| known.remove(&id));
        }
        let job = Job { id, ..job };
        known.insert(
            id,
            Running {
                job,
                is_cancelled: Arc::clone(&is_cancelled),
            },
        );
        (id, is_cancelled)
    }

    /// Changes a job.
    pub(super) fn update(&self, id: u64, change: impl FnOnce(&mut Job)) {
        if let Some(running) = ignore_poison(self.0.lock()).get_mut(&id) {
            change(&mut running.job);
        }
    }
}
