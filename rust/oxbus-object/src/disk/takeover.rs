// SPDX-License-Identifier: Apache-2.0
//! Acquiring a namespace in a store: creating it, or taking it over from an owner that left or is gone.
//!
//! To take over: end the lane of the owner with a fence, read its last checkpoint and the objects after it, store a
//! checkpoint of the result, and replace the manifest. If the manifest has changed meanwhile, all of that is done again,
//! with another name of the checkpoint, because what was stored for a takeover that failed may be deleted.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::future::join_all;
use oxbus_blob::{BlobError, BlobStore, Version};

use super::checkpoint::checkpoint_key;
use super::file_map::FileMap;
use super::holder::{Holder, LEASE};
use super::manifest::{MANIFEST, Manifest, OwnerInfo};
use super::object::{self, DataObject, HEADER_BYTES, LaneObject};
use super::open_error::{OpenError, Opened};
use super::place::{LaneId, ObjectKey};
use super::requests::{Backoff, Patience, create_answer, look, pause, read_object, repeat};
use super::wait::{Owned, wait_until_gone};
use super::{LaneDiskOptions, READS, Takeover};
use crate::lane::{Found, LaneSealer, ObjectNumber, SealRequest};

/// How far from the floor a taker first tries to stop an owner that lives; then twice as far, and so on.
const BAR_AHEAD: u64 = 16;

/// What a new owner begins with.
pub(super) struct Acquired {
    pub(super) map: FileMap,
    pub(super) holder: Holder,
    pub(super) lane: LaneId,
    pub(super) lease_until: u64,
    /// Payloads that were read, for the cache.
    pub(super) payloads: Vec<(ObjectKey, Bytes)>,
    pub(super) opened: Opened,
}

/// The mark of this process in a manifest.
fn this_process() -> OwnerInfo {
    OwnerInfo {
        host: oxbus_system::host_name(),
        pid: std::process::id(),
        mark: oxbus_system::process_mark(),
        address: None,
    }
}

