// SPDX-License-Identifier: Apache-2.0
//! Opens or creates a durable namespace.
//!
//! The directory is not changed before it is known to be a namespace or empty. A shard that cannot be opened is out of
//! service, with the reason, and the others open. A shard without files is damaged, never empty: creating a namespace
//! writes a first snapshot into each shard.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use oxbus_model::caps::OS_SYNC_INTERVAL_MS;
use oxbus_model::options::Durability;
use oxbus_model::{Clock, Error, ErrorKind, PartitionId, Result};
use oxbus_store::disk::{Disk, LocalDisk};
use oxbus_store::extent::ExtentLocation;
use oxbus_store::file::{
    Catalog, CatalogBytes, FileLog, FileLogOptions, Flusher, OpenError, Owner, OwnershipError, Replay, ReplayResult,
    ShardId,
};
use oxbus_store::injected::{InjectedDisk, Injection};
use oxbus_store::shard_log::Lsn;
use oxbus_store::{Record, StoredRecord};

use super::held_catalog::HeldCatalog;
use super::inspect::{FoundCatalog, find_catalog, unreadable_catalog};
use super::{Recovery, ShardStore, Stores};
use crate::catalog::CatalogContents;
use crate::catalog::FencedEntry;
use crate::clock::{Randomness, SystemClock};
use crate::memory::MemoryBudget;
use crate::shard::journal::{EventReader, Journal, JournalEvent, KeptRecord, ShardState};
use crate::shard::{FaultReason, PartitionFault, Shard, offset_in};

/// Threads that sync entries for which no call waits.
const FLUSHERS: usize = 2;

/// How to open a durable namespace.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Its directory.
    pub path: PathBuf,
    /// Durability of calls that do not ask for a level: `Os` or `Fsync`.
    pub durability: Durability,
    /// Partitions to own, one bit each; `None` for all. With no bit set, the namespace only shows its catalog.
    pub owned: Option<u64>,
    /// A file system for tests instead of the machine's, without ownership locks.
    pub disk: Option<Arc<dyn Disk>>,
    /// Bytes of the smallest and the largest journal segment, for tests; `None` for the defaults.
    pub segment_bytes: Option<(u64, u64)>,
}

/// The parts of an opened namespace.
pub struct OpenedNamespace {
    /// Its files.
    pub stores: Stores,
    /// Its shards.
    pub shards: Vec<Arc<Shard>>,
    /// The recovered state of each shard.
    pub states: Vec<ShardState>,
    /// Its entities.
    pub contents: CatalogContents,
}

