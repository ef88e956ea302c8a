// SPDX-License-Identifier: Apache-2.0
//! All stages of a namespace by id, in memory or in a directory beside its shards.
//!
//! Invariants
//! - only the commit that names a stage removes it;
//! - one commit of a sink runs at a time: it holds the lock of that sink;
//! - the guard of the table is not held across a disk call.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use oxbus_model::caps::{ATTACHED_BYTES_MAX, STAGE_ID_CHARS_MAX, STAGE_RETENTION_MS};
use oxbus_model::hash::partition_of;
use oxbus_model::options::Durability;
use oxbus_model::sync::ignore_poison;
use oxbus_model::{Effect, Error, ErrorKind, Result, Timestamp};
use oxbus_store::Wait;
use oxbus_store::disk::Disk;
use oxbus_store::file::{StageError, StageFile, StageNames, stage_path};

use super::content::StageContent;
use super::{StageInfo, StageState};
use crate::durable::Stores;
use crate::entity::Core;
use crate::shard::Shard;
use crate::shard::journal::{EntityId, Intent, PendingEntry};

/// Interval between two checks of whether the caller's wait is over.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The stages of a namespace.
pub(crate) struct StageRegistry {
    pub(super) core: Arc<Core>,
    pub(super) shards: Arc<[Arc<Shard>]>,
    /// The directory of the stages; `None` in memory.
    pub(super) files: Option<StageFiles>,
    /// Valid after a panic: each change is one call of a map, and the decision of a commit is in a journal.
    pub(super) table: Mutex<StageTable>,
    /// Notified when the lock of a sink is released.
    sink_unlocked: Condvar,
    /// Maximum bytes attached per journal entry. Tests set fewer.
    pub(super) piece_bytes: AtomicU64,
    /// Backups that read the files. Meanwhile the files of removed stages stay.
    readers: AtomicUsize,
}

/// Keeps the files of removed stages until it is dropped.
pub(crate) struct StageFileHold(Arc<StageRegistry>);

impl Drop for StageFileHold {
    fn drop(&mut self) {
        self.0.readers.fetch_sub(1, Ordering::AcqRel);
        self.0.remove_obsolete_files();
    }
}

/// The directory of the stages.
#[derive(Debug)]
pub(crate) struct StageFiles {
    /// Its file system.
    pub(crate) disk: Arc<dyn Disk>,
    /// The directory of the namespace.
    pub(crate) namespace: PathBuf,
    /// The store id of the namespace.
    pub(crate) store: [u8; 16],
    /// True if finished stages are synced.
    pub(crate) synced: bool,
    /// True if this process owns all partitions, and with them the stages.
    pub(crate) owns_all: bool,
}

/// The last journal entry of each shard to which a batch went.
pub(super) type PendingSyncs = Vec<(Arc<Shard>, PendingEntry)>;

#[derive(Default)]
pub(super) struct StageTable {
    pub(super) stages: BTreeMap<String, Stage>,
    /// Files of removed stages that could not yet be removed.
    obsolete_files: Vec<PathBuf>,
    /// Locked sinks.
    busy: BTreeSet<String>,
    /// Sinks with a committed batch that is not finished. Once all rows are attached, the value is the entries to
    /// sync.
    pub(super) unpublished: BTreeMap<String, Option<PendingSyncs>>,
}

/// One stage.
pub(super) struct Stage {
    pub(super) entity: EntityId,
    pub(super) created_at: Timestamp,
    pub(super) phase: StagePhase,
    /// The partition whose store left the decision of a commit of this stage unknown. Until it works again, the stage
    /// may be committed.
    pub(super) undecided: Option<usize>,
}

/// The phase of a stage.
pub(super) enum StagePhase {
    /// Its task is writing.
    Open,
    /// It is finished.
    Ready(Arc<StageContent>),
    /// A commit has named it.
    Committed {
        sink: String,
        batch: u64,
        content: Arc<StageContent>,
    },
}

/// Holds the lock of a sink until it is dropped.
pub(super) struct SinkGuard<'a> {
    registry: &'a StageRegistry,
    sink: String,
}

impl Drop for SinkGuard<'_> {
    fn drop(&mut self) {
        self.registry.table().busy.remove(&self.sink);
        self.registry.sink_unlocked.notify_all();
    }
}

impl StageFiles {
    /// The stage directory of a durable namespace.
    pub(crate) fn of(stores: &Stores) -> Self {
        Self {
            disk: stores.disk(),
            namespace: stores.dir().to_owned(),
            store: stores.id(),
            synced: stores.durability() == Durability::Fsync,
            owns_all: stores.owns_all(),
        }
    }

