// SPDX-License-Identifier: Apache-2.0
//! Checks every checksum of a namespace in a directory, and changes nothing.

use std::path::Path;

use oxbus_model::Result;
use oxbus_store::file::{Catalog, ReadOnlyDisk};

use crate::bulk_load::attached_dir;
use crate::catalog::CatalogContents;
use crate::durable::{own, storage_error};
use crate::salvage::{ReadShard, SalvagedPartition, messages_of, partitions_of};
use crate::stage::{check_files, stages_dir};

/// What a check has found.
#[derive(Debug)]
pub struct Verified {
    /// What is wrong with the catalog.
    pub catalog: Vec<String>,
    /// What is wrong with staged sends.
    pub stages: Vec<String>,
    /// The partitions. `messages` and `loaded_rows` are those that are intact.
    pub partitions: Vec<SalvagedPartition>,
}

/// Checks the namespace at `path`. No process may have it open.
pub fn verify(path: &Path) -> Result<Verified> {
    let partitions = partitions_of(path)?;
    // The lock keeps other processes from writing there.
    let _owner = own(path)?;
    let unreadable = |error: std::io::Error| storage_error(path, "read", error);
    let (mut store, mut contents, mut catalog) = (None, None, Vec::new());
    match Catalog::read(&ReadOnlyDisk, path) {
        Ok(Some((read, bytes))) => {
            store = Some(read.store());
            match CatalogContents::decode(&bytes) {
                Ok(decoded) => contents = Some(decoded),
                Err(error) => catalog.push(format!("its content is damaged: {}", error.detail())),
            }
        }
        Ok(None) => catalog.push("it is missing".to_owned()),
        Err(error) => catalog.push(format!("it cannot be read: {error}")),
    }
    let mut found = Vec::new();
    for partition in 0..partitions {
        let mut read = ReadShard::of(path, partition);
        store = store.or(read.store);
        if let Some(contents) = &contents {
            read.state.retain(|entity| contents.has(entity));
        }
        found.push(SalvagedPartition {
            partition,
            messages: messages_of(&read.state),
            loaded_rows: 0,
            is_whole: read.losses.is_empty(),
            losses: read.losses,
        });
    }
    let mut stages = Vec::new();
    if let Some(store) = store {
        for report in &mut found {
            let loads = attached_dir(path, report.partition);
            let checked = check_files(&loads, store, "bulk load").map_err(unreadable)?;
            report.loaded_rows = checked.rows;
            report.is_whole &= checked.losses.is_empty();
            report.losses.extend(checked.losses);
        }
        stages = check_files(&stages_dir(path), store, "stage")
            .map_err(unreadable)?
            .losses;
    }
    Ok(Verified {
        catalog,
        stages,
        partitions: found,
    })
}