pub(super) async fn acquire(store: &dyn BlobStore, options: &LaneDiskOptions) -> Result<Acquired, OpenError> {
    let patience = Patience::of_open(options.retry_pause);
    // The lane whose owner cannot go on.
    let mut stopped = None;
    loop {
        let found = match repeat(patience, || store.read(MANIFEST)).await {
            Ok(blob) => blob,
            Err(BlobError::Missing) => {
                if let Some(acquired) = create(store).await? {
                    return Ok(acquired);
                }
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let manifest = Manifest::decode(&found.bytes).map_err(OpenError::Damaged)?;
        let owned = Owned {
            manifest,
            version: found.version,
        };
        let Some(owned) = wait_until_gone(store, owned, options.takeover, patience).await? else {
            continue;
        };
        let lives = options.takeover == Takeover::AtOnce && owned.manifest.released_at.is_none();
        if lives && stopped != Some(owned.manifest.lane()) {
            set_bar(store, &owned.manifest, patience).await?;
            stopped = Some(owned.manifest.lane());
            // Its manifest may have changed before the owner came to the bar.
            continue;
        }
        if let Some(acquired) = take_over(store, owned, patience).await? {
            return Ok(acquired);
        }
    }
}

/// Creates a namespace, unless another process did so first.
async fn create(store: &dyn BlobStore) -> Result<Option<Acquired>, OpenError> {
    let lane = LaneId::random().map_err(OpenError::Io)?;
    let manifest = Manifest::new(1, lane, None, this_process());
    let sent = oxbus_system::awake_ms();
    match store.create(MANIFEST, manifest.encode()).await {
        Ok(version) => Ok(Some(Acquired {
            map: FileMap::default(),
            holder: Holder::new(manifest, version),
            lane,
            lease_until: sent + LEASE.as_millis() as u64,
            payloads: Vec::new(),
            opened: Opened::default(),
        })),
        // If this process created it and the answer was lost, it takes it over from itself.
        Err(BlobError::Exists) => Ok(None),
        Err(error) if error.is_unknown() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Takes a namespace over. Returns `None` if the manifest has changed meanwhile.
async fn take_over(store: &dyn BlobStore, owned: Owned, patience: Patience) -> Result<Option<Acquired>, OpenError> {
    let Owned { manifest, version } = owned;
    let lane = manifest.lane();
    let end = manifest.released_at.unwrap_or(u64::MAX);
    let mut objects = read_objects(store, lane, manifest.floor(), end, patience).await?;
    let end = match manifest.released_at {
        Some(end) => ObjectNumber(end),
        None => match seal(store, &manifest, &mut objects, patience).await? {
            Some(end) => end,
            None => return Ok(None),
        },
    };
    let mut map = match &manifest.checkpoint {
        None => FileMap::default(),
        Some(key) => match repeat(patience, || store.read(key)).await {
            Ok(blob) => FileMap::decode(&blob.bytes)
                .ok_or_else(|| OpenError::Damaged(format!("the object {key} is damaged; restore it from a copy")))?,
            // A newer checkpoint has replaced it.
            Err(BlobError::Missing) if has_changed(store, &version, patience).await? => return Ok(None),
            Err(BlobError::Missing) => {
                let detail = format!("the object {key} is missing; restore it from a copy");
                return Err(OpenError::Damaged(detail));
            }
            Err(error) => return Err(error.into()),
        },
    };
    let index = map.index_of(lane);
    let mut payloads = Vec::new();
    let mut number = manifest.floor();
    while number < end {
        let Some(object) = objects.remove(&number) else {
            if has_changed(store, &version, patience).await? {
                return Ok(None);
            }
            let key = lane.key(number);
            return Err(OpenError::Damaged(format!(
                "the object {key} is missing; restore it from a copy"
            )));
        };
        let key = ObjectKey::new(index, number);
        let wrong = |wrong| OpenError::Damaged(format!("the object {} is damaged: {wrong}", lane.key(number)));
        map.add_object(key, object.bytes.len());
        for change in object.changes().map_err(wrong)? {
            map.apply(&change, key);
        }
        payloads.push((key, object.bytes.slice(HEADER_BYTES..HEADER_BYTES + object.payload)));
        number = number.next();
    }
    let new_lane = LaneId::random().map_err(OpenError::Io)?;
    let key = checkpoint_key(new_lane, ObjectNumber(0));
    let bytes = Bytes::from(map.encode());
    match repeat(patience, || store.create(&key, bytes.clone())).await {
        // An earlier attempt whose answer was lost.
        Ok(_) | Err(BlobError::Exists) => {}
        Err(error) => return Err(error.into()),
    }
    let next = Manifest::new(manifest.epoch + 1, new_lane, Some(key), this_process());
    let mut holder = Holder::new(manifest.clone(), version);
    let opened = Opened {
        took_over: manifest.released_at.is_none(),
        objects: payloads.len(),
    };
    Ok(holder.take(store, next, patience).await?.map(|lease_until| Acquired {
        map,
        holder,
        lane: new_lane,
        lease_until,
        payloads,
        opened,
    }))
}

async fn has_changed(store: &dyn BlobStore, version: &Version, patience: Patience) -> Result<bool, OpenError> {
    let now = repeat(patience, || store.read(MANIFEST)).await?;
    Ok(now.version != *version)
}

/// Reads the data objects of a lane from the floor on, up to its end or the first missing number.
async fn read_objects(
    store: &dyn BlobStore,
    lane: LaneId,
    floor: ObjectNumber,
    end: u64,
    patience: Patience,
) -> Result<BTreeMap<ObjectNumber, DataObject>, OpenError> {
    let mut objects = BTreeMap::new();
    let mut next = floor.0;
    loop {
        let upto = end.min(next + READS as u64);
        let numbers: Vec<ObjectNumber> = (next..upto).map(ObjectNumber).collect();
        let reads = numbers
            .iter()
            .map(|number| repeat(patience, || read_object(store, lane, *number)));
        let mut is_end = numbers.is_empty();
        for (number, found) in numbers.iter().zip(join_all(reads).await) {
            match found {
                Ok(LaneObject::Data(object)) => {
                    objects.insert(*number, object);
                }
                Ok(LaneObject::Fence) | Err(BlobError::Missing) => {
                    is_end = true;
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        if is_end {
            return Ok(objects);
        }
        next = upto;
    }
}

/// Creates a fence further on than the owner is, which it cannot pass. Otherwise an owner that lives might create objects
/// faster than they are read here.
async fn set_bar(store: &dyn BlobStore, manifest: &Manifest, patience: Patience) -> Result<(), OpenError> {
    let lane = manifest.lane();
    let (mut floor, mut ahead) = (manifest.floor, BAR_AHEAD);
    loop {
        let number = ObjectNumber(floor + ahead);
        let (key, fence) = (lane.key(number), object::fence(lane, number));
        ahead *= 2;
        match repeat(patience, || store.create(&key, fence.clone())).await {
            Ok(_) => {}
            Err(BlobError::Exists) => continue,
            Err(error) => return Err(error.into()),
        }
        let blob = repeat(patience, || store.read(MANIFEST)).await?;
        let found = Manifest::decode(&blob.bytes).map_err(OpenError::Damaged)?;
        if !found.is_of(manifest) || found.floor <= number.0 {
            return Ok(());
        }
        // An object may have been deleted where the fence is, so the owner may have passed it.
        floor = found.floor;
    }
}

/// Ends the lane of the owner of a manifest. Adds the objects that appeared meanwhile. Returns `None` if the manifest
/// has changed.
async fn seal(
    store: &dyn BlobStore,
    manifest: &Manifest,
    objects: &mut BTreeMap<ObjectNumber, DataObject>,
    patience: Patience,
) -> Result<Option<ObjectNumber>, OpenError> {
    let lane = manifest.lane();
    let mut sealer = LaneSealer::default();
    let mut backoff = Backoff::new(patience.pause);
    loop {
        match sealer.request() {
            SealRequest::ReadFloor => {
                let blob = repeat(patience, || store.read(MANIFEST)).await?;
                let found = Manifest::decode(&blob.bytes).map_err(OpenError::Damaged)?;
                if !found.is_of(manifest) || found.floor != manifest.floor {
                    return Ok(None);
                }
                sealer.floor(found.floor());
                let mut seen = manifest.floor();
                while objects.contains_key(&seen) {
                    seen = seen.next();
                }
                sealer.saw_data_before(seen);
            }
            SealRequest::CreateFence(number) => {
                let key = lane.key(number);
                let created = store.create(&key, object::fence(lane, number)).await.map(drop);
                let (answer, trouble) = create_answer(created);
                sealer.fence_created(answer);
                if let Some(error) = trouble {
                    if !error.is_unknown() {
                        return Err(error.into());
                    }
                    pause(backoff.next()).await;
                }
            }
            SealRequest::Look(number) => {
                let found = repeat(patience, || look(store, lane, number)).await?;
                if found == Found::Data
                    && let LaneObject::Data(object) = repeat(patience, || read_object(store, lane, number)).await?
                {
                    objects.insert(number, object);
                }
                sealer.looked(found);
            }
            SealRequest::Sealed(end) => return Ok(Some(end)),
        }
    }
}
