// SPDX-License-Identifier: Apache-2.0
//! The catalog of an open namespace: its file and its contents, which change together.
//!
//! Each change is one record. The catalog is written as a whole only once its records are longer than its content,
//! after a failed write, and at close.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, TryLockError};

use oxbus_model::{Effect, Error, ErrorKind, IdentityKey, Result};
use oxbus_store::disk::Disk;
use oxbus_store::file::{Catalog, CatalogFailure};
use oxbus_store::shard_log::ShardLog;

use super::Stores;
use super::inspect::{FoundCatalog, find_catalog, unreadable_catalog};
use super::open::storage_error;
use super::store::guard;
use crate::catalog::{CatalogChange, CatalogContents, FencedEntry};
use crate::write::UnconfirmedEntry;

/// The catalog file and its contents.
pub(super) struct HeldCatalog {
    pub(super) file: Catalog,
    pub(super) contents: CatalogContents,
    /// Bytes of an incomplete last record when the file was read.
    torn_bytes: u64,
}

impl HeldCatalog {
    /// Decodes a catalog that was found.
    pub(super) fn of((file, bytes): FoundCatalog) -> Result<Self> {
        Ok(Self {
            contents: CatalogContents::decode(&bytes)?,
            torn_bytes: bytes.torn_bytes,
            file,
        })
    }

    /// Reads the catalog again if it changed before this process owned its partitions, and makes it durable. Cuts an
    /// incomplete last record if this process owns the catalog; another owner may be writing it. Returns the bytes cut.
    pub(super) fn finish_open(&mut self, disk: &Arc<dyn Disk>, dir: &Path, owns_all: bool) -> Result<u64> {
        let failed = |error| storage_error(dir, "opened", error);
        if self.file.has_changed(&**disk, dir).map_err(failed)? {
            let found = find_catalog(&**disk, dir)?;
            *self = Self::of(found.ok_or_else(|| unreadable_catalog(dir, "is missing"))?)?;
        }
        let torn_bytes = if owns_all { self.torn_bytes } else { 0 };
        // On a full disk the record stays, and the next change tries again.
        if torn_bytes == 0 || self.file.rewrite(&**disk, dir, &self.contents.encode()).is_err() {
            // The last owner may have ended before it synced its last change, on which this process builds.
            Catalog::sync(&**disk, dir).map_err(failed)?;
        }
        Ok(torn_bytes)
    }
}

impl Stores {
    /// The store id, which the files of the namespace carry.
    pub fn id(&self) -> [u8; 16] {
        guard(&self.catalog).file.store()
    }

    /// The key of the identity hash.
    pub fn identity_key(&self) -> IdentityKey {
        let held = guard(&self.catalog);
        held.contents.identity_key(held.file.store())
    }

    /// Takes the number of a new entity. A number whose entity is not created is never used.
    pub fn take_entity_number(&self) -> u64 {
        let next = &mut guard(&self.catalog).contents.next_entity;
        *next += 1;
        *next - 1
    }

    /// Calls `read` with the contents as this process knows them.
    pub fn with_contents<T>(&self, read: impl FnOnce(&CatalogContents) -> T) -> T {
        read(&guard(&self.catalog).contents)
    }

    /// Changes the catalog. `make` returns the change, or `None` if there is nothing to do. The change is durable when
    /// this returns. If it fails, the contents stay as they were; but if it is in doubt whether entities were deleted,
    /// they no longer exist here, so that nothing is acknowledged that the next open may not find.
    pub fn change(&self, make: impl FnOnce(&CatalogContents) -> Option<CatalogChange>) -> Result<()> {
        self.check_owns_all()?;
        let mut held = guard(&self.catalog);
        if self.closed.load(Ordering::Relaxed) {
            let detail = "the namespace was closed; open it again and make new handles";
            return Err(Error::new(ErrorKind::Closed, detail));
        }
        let Some(change) = make(&held.contents) else {
            return Ok(());
        };
        let written = self.record(&mut held, &change);
        let is_in_doubt = matches!(&written, Err(failure) if failure.is_in_doubt);
        if written.is_ok() || (is_in_doubt && change.is_removal()) {
            held.contents.apply(change);
        }
        if written.is_ok() && held.file.is_long() {
            // The change is durable. If this fails, a later change tries again.
            let _ = self.rewrite(&mut held);
        }
        written.map_err(|failure| self.unwritten(failure))
    }

