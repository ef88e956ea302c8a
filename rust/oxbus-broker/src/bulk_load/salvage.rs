// SPDX-License-Identifier: Apache-2.0
//! Copies the attached rows of a damaged namespace into its salvaged copy.
//!
//! Files keep their number and the name of their rows, so the copy takes them over as the original would, and skips
//! rows that are already in its journals. Runs that fail their checksum are left out and counted.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use oxbus_store::disk::Disk;
use oxbus_store::file::{ReadOnlyDisk, StageFile, StageHeader, StageNames, StageWriter, stage_path};

use super::{attached_at, attached_dir};
use crate::durable::shard_dir;
use crate::stage::read_run;

/// The attached files of one partition of a damaged namespace.
pub(crate) struct WaitingLoads<'a> {
    from: &'a Path,
    partition: u16,
    /// Store id of the damaged namespace.
    store: [u8; 16],
    names: StageNames,
}

/// Result of copying the attached files of a partition.
#[derive(Debug, Default)]
pub(crate) struct CopiedLoads {
    /// Rows copied. The copy takes them over when it is opened.
    pub(crate) rows: u64,
    /// Descriptions of what could not be copied.
    pub(crate) losses: Vec<String>,
}

impl<'a> WaitingLoads<'a> {
    /// Lists the attached files. There may be none.
    pub(crate) fn find(from: &'a Path, partition: u16, store: [u8; 16]) -> io::Result<Self> {
        Ok(Self {
            from,
            partition,
            store,
            names: StageNames::list(&ReadOnlyDisk, &attached_dir(from, partition))?,
        })
    }

    /// The entities of the files whose header is readable.
    pub(crate) fn entities(&self) -> BTreeSet<u64> {
        let dir = attached_dir(self.from, self.partition);
        let numbers = self.names.finished.iter();
        let heads = numbers.filter_map(|number| StageFile::read_header(&ReadOnlyDisk, &dir, *number, self.store).ok());
        heads.map(|head| head.entity).collect()
    }

    /// Copies the intact rows of the entities for which `has` is true into the namespace at `to`, whose store id is
    /// `store`.
    pub(crate) fn copy(
        &self,
        disk: &Arc<dyn Disk>,
        to: &Path,
        store: [u8; 16],
        has: impl Fn(u64) -> bool,
    ) -> io::Result<CopiedLoads> {
        let (source, target) = (
            attached_dir(self.from, self.partition),
            attached_dir(to, self.partition),
        );
        let names: Vec<String> = match ReadOnlyDisk.list(&source) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(CopiedLoads::default()),
            names => names?.into_iter().filter(|name| attached_at(name).is_some()).collect(),
        };
        disk.create_dir(&target)?;
        for name in names {
            disk.create(&target.join(name))?;
        }
        let mut copied = CopiedLoads::default();
        for number in &self.names.finished {
            let file = match StageFile::open(&ReadOnlyDisk, &source, *number, self.store) {
                Ok(file) => file,
                Err(error) => {
                    let path = stage_path(&source, *number);
                    let loss = format!("the rows of a bulk load are lost: {error}: `{}`", path.display());
                    copied.losses.push(loss);
                    continue;
                }
            };
            // Rows of a deleted queue are dropped.
            if has(file.header().entity) {
                copy_file(&file, disk, &target, store, &mut copied)?;
            }
        }
        disk.sync_dir(&target)?;
        disk.sync_dir(&shard_dir(to, self.partition))?;
        Ok(copied)
    }
}

fn copy_file(
    file: &StageFile,
    disk: &Arc<dyn Disk>,
    target: &Path,
    store: [u8; 16],
    copied: &mut CopiedLoads,
) -> io::Result<()> {
    let head = StageHeader {
        store,
        ..file.header().clone()
    };
    let mut writer = StageWriter::create(disk, target, head)?;
    let mut lost = 0;
    for wanted in file.runs() {
        if let Some(payload) = read_run(file, *wanted) {
            writer.push_run(wanted.partition, wanted.rows, &payload)?;
            copied.rows += u64::from(wanted.rows);
        } else {
            lost += u64::from(wanted.rows);
        }
    }
    writer.finish(true)?;
    if lost > 0 {
        let loss = format!(
            "{lost} rows of the bulk load `{}` are lost; load them again under another name",
            file.header().id
        );
        copied.losses.push(loss);
    }
    Ok(())
}
