// SPDX-License-Identifier: Apache-2.0
//! Copies the intact content of a damaged namespace into a new one.
//!
//! The damaged directory is only read. The copy uses its catalog. Each entity that the journals name and the catalog
//! does not know yet becomes a queue `salvaged-<number>`: all of them without an intact catalog. Attached rows of bulk
//! loads are copied too and are taken over when the copy is opened. The copy is as if a lost journal entry had never
//! been written: a message whose completion is lost returns.

use std::path::Path;
use std::sync::Arc;

use oxbus_model::options::QueueSettings;
use oxbus_model::{Error, ErrorKind, Result};
use oxbus_store::disk::{Disk, LocalDisk};
use oxbus_store::file::{Catalog, FileLog, ReadOnlyDisk, SalvageResult, ShardId, salvage as salvage_log};

use crate::bulk_load::WaitingLoads;
use crate::catalog::{CatalogContents, EntityEntry, EntityRole};
use crate::clock::random_bytes;
use crate::durable::{ShardReplay, own, partition_of, shard_dir, storage_error};
use crate::shard::journal::{EntityId, ShardState};

/// Bytes of a snapshot chunk; one large message may exceed it.
const CHUNK_BYTES: usize = 256 << 10;

/// Result of salvaging one partition.
#[derive(Debug, Clone)]
pub struct SalvagedPartition {
    /// The partition.
    pub partition: u16,
    /// Messages copied.
    pub messages: u64,
    /// Rows of bulk loads copied; they become messages when the copy is opened.
    pub loaded_rows: u64,
    /// True if no loss was detected.
    pub is_whole: bool,
    /// Descriptions of missing or damaged data.
    pub losses: Vec<String>,
}

/// Copies the intact content of the namespace at `from` into a new namespace at `to`, which must be missing or empty.
pub fn salvage(from: &Path, to: &Path) -> Result<Vec<SalvagedPartition>> {
    let disk: Arc<dyn Disk> = Arc::new(LocalDisk);
    let partitions = partitions_of(from)?;
    // The lock keeps other processes from writing there.
    let _owner = own(from)?;
    if disk.list(to).is_ok_and(|names| !names.is_empty()) {
        let detail = format!(
            "the target is not empty; give a directory that does not exist: `{}`",
            to.display()
        );
        return Err(Error::new(ErrorKind::InvalidOperation, detail));
    }
    let known = Catalog::read(&ReadOnlyDisk, from).ok().flatten();
    let mut store_before = known.as_ref().map(|(catalog, _)| catalog.store());
    let contents = known.and_then(|(catalog, bytes)| {
        let mut contents = CatalogContents::decode(&bytes).ok()?;
        let key = u128::from_be_bytes(contents.identity_key(catalog.store()).0);
        contents.identity_key = Some(format!("{key:032x}"));
        // Fences name journal entries, and the copy has new journals. A message of a fenced entry was stored again in
        // another partition, so the copy may hold it twice.
        contents.fenced.clear();
        Some(contents)
    });
    let store = random_bytes()?;
    let failed = |error: std::io::Error| storage_error(to, "written", error);
    let mut found = Vec::new();
    let mut states = Vec::new();
    for partition in 0..partitions {
        let read = ReadShard::of(from, partition);
        store_before = store_before.or(read.store);
        states.push(read.state);
        found.push(SalvagedPartition {
            partition,
            messages: 0,
            loaded_rows: 0,
            is_whole: read.losses.is_empty(),
            losses: read.losses,
        });
    }
    let unreadable = |error: std::io::Error| storage_error(from, "read", error);
    let waiting = store_before.map_or_else(
        || Ok(Vec::new()),
        |store| {
            let find = |partition| WaitingLoads::find(from, partition, store).map_err(unreadable);
            (0..partitions).map(find).collect::<Result<Vec<_>>>()
        },
    )?;
    let mut contents = contents.unwrap_or_else(|| empty_contents(partitions, store_before));
    add_unknown(&mut contents, &states, &waiting);
    let mut waiting = waiting.into_iter();
    for (report, mut state) in found.iter_mut().zip(states) {
        state.retain(|entity| contents.has(entity));
        drop_stages(&mut state, report);
        report.messages = messages_of(&state);
        let id = ShardId {
            store,
            shard: report.partition,
        };
        let dir = shard_dir(to, report.partition);
        FileLog::create(&*disk, &dir, id, &mut state.chunks(CHUNK_BYTES)).map_err(failed)?;
        if let Some(loads) = waiting.next() {
            let has = |entity| contents.has(EntityId(entity));
            let copied = loads.copy(&disk, to, store, has).map_err(failed)?;
            report.loaded_rows = copied.rows;
            report.is_whole &= copied.losses.is_empty();
            report.losses.extend(copied.losses);
        }
    }
    Catalog::new(store)
        .rewrite(&*disk, to, &contents.encode())
        .map_err(failed)?;
    Ok(found)
}

/// The intact content of a shard.
pub(crate) struct ReadShard {
    pub(crate) state: ShardState,
    /// Descriptions of missing or damaged data.
    pub(crate) losses: Vec<String>,
    /// The store id, if a file has it.
    pub(crate) store: Option<[u8; 16]>,
}