    /// The directory of the stages.
    pub(super) fn dir(&self) -> PathBuf {
        stages_dir(&self.namespace)
    }

    /// Creates the directory.
    pub(super) fn make_dir(&self) -> std::io::Result<()> {
        self.disk.create_dir(&self.dir())?;
        if self.synced {
            self.disk.sync_dir(&self.namespace)?;
        }
        Ok(())
    }
}

/// The directory of the stages of a namespace.
pub(crate) fn stages_dir(namespace: &Path) -> PathBuf {
    namespace.join("stages")
}

impl StageRegistry {
    pub(crate) fn new(core: &Arc<Core>, shards: &Arc<[Arc<Shard>]>, files: Option<StageFiles>) -> Self {
        Self {
            core: Arc::clone(core),
            shards: Arc::clone(shards),
            files,
            table: Mutex::default(),
            sink_unlocked: Condvar::new(),
            piece_bytes: AtomicU64::new(ATTACHED_BYTES_MAX as u64),
            readers: AtomicUsize::new(0),
        }
    }

    /// Keeps the files of removed stages until the result is dropped.
    pub(crate) fn hold_files(self: &Arc<Self>) -> StageFileHold {
        self.readers.fetch_add(1, Ordering::AcqRel);
        StageFileHold(Arc::clone(self))
    }

    /// Loads the finished stages, removes unfinished files, and publishes decided batches.
    pub(crate) fn restore(&self) -> Result<()> {
        let Some(files) = self.files.as_ref().filter(|files| files.owns_all) else {
            return Ok(());
        };
        let dir = files.dir();
        let names = StageNames::list(&*files.disk, &dir).map_err(|error| stage_storage_error(files, "read", error))?;
        for path in names.unfinished {
            // A file that stays is harmless; the next open tries again.
            let _ = files.disk.remove(&path);
        }
        let now = self.core.clock().now();
        for number in names.finished {
            let (id, stage) = open_stage(files, number, now);
            let bytes = stage.content().map_or(0, |content| content.totals().1);
            self.core.staged_bytes().fetch_add(bytes, Ordering::Relaxed);
            self.table().stages.entry(id).or_insert(stage);
        }
        for (sink, intent) in self.intents() {
            if intent.is_done {
                self.remove_all(&intent.stages);
                continue;
            }
            let mut table = self.table();
            table.reserve(&sink, &intent);
            table.unpublished.insert(sink, None);
        }
        self.resume();
        Ok(())
    }