/// Opens the namespace in a directory. If there is none, creates it with `partitions` or else `default_partitions`
/// shards. The store id and the salts of the journals come from `randomness`.
pub fn open(
    options: &StoreOptions,
    (partitions, default_partitions): (Option<u16>, u16),
    memory: &Arc<MemoryBudget>,
    randomness: &Randomness,
) -> Result<OpenedNamespace> {
    let clock = SystemClock::new();
    let began = clock.ticks();
    let is_local = options.disk.is_none();
    let disk = options.disk.clone().unwrap_or_else(|| Arc::new(LocalDisk));
    let dir = &options.path;
    let mut owners = Vec::new();
    let found = find_catalog(&*disk, dir)?;
    if found.is_none() || options.owned.is_none() {
        // A process that owns only some partitions does this too: two processes must not create the namespace at the
        // same time.
        disk.create_dir(dir)
            .map_err(|error| storage_error(dir, "created", error))?;
        if is_local {
            owners.push(own(dir)?);
        }
    }
    let found = match found {
        Some(found) => found,
        // Another process may have created it before this one got the lock.
        None => match find_catalog(&*disk, dir)? {
            Some(found) => found,
            None => create(&disk, dir, partitions.unwrap_or(default_partitions), randomness)?,
        },
    };
    let mut catalog = HeldCatalog::of(found)?;
    let contents = &catalog.contents;
    if partitions.is_some_and(|partitions| partitions != contents.partitions) {
        let detail = format!(
            "the number of partitions cannot change after creation; leave partitions out or set {}: `{}`",
            contents.partitions,
            dir.display()
        );
        return Err(Error::new(ErrorKind::InvalidOperation, detail));
    }
    let owned = owned_mask(options.owned, contents.partitions)?;
    if options.owned.is_some() {
        owners.clear();
    }
    let owns = |partition: u16| owned >> partition & 1 == 1;
    for partition in (0..contents.partitions).filter(|partition| owns(*partition)) {
        let shard_dir = shard_dir(dir, partition);
        if is_local && shard_dir.is_dir() {
            owners.push(own(&shard_dir)?);
        }
    }
    let mut recovery = Recovery {
        truncated_bytes: catalog.finish_open(&disk, dir, options.owned.is_none())?,
        ..Recovery::default()
    };
    let contents = catalog.contents.clone();
    let interval = Duration::from_millis(OS_SYNC_INTERVAL_MS);
    let flusher = Flusher::start(FLUSHERS, interval).map_err(|error| storage_error(dir, "opened", error))?;
    // The salts are drawn here in order, so that a seed gives the same salts whatever the order of the threads that
    // open shards.
    let salts = (0..contents.partitions).map(|_| randomness.bytes().map(u32::from_le_bytes));
    let opening = ShardOpener {
        salts: salts.collect::<Result<_>>()?,
        disk: &disk,
        dir,
        store: catalog.file.store(),
        durability: options.durability,
        segment_bytes: options.segment_bytes,
        flusher: &Arc::new(flusher),
        memory,
        fenced: &contents.fenced,
    };
    let parts = opening.all(contents.partitions, &owns);
    let (mut shards, mut stores, mut states) = (Vec::new(), Vec::new(), Vec::new());
    for (partition, part) in (0..).zip(parts) {
        recovery.frames += part.replayed.frames;
        recovery.truncated_bytes += part.replayed.torn_bytes;
        if part.shard.health().fault() == Some(PartitionFault::Damaged) {
            recovery.corrupt_partitions.push(partition);
        }
        let mut state = part.state;
        if let Some((entity, _)) = state.entities().find(|(entity, _)| entity.0 >= contents.next_entity) {
            let what = format!("has lost the entity with number {}", entity.0);
            return Err(unreadable_catalog(dir, &what));
        }
        // Drops the messages of deleted entities.
        state.retain(|entity| contents.has(entity));
        shards.push(part.shard);
        stores.push(part.store);
        states.push(state);
    }
    recovery.seconds = (clock.ticks().0 - began.0) as f64 / 1e3;
    let injection = Arc::new(Injection::default());
    Ok(OpenedNamespace {
        stores: Stores {
            dir: dir.clone(),
            disk: Arc::new(InjectedDisk::new(disk, Arc::clone(&injection))),
            injection,
            catalog: Mutex::new(catalog),
            shards: stores,
            closed: AtomicBool::new(false),
            owners: Mutex::new(owners),
            owns_all: options.owned.is_none(),
            is_local,
            durability: options.durability,
            recovery,
            waiting_loads: OnceLock::new(),
        },
        shards,
        states,
        contents,
    })
}

fn owned_mask(owned: Option<u64>, partitions: u16) -> Result<u64> {
    let all = u64::MAX >> (64 - u32::from(partitions));
    match owned {
        None => Ok(all),
        Some(owned) if owned & !all == 0 => Ok(owned),
        Some(_) => {
            let detail = format!(
                "partitions_owned is out of range; use partitions from 0 to {}",
                partitions - 1
            );
            Err(Error::new(ErrorKind::InvalidArgument, detail))
        }
    }
}

/// The directory of a shard.
pub(crate) fn shard_dir(dir: &Path, partition: u16) -> PathBuf {
    dir.join(format!("shard-{partition:02}"))
}

pub(crate) fn storage_error(path: &Path, what: &str, error: io::Error) -> Error {
    let detail = format!(
        "the namespace could not be {what} ({error}); check the disk and its permissions: `{}`",
        path.display()
    );
    Error::new(ErrorKind::Storage, detail).with_source(error)
}

pub(crate) fn own(dir: &Path) -> Result<Owner> {
    Owner::acquire(dir).map_err(|error| match error {
        OwnershipError::InUse { pid, path } => {
            let owner = pid.map_or_else(
                || "another process".to_owned(),
                |pid| {
                    let here = if pid == std::process::id() { ", this one" } else { "" };
                    format!("the process with pid {pid}{here}")
                },
            );
            let detail = format!(
                "the namespace is in use by {owner}; close it there, or own other partitions: `{}`",
                path.parent().unwrap_or(dir).display()
            );
            Error::new(ErrorKind::NamespaceInUse, detail)
        }
        OwnershipError::Io(error) => storage_error(dir, "owned", error),
    })
}

