// SPDX-License-Identifier: Apache-2.0
//! Whether the owner of a namespace is gone: it left, its process has ended, its server refuses connections, or it has
//! not shown for the time of a lease that it lives.

use std::collections::BTreeSet;
use std::io;
use std::sync::Mutex;
use std::time::Duration;

use oxbus_blob::{BlobError, BlobStore, Version};
use oxbus_model::sync::ignore_poison;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::Takeover;
use super::holder::LEASE;
use super::manifest::{MANIFEST, Manifest};
use super::open_error::OpenError;
use super::place::LaneId;
use super::requests::{Patience, repeat};

/// How often to look whether the owner is gone.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// How often to read the manifest.
const READ_INTERVAL: Duration = Duration::from_secs(1);
/// How long a connection to the owner may take.
const CONNECT_PATIENCE: Duration = Duration::from_millis(500);
/// Added to the lease for the difference between clocks.
const MARGIN: Duration = Duration::from_millis(500);

/// The lanes of the disks that are open in this process. Consistent after a panic: a set changes in one step.
static HELD: Mutex<BTreeSet<LaneId>> = Mutex::new(BTreeSet::new());

/// A disk of this process has the lane from now on.
pub(super) fn hold(lane: LaneId) {
    ignore_poison(HELD.lock()).insert(lane);
}

/// No disk of this process has the lane any more.
pub(super) fn forget(lane: LaneId) {
    ignore_poison(HELD.lock()).remove(&lane);
}

/// True if a disk of this process has the lane.
fn is_held(lane: LaneId) -> bool {
    ignore_poison(HELD.lock()).contains(&lane)
}

/// A manifest and its version.
#[derive(Debug, Clone)]
pub(super) struct Owned {
    /// What the manifest says.
    pub(super) manifest: Manifest,
    /// Its version.
    pub(super) version: Version,
}

/// Waits until the owner is gone. Unless it waits for as long as it takes, it fails as soon as the owner shows that it
/// lives. Returns `None` if the manifest is gone.
pub(super) async fn wait_until_gone(
    store: &dyn BlobStore,
    mut owned: Owned,
    takeover: Takeover,
    patience: Patience,
) -> Result<Option<Owned>, OpenError> {
    let waits = takeover == Takeover::WhenGone;
    let mut first_seen = Instant::now();
    let mut read_at = Instant::now() + READ_INTERVAL;
    loop {
        let manifest = &owned.manifest;
        let is_free = manifest.released_at.is_some() || takeover == Takeover::AtOnce;
        if is_free || is_gone(manifest).await {
            return Ok(Some(owned));
        }
        if is_held(manifest.lane()) && !waits {
            return Err(OpenError::InUse(manifest.owner.clone()));
        }
        if first_seen.elapsed() > LEASE + MARGIN {
            return Ok(Some(owned));
        }
        sleep(LOOK_INTERVAL).await;
        if Instant::now() < read_at {
            continue;
        }
        let blob = match repeat(patience, || store.read(MANIFEST)).await {
            Ok(blob) => blob,
            Err(BlobError::Missing) => return Ok(None),
            // Nobody can take over while the store does not answer, and the owner cannot show that it lives.
            Err(_) if waits => {
                first_seen = Instant::now();
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        read_at = Instant::now() + READ_INTERVAL;
        if blob.version != owned.version {
            let manifest = Manifest::decode(&blob.bytes).map_err(OpenError::Damaged)?;
            if !waits && manifest.released_at.is_none() {
                return Err(OpenError::InUse(manifest.owner));
            }
            owned = Owned {
                manifest,
                version: blob.version,
            };
            first_seen = Instant::now();
        }
    }
}

/// True if the owner certainly runs no more, or accepts no connection any more.
async fn is_gone(manifest: &Manifest) -> bool {
    let owner = &manifest.owner;
    if let Some(mark) = &owner.mark {
        let is_this_process = oxbus_system::process_mark().as_ref() == Some(mark);
        if oxbus_system::is_process_gone(mark) || (is_this_process && !is_held(manifest.lane())) {
            return true;
        }
    }
    let Some(address) = &owner.address else { return false };
    let connected = timeout(CONNECT_PATIENCE, TcpStream::connect(address)).await;
    matches!(connected, Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused)
}