    pub(super) fn table(&self) -> MutexGuard<'_, StageTable> {
        ignore_poison(self.table.lock())
    }

    /// The last intent of each sink.
    pub(super) fn intents(&self) -> Vec<(String, Intent)> {
        self.shards.iter().flat_map(|shard| shard.intents()).collect()
    }

    /// The shard that stores the intent of a sink.
    pub(super) fn home_of(&self, sink: &str) -> &Arc<Shard> {
        &self.shards[partition_of(sink.as_bytes(), self.shards.len() as u32) as usize]
    }

    /// Fails if this process cannot use stages.
    pub(super) fn check(&self) -> Result<()> {
        self.core.check_open()?;
        if self.files.as_ref().is_some_and(|files| !files.owns_all) {
            let detail = "staged sends need all partitions; open the namespace without partitions_owned, or attach rows to the partitions \
                          that this process owns";
            return Err(Error::new(ErrorKind::InvalidOperation, detail));
        }
        Ok(())
    }

    /// Waits for the lock of a sink.
    pub(super) fn lock_sink(&self, sink: &str, wait: &Wait<'_>) -> Result<SinkGuard<'_>> {
        loop {
            if let Some(guard) = self.try_lock_sink(sink) {
                return Ok(guard);
            }
            let table = self.table();
            let waited = self.sink_unlocked.wait_timeout(table, POLL_INTERVAL);
            drop(ignore_poison(waited));
            // The guard is not held here, because the wait's callback may call Python.
            if wait.is_over() {
                let detail = format!(
                    "another commit of the sink did not end in time and nothing has happened; retry the call: sink=`{sink}`"
                );
                return Err(Error::new(ErrorKind::Timeout, detail).with_effect(Effect::None));
            }
        }
    }

    /// The lock of a sink, if it is free.
    pub(super) fn try_lock_sink(&self, sink: &str) -> Option<SinkGuard<'_>> {
        let is_mine = self.table().busy.insert(sink.to_owned());
        is_mine.then(|| SinkGuard {
            registry: self,
            sink: sink.to_owned(),
        })
    }

    /// The file system of the stages.
    pub(super) fn disk(&self) -> Option<&Arc<dyn Disk>> {
        self.files.as_ref().map(|files| &files.disk)
    }

    /// True if no commit has, or may have, named the stage.
    fn is_free(&self, stage: &Stage) -> bool {
        let undecided = stage.undecided.map(|partition| &self.shards[partition]);
        matches!(stage.phase, StagePhase::Ready(_)) && undecided.is_none_or(|shard| shard.health().serves())
    }

    /// Removes those of the stages that no commit has, or may have, named.
    pub(super) fn discard_all(&self, ids: &[String]) {
        let free: Vec<String> = {
            let table = self.table();
            let is_free = |id: &&String| table.stages.get(*id).is_some_and(|stage| self.is_free(stage));
            ids.iter().filter(is_free).cloned().collect()
        };
        self.remove_all(&free);
    }

    /// Removes stages and their files. The removal of a file is retried later if it fails.
    pub(super) fn remove_all(&self, ids: &[String]) {
        for id in ids {
            let taken = self.table().stages.remove(id);
            let Some(content) = taken.and_then(|stage| stage.content().cloned()) else {
                continue;
            };
            let bytes = content.totals().1;
            self.core.staged_bytes().fetch_sub(bytes, Ordering::Relaxed);
            let path = match (&*content, &self.files) {
                (StageContent::File(file), _) => file.path().to_owned(),
                (StageContent::Unreadable { number, .. }, Some(files)) => stage_path(&files.dir(), *number),
                _ => continue,
            };
            self.table().obsolete_files.push(path);
        }
        self.remove_obsolete_files();
    }

    /// Removes the files of removed stages, unless a backup reads them.
    fn remove_obsolete_files(&self) {
        let Some(disk) = self.disk() else { return };
        if self.readers.load(Ordering::Acquire) > 0 {
            return;
        }
        let mut paths = std::mem::take(&mut self.table().obsolete_files);
        let stays = |path: &PathBuf| {
            let error = disk.remove(path).err();
            error.is_some_and(|error| error.kind() != std::io::ErrorKind::NotFound)
        };
        paths.retain(stays);
        self.table().obsolete_files.append(&mut paths);
    }

    /// Removes stages that no commit has named for too long, and expired intents.
    pub(super) fn remove_expired(&self) {
        let now = self.core.clock().now();
        let over: Vec<String> = {
            let table = self.table();
            let is_over = |stage: &Stage| stage.created_at.plus_ms(STAGE_RETENTION_MS) <= now && self.is_free(stage);
            let over = table.stages.iter().filter(|(_, stage)| is_over(stage));
            over.map(|(id, _)| id.clone()).collect()
        };
        self.remove_all(&over);
        self.remove_obsolete_files();
        for shard in &*self.shards {
            shard.forget_sinks(now);
        }
    }

    /// See [`Stages::abort`](super::Stages::abort).
    pub(super) fn abort(&self, sink: &str, ids: &[String], wait: &Wait<'_>) -> Result<()> {
        self.check()?;
        let _guard = self.lock_sink(sink, wait)?;
        self.discard_all(ids);
        Ok(())
    }

    /// See [`Stages::discard`](super::Stages::discard).
    pub(super) fn discard(&self, id: &str, wait: &Wait<'_>) -> Result<bool> {
        self.check()?;
        let waits_for = |(sink, intent): &(String, Intent)| {
            let is_named = !intent.is_done && intent.stages.iter().any(|stage| stage == id);
            is_named.then(|| sink.clone())
        };
        if let Some(sink) = self.intents().iter().find_map(waits_for) {
            return self.publish_without(&sink, id, wait);
        }
        let is_known = {
            let table = self.table();
            let stage = table.stages.get(id);
            if stage.is_some_and(|stage| !self.is_free(stage)) {
                let detail = format!("the stage is being written or committed; wait until that has ended: id=`{id}`");
                return Err(Error::new(ErrorKind::InvalidOperation, detail));
            }
            stage.is_some()
        };
        self.remove_all(&[id.to_owned()]);
        Ok(is_known)
    }

    /// See [`Stages::list`](super::Stages::list).
    pub(super) fn list(&self) -> Vec<StageInfo> {
        self.remove_expired();
        let path_of = |id: EntityId| {
            self.core
                .entity_by_id(id)
                .map(|entity| entity.name().as_str().to_owned())
        };
        let known: Vec<(EntityId, StageInfo)> = {
            let table = self.table();
            table
                .stages
                .iter()
                .map(|(id, stage)| (stage.entity, stage.info(id)))
                .collect()
        };
        let mut all = Vec::with_capacity(known.len());
        for (entity, mut info) in known {
            info.entity = path_of(entity).unwrap_or_default();
            all.push(info);
        }
        let ids: BTreeSet<String> = all.iter().map(|info| info.id.clone()).collect();
        for (_, intent) in self.intents().into_iter().filter(|(_, intent)| !intent.is_done) {
            let missing = intent.stages.into_iter().filter(|id| !ids.contains(id));
            all.extend(missing.map(|id| StageInfo {
                id,
                entity: String::new(),
                created_at: intent.at,
                expires_at: Timestamp::NEVER,
                rows: 0,
                bytes: 0,
                state: StageState::Damaged("its file is missing".to_owned()),
            }));
        }
        all.sort_by(|one, other| (one.created_at, &one.id).cmp(&(other.created_at, &other.id)));
        all
    }
}