/// Writes the files of an empty namespace. The catalog comes last, so an interrupted creation leaves no namespace.
fn create(disk: &Arc<dyn Disk>, dir: &Path, partitions: u16, randomness: &Randomness) -> Result<FoundCatalog> {
    let store = randomness.bytes()?;
    let make = || {
        for shard in 0..partitions {
            let id = ShardId { store, shard };
            FileLog::create(&**disk, &shard_dir(dir, shard), id, &mut std::iter::empty())?;
        }
        let mut catalog = Catalog::new(store);
        let content = CatalogContents::new(partitions).encode();
        catalog.rewrite(&**disk, dir, &content)?;
        let bytes = CatalogBytes {
            content,
            ..CatalogBytes::default()
        };
        Ok((catalog, bytes))
    };
    make().map_err(|error| storage_error(dir, "created", error))
}

/// The common parameters of opening shards.
struct ShardOpener<'a> {
    /// By partition.
    salts: Vec<u32>,
    disk: &'a Arc<dyn Disk>,
    dir: &'a Path,
    store: [u8; 16],
    durability: Durability,
    segment_bytes: Option<(u64, u64)>,
    flusher: &'a Arc<Flusher>,
    memory: &'a Arc<MemoryBudget>,
    fenced: &'a [FencedEntry],
}

/// The result of opening one shard, which may be out of service.
struct OpenedShard {
    shard: Arc<Shard>,
    store: Option<ShardStore>,
    state: ShardState,
    replayed: ReplayResult,
}

impl ShardOpener<'_> {
    /// Opens the owned shards in parallel, one thread per processor.
    fn all(&self, partitions: u16, owns: &(impl Fn(u16) -> bool + Sync)) -> Vec<OpenedShard> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let each = usize::from(partitions).div_ceil(threads).max(1);
        let ids: Vec<u16> = (0..partitions).collect();
        std::thread::scope(|scope| {
            let running: Vec<_> = ids
                .chunks(each)
                .map(|ids| {
                    scope.spawn(|| {
                        ids.iter()
                            .map(|id| self.open_shard(*id, owns(*id)))
                            .collect::<Vec<OpenedShard>>()
                    })
                })
                .collect();
            let done = running.into_iter();
            done.flat_map(|thread| thread.join().expect("opening a shard does not panic"))
                .collect()
        })
    }

    fn open_shard(&self, partition: u16, is_owned: bool) -> OpenedShard {
        let id = PartitionId(partition);
        let stopped = |fault, reason| OpenedShard {
            shard: Arc::new(Shard::stopped(id, fault, reason)),
            store: None,
            state: ShardState::default(),
            replayed: ReplayResult::default(),
        };
        if !is_owned {
            return stopped(PartitionFault::NotOwned, FaultReason::default());
        }
        let dir = shard_dir(self.dir, partition);
        let injection = Arc::new(Injection::default());
        let disk: Arc<dyn Disk> = Arc::new(InjectedDisk::new(Arc::clone(self.disk), Arc::clone(&injection)));
        match self.open_log(&disk, &dir, partition) {
            Err(reason) => stopped(PartitionFault::Damaged, reason),
            Ok((log, options, state, replayed)) => {
                let log = Arc::new(log);
                self.flusher.add(&log);
                OpenedShard {
                    // Replayed bytes count towards the next snapshot like bytes written after the open.
                    shard: Arc::new(Shard::durable(
                        id,
                        Journal::new(log.clone(), self.durability, replayed.bytes, log.snapshot_written()),
                        Arc::clone(self.memory),
                    )),
                    store: Some(ShardStore {
                        log: Mutex::new(log),
                        options,
                        flusher: Arc::clone(self.flusher),
                        injection,
                        closed: AtomicBool::new(false),
                    }),
                    state,
                    replayed,
                }
            }
        }
    }

    fn open_log(
        &self,
        disk: &Arc<dyn Disk>,
        dir: &Path,
        partition: u16,
    ) -> std::result::Result<(FileLog, FileLogOptions, ShardState, ReplayResult), FaultReason> {
        if !FileLog::exists(&**disk, dir).map_err(|error| unreadable(dir, error))? {
            let text = format!(
                "the files of the partition are missing; restore them from a copy: `{}`",
                dir.display()
            );
            return Err(text.into());
        }
        let id = ShardId {
            store: self.store,
            shard: partition,
        };
        let mut options = FileLogOptions::new(id, self.salts[usize::from(partition)]);
        if let Some((min, max)) = self.segment_bytes {
            (options.segment_bytes_min, options.segment_bytes_max) = (min, max);
        }
        let mut replay = ShardReplay {
            memory: Arc::clone(self.memory),
            keeps_locations: disk.shares_bytes(),
            ..ShardReplay::of(partition, self.fenced)
        };
        options.epoch_above = replay.newest_fenced_epoch();
        let opened = FileLog::open(Arc::clone(disk), dir, options, &mut replay).map_err(|error| match error {
            OpenError::Io(error) => unreadable(dir, error),
            error => FaultReason::of(error.to_string(), Some(Arc::new(error))),
        })?;
        match replay.wrong {
            Some(wrong) => {
                let text = format!(
                    "{wrong}; salvage the partition or restore it from a copy: `{}`",
                    dir.display()
                );
                Err(text.into())
            }
            None => Ok((opened.log, options, replay.state, opened.replayed)),
        }
    }
}

