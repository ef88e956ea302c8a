// SPDX-License-Identifier: Apache-2.0
//! Holding the namespace: the manifest of this owner, which it replaces to show that it lives.
//!
//! The lease counts from before a replacement is sent. It guards only what is not durable; durable changes are guarded
//! by the lane.

use std::time::Duration;

use oxbus_blob::{BlobError, BlobStore, Version};

use super::manifest::{MANIFEST, Manifest};
use super::requests::{Backoff, Patience, pause, repeat};

/// For how long nobody else takes over after the manifest was replaced.
pub(super) const LEASE: Duration = Duration::from_secs(6);

/// Why the manifest was not replaced.
#[derive(Debug)]
pub(super) enum HoldError {
    /// It names another owner.
    TakenOver(Manifest),
    /// It is gone or damaged.
    Damaged(String),
}

/// The manifest as this owner stored it last.
#[derive(Debug)]
pub(super) struct Holder {
    /// What it says.
    pub(super) manifest: Manifest,
    version: Version,
}

impl Holder {
    /// The holder of a manifest that is stored.
    pub(super) fn new(manifest: Manifest, version: Version) -> Self {
        Self { manifest, version }
    }

    /// Replaces the manifest, and repeats that until the store answers. Returns until when this owner has the
    /// lease. `trouble` gets each error of the store, and says whether to go on.
    pub(super) async fn replace(
        &mut self,
        store: &dyn BlobStore,
        mut next: Manifest,
        retry_pause: Duration,
        mut trouble: impl FnMut(Option<&BlobError>),
    ) -> Result<u64, HoldError> {
        next.beat = self.manifest.beat + 1;
        let bytes = next.encode();
        let first_sent = oxbus_system::awake_ms();
        let mut backoff = Backoff::new(retry_pause);
        loop {
            let answer = store.swap(MANIFEST, bytes.clone(), &self.version).await;
            let answer = match answer {
                Err(BlobError::Changed | BlobError::Missing) => self.look(store, &next).await?,
                Ok(version) => Ok(Some(version)),
                Err(error) => Err(error),
            };
            match answer {
                Ok(Some(version)) => {
                    trouble(None);
                    (self.manifest, self.version) = (next, version);
                    return Ok(first_sent + LEASE.as_millis() as u64);
                }
                Ok(None) => {}
                Err(error) => {
                    trouble(Some(&error));
                    pause(backoff.next()).await;
                }
            }
        }
    }

    /// Replaces the manifest of another owner. Returns until when this owner has the lease, or `None` if the manifest
    /// has changed.
    pub(super) async fn take(
        &mut self,
        store: &dyn BlobStore,
        next: Manifest,
        patience: Patience,
    ) -> Result<Option<u64>, BlobError> {
        let bytes = next.encode();
        let first_sent = oxbus_system::awake_ms();
        let answer = repeat(patience, || store.swap(MANIFEST, bytes.clone(), &self.version)).await;
        let version = match answer {
            Ok(version) => version,
            Err(BlobError::Changed) => {
                let blob = repeat(patience, || store.read(MANIFEST)).await?;
                // The name of the lane is random: only an earlier attempt of this owner is equal.
                if blob.bytes != bytes {
                    return Ok(None);
                }
                blob.version
            }
            Err(error) => return Err(error),
        };
        (self.manifest, self.version) = (next, version);
        Ok(Some(first_sent + LEASE.as_millis() as u64))
    }

    /// Looks why the manifest has another version. Returns its version if it is what was to be stored.
    async fn look(
        &mut self,
        store: &dyn BlobStore,
        next: &Manifest,
    ) -> Result<Result<Option<Version>, BlobError>, HoldError> {
        let blob = match store.read(MANIFEST).await {
            Ok(blob) => blob,
            Err(BlobError::Missing) => {
                return Err(HoldError::Damaged("its manifest is gone".to_owned()));
            }
            Err(error) => return Ok(Err(error)),
        };
        let found = Manifest::decode(&blob.bytes).map_err(HoldError::Damaged)?;
        if !found.is_of(next) {
            return Err(HoldError::TakenOver(found));
        }
        if found == *next {
            return Ok(Ok(Some(blob.version)));
        }
        // An earlier attempt of this owner whose answer was lost.
        self.version = blob.version;
        Ok(Ok(None))
    }
}