    /// The bytes of the catalog's file without records, and what `note` returns while the catalog cannot change. `None`
    /// if a change is being written, or if `note` returns `None`.
    pub fn try_copy_catalog<T>(&self, note: impl FnOnce() -> Option<T>) -> Option<io::Result<(Vec<u8>, T)>> {
        let held = match self.catalog.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(held)) => held.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let noted = note()?;
        let bytes = held.file.encode_copy(&held.contents.encode());
        Some(bytes.map(|bytes| (bytes, noted)))
    }

    fn record(&self, held: &mut HeldCatalog, change: &CatalogChange) -> std::result::Result<(), CatalogFailure> {
        if held.file.needs_rewrite() {
            self.rewrite(held).map_err(|error| CatalogFailure {
                error,
                is_in_doubt: false,
            })?;
        }
        held.file.append(&*self.disk, &self.dir, &change.encode())
    }

    /// Writes the contents as a whole.
    fn rewrite(&self, held: &mut HeldCatalog) -> io::Result<()> {
        let content = held.contents.encode();
        held.file.rewrite(&*self.disk, &self.dir, &content)
    }

    fn unwritten(&self, CatalogFailure { error, is_in_doubt }: CatalogFailure) -> Error {
        let detail = format!(
            "the catalog could not be written ({error}); check its disk and try again: `{}`",
            Catalog::path(&self.dir).display()
        );
        let effect = if is_in_doubt { Effect::Unknown } else { Effect::None };
        Error::new(ErrorKind::Storage, detail)
            .with_effect(effect)
            .with_source(error)
    }

    /// Writes the catalog as a whole before the namespace closes, so that one checksum covers it.
    pub(super) fn settle_catalog(&self, held: &mut HeldCatalog) {
        let is_settled = !held.file.has_records() && !held.file.needs_rewrite();
        if self.owns_all() && !is_settled && !self.disk.may_hang() {
            // If it fails, the next open reads the records.
            let _ = self.rewrite(held);
        }
    }

    /// Fences an unconfirmed entry, so that no recovery applies it. The fence is durable when this returns.
    pub fn fence(&self, partition: u16, late: UnconfirmedEntry) -> Result<()> {
        let (epoch, lsn) = (late.epoch, late.lsn.0);
        self.change(|_| Some(CatalogChange::Fence(FencedEntry { partition, epoch, lsn })))
    }

    /// Removes the fences of a partition that its newest snapshot made obsolete.
    pub fn forget_fenced(&self, partition: u16) {
        let Some(shard) = self.shard(partition) else { return };
        let epoch = shard.log().epoch();
        let is_over = |it: &FencedEntry| it.partition == partition && it.epoch < epoch;
        // If it fails, a later call removes them.
        let _ = self.change(|contents| {
            let has_old = contents.fenced.iter().any(is_over);
            has_old.then_some(CatalogChange::ForgetFences { partition, epoch })
        });
    }

    /// Reads the catalog again if another process has changed it, and returns its contents in that case.
    pub fn reread(&self) -> Option<CatalogContents> {
        let mut held = guard(&self.catalog);
        let has_changed = || held.file.has_changed(&*self.disk, &self.dir);
        if self.owns_all() || !has_changed().unwrap_or(false) {
            return None;
        }
        let found = Catalog::read(&*self.disk, &self.dir).ok().flatten()?;
        let found = HeldCatalog::of(found).ok()?;
        // What this process stores for a new entity must not outlive the entity after a power loss.
        Catalog::sync(&*self.disk, &self.dir).ok()?;
        *held = found;
        Some(held.contents.clone())
    }
}