impl ReadShard {
    /// Reads a shard, and changes nothing.
    pub(crate) fn of(from: &Path, partition: u16) -> Self {
        let mut replay = ShardReplay::default();
        let (store, losses) = match salvage_log(&ReadOnlyDisk, &shard_dir(from, partition), None, &mut replay) {
            Ok(salvaged) => {
                let mut losses = losses_of(&salvaged, replay.wrong.as_deref());
                let unreadable = replay.state.drop_unreadable();
                if unreadable > 0 {
                    losses.push(format!("the bytes of {unreadable} messages are damaged"));
                }
                (salvaged.id.map(|id| id.store), losses)
            }
            Err(error) => (None, vec![format!("it cannot be read: {error}")]),
        };
        Self {
            state: replay.state,
            losses,
            store,
        }
    }
}

/// The number of messages, dead letters included.
pub(crate) fn messages_of(state: &ShardState) -> u64 {
    let counts = state
        .entities()
        .map(|(_, queues)| queues.main.len() + queues.dead_letters.len());
    counts.map(|count| count as u64).sum()
}

/// Number of partitions, from the catalog or else from the shard directories.
pub(crate) fn partitions_of(from: &Path) -> Result<u16> {
    let names = ReadOnlyDisk
        .list(from)
        .map_err(|error| storage_error(from, "read", error))?;
    let numbers = names.iter().filter_map(|name| partition_of(name));
    let by_directory = numbers.max().map_or(0, |last: u16| last + 1);
    let catalog = Catalog::read(&ReadOnlyDisk, from).ok().flatten();
    let contents = catalog.and_then(|(_, bytes)| CatalogContents::decode(&bytes).ok());
    match contents.map_or(by_directory, |contents| contents.partitions) {
        0 => {
            let detail = format!("the path has neither a catalog nor partitions: `{}`", from.display());
            Err(Error::new(ErrorKind::InvalidOperation, detail))
        }
        partitions => Ok(partitions),
    }
}

/// The catalog of a namespace that has none.
fn empty_contents(partitions: u16, store_before: Option<[u8; 16]>) -> CatalogContents {
    let mut contents = CatalogContents::new(partitions);
    if let Some(store) = store_before {
        // This is the key of the identity hash, unless the namespace itself was salvaged from another one.
        contents.identity_key = Some(format!("{:032x}", u128::from_be_bytes(store)));
    }
    contents
}

/// Adds a queue for each entity with messages or attached rows that the catalog does not know yet: all of them if it is
/// lost, and the newest ones if it lost its last records.
fn add_unknown(contents: &mut CatalogContents, states: &[ShardState], waiting: &[WaitingLoads<'_>]) {
    let first_unknown = contents.next_entity;
    let in_states = states.iter().flat_map(ShardState::entities).map(|(entity, _)| entity);
    let in_loads = waiting.iter().flat_map(WaitingLoads::entities).map(EntityId);
    for entity in in_states.chain(in_loads) {
        if entity.0 < first_unknown || contents.has(entity) {
            continue;
        }
        let mut lives = states.iter().flat_map(ShardState::entities);
        let requires_session = lives.any(|(other, queues)| other == entity && !queues.states.is_empty());
        contents.put(EntityEntry {
            id: entity.0,
            name: format!("salvaged-{}", entity.0),
            home: 0,
            created_at_ms: 0,
            updated_at_ms: 0,
            accessed_at_ms: None,
            settings: QueueSettings {
                enable_partitioning: true,
                // Only a queue with sessions has states.
                requires_session,
                ..QueueSettings::default()
            },
            role: EntityRole::Queue,
        });
    }
}

/// Drops the stages, which are not copied: rows of a decided batch that were not yet published are lost.
fn drop_stages(state: &mut ShardState, report: &mut SalvagedPartition) {
    for (sink, intent) in state.sinks_mut() {
        if !intent.is_done {
            report.is_whole = false;
            let loss = format!(
                "rows of batch {} of the sink `{sink}` that were not published yet are lost",
                intent.batch
            );
            report.losses.push(loss);
            intent.is_done = true;
            intent.targets.clear();
        }
        intent.stages.clear();
    }
}

fn losses_of(salvaged: &SalvageResult, wrong: Option<&str>) -> Vec<String> {
    let mut losses: Vec<String> = Vec::new();
    if salvaged.files.is_empty() {
        losses.push("all its files are gone".to_owned());
    }
    for lost in &salvaged.lost {
        losses.push(format!("entries {} to {} are lost", lost.start().0, lost.end().0));
    }
    for missing in &salvaged.missing_segments {
        losses.push(format!("segments {} to {} are missing", missing.start(), missing.end()));
    }
    for file in &salvaged.files {
        losses.extend(file.problems.iter().map(|problem| format!("{}: {problem}", file.name)));
        let bad = file.bad.iter();
        losses.extend(bad.map(|bad| format!("{}: bytes {} to {} are damaged", file.name, bad.start, bad.end)));
    }
    losses.extend(wrong.map(|wrong| format!("reading stopped: {wrong}")));
    losses
}