/// Fails if an id is empty or too long.
pub(super) fn check_id(what: &str, text: &str) -> Result<()> {
    let chars = text.chars().count();
    if (1..=STAGE_ID_CHARS_MAX).contains(&chars) {
        return Ok(());
    }
    let detail = format!("{what} must have 1 to {STAGE_ID_CHARS_MAX} characters: {chars}");
    Err(Error::new(ErrorKind::InvalidArgument, detail))
}

pub(super) fn stage_storage_error(files: &StageFiles, what: &str, error: std::io::Error) -> Error {
    let kind = match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => ErrorKind::QuotaExceeded,
        _ => ErrorKind::Storage,
    };
    let detail = format!(
        "the stage could not be {what} ({error}); check the disk and stage the rows again: `{}`",
        files.dir().display()
    );
    Error::new(kind, detail).with_source(error)
}

/// Opens the finished stage with this number. An unreadable stage is listed under its id, or under the name of its
/// file.
fn open_stage(files: &StageFiles, number: u64, now: Timestamp) -> (String, Stage) {
    let (disk, dir) = (&*files.disk, files.dir());
    let ready = |entity, created_at, content| Stage {
        entity,
        created_at,
        phase: StagePhase::Ready(Arc::new(content)),
        undecided: None,
    };
    let error = match StageFile::open(disk, &dir, number, files.store) {
        Ok(file) => {
            let (entity, created_at) = (EntityId(file.header().entity), Timestamp(file.header().created_at_ms));
            let id = file.header().id.clone();
            return (id, ready(entity, created_at, StageContent::File(file)));
        }
        Err(error) => error,
    };
    // A newer version or a later open may read it, so it never expires here.
    let forever = matches!(error, StageError::Newer { .. } | StageError::Io(_));
    let why = format!("{error}: `{number:016x}.stage`");
    let unreadable = StageContent::Unreadable {
        why,
        source: Arc::new(error),
        number,
    };
    match StageFile::read_header(disk, &dir, number, files.store) {
        Ok(head) if !forever => (
            head.id,
            ready(EntityId(head.entity), Timestamp(head.created_at_ms), unreadable),
        ),
        _ => {
            let created_at = if forever { Timestamp::NEVER } else { now };
            (format!("{number:016x}"), ready(EntityId(0), created_at, unreadable))
        }
    }
}

impl Stage {
    /// The rows of a finished stage.
    pub(super) fn content(&self) -> Option<&Arc<StageContent>> {
        match &self.phase {
            StagePhase::Open => None,
            StagePhase::Ready(content) | StagePhase::Committed { content, .. } => Some(content),
        }
    }

    fn info(&self, id: &str) -> StageInfo {
        let (rows, bytes) = self.content().map_or((0, 0), |content| content.totals());
        let state = match (&self.phase, self.content().map(|content| &**content)) {
            (_, Some(StageContent::Unreadable { why, .. })) => StageState::Damaged(why.clone()),
            (StagePhase::Open, _) => StageState::Open,
            (StagePhase::Ready(_), _) => StageState::Ready,
            (StagePhase::Committed { sink, batch, .. }, _) => StageState::Committed {
                sink: sink.clone(),
                batch: *batch,
            },
        };
        StageInfo {
            id: id.to_owned(),
            entity: String::new(),
            created_at: self.created_at,
            expires_at: self.created_at.plus_ms(STAGE_RETENTION_MS),
            rows,
            bytes,
            state,
        }
    }
}

impl StageTable {
    /// Reserves the stages of a commit.
    pub(super) fn reserve(&mut self, sink: &str, intent: &Intent) {
        for id in &intent.stages {
            if let Some(stage) = self.stages.get_mut(id)
                && let Some(content) = stage.content().cloned()
            {
                stage.phase = StagePhase::Committed {
                    sink: sink.to_owned(),
                    batch: intent.batch,
                    content,
                };
            }
        }
    }
}