fn unreadable(dir: &Path, error: impl std::error::Error + Send + Sync + 'static) -> FaultReason {
    let text = format!(
        "the files of the partition cannot be read ({error}): `{}`",
        dir.display()
    );
    FaultReason::of(text, Some(Arc::new(error)))
}

/// Builds the state of a shard while its journal is read.
#[derive(Default)]
pub(crate) struct ShardReplay {
    pub(crate) state: ShardState,
    /// The first invalid event, in words.
    pub(crate) wrong: Option<String>,
    memory: Arc<MemoryBudget>,
    /// True if messages in memory have their location on disk, too, so that snapshots can refer to it.
    keeps_locations: bool,
    /// Fenced entries: epoch and number.
    fenced: Vec<(u64, Lsn)>,
    /// Epoch of the entries being read.
    epoch: u64,
}

impl ShardReplay {
    /// The state of a partition before its journal is read.
    pub(super) fn of(partition: u16, fenced: &[FencedEntry]) -> Self {
        let here = fenced.iter().filter(|it| it.partition == partition);
        Self {
            fenced: here.map(|it| (it.epoch, Lsn(it.lsn))).collect(),
            ..Self::default()
        }
    }

    /// The new epoch is above this one, so that a later entry is never mistaken for a fenced one.
    fn newest_fenced_epoch(&self) -> u64 {
        self.fenced.iter().map(|(epoch, _)| *epoch).max().unwrap_or(0)
    }

    fn apply(&mut self, entry: &[u8], at: &str, location: Option<&ExtentLocation>, counts: bool) {
        if self.wrong.is_some() {
            return;
        }
        let (memory, keeps_locations) = (&self.memory, self.keeps_locations);
        let mut keep = |record: KeptRecord<'_>| match (record, location) {
            (KeptRecord::Here(bytes), Some(location)) if memory.spills_at_open(bytes.len()) => {
                StoredRecord::on_disk(bytes.len(), location.plus(offset_in(entry, bytes)))
            }
            (KeptRecord::Here(bytes), Some(location)) if keeps_locations => {
                StoredRecord::in_both(Record::from_slice(bytes), location.plus(offset_in(entry, bytes)))
            }
            (KeptRecord::Here(bytes), _) => Record::from_slice(bytes).into(),
            (KeptRecord::Apart { len, position }, Some(location)) => {
                StoredRecord::on_disk(len, location.in_same_file(position))
            }
            (KeptRecord::Apart { .. }, None) => unreachable!("a snapshot with records apart is in a file"),
        };
        for found in EventReader::of(entry) {
            let wrong = match found {
                // The numbers that a fenced entry reserved stay reserved.
                Ok((_, event)) if !counts && !matches!(event, JournalEvent::Number { .. }) => continue,
                Ok((entity, event)) => match self.state.apply_with(entity, &event, &mut keep) {
                    Ok(()) => continue,
                    Err(misfit) => format!("{} at {at}: number {}", misfit.detail, misfit.counter.0),
                },
                Err(_) => format!("{at} contains an undecodable event"),
            };
            self.wrong = Some(wrong);
            return;
        }
    }
}

impl Replay for ShardReplay {
    fn snapshot(&mut self, covered: Lsn, part: &[u8], location: Option<&ExtentLocation>) {
        self.apply(part, &format!("the snapshot after entry {}", covered.0), location, true);
    }

    fn epoch(&mut self, epoch: u64) {
        self.epoch = epoch;
    }

    fn entry(&mut self, lsn: Lsn, entry: &[u8], location: Option<&ExtentLocation>) {
        let counts = !self.fenced.contains(&(self.epoch, lsn));
        self.apply(entry, &format!("entry {}", lsn.0), location, counts);
    }
}
