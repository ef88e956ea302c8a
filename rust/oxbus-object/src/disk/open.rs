// SPDX-License-Identifier: Apache-2.0
//! Opening a namespace in a store: creating it, or taking it over from an owner that left or is gone.
//!
//! To take over: end the lane of the owner with a fence, read its last checkpoint and the objects after it, store a
//! checkpoint of the result, and replace the manifest. If the manifest has changed meanwhile, all of that is done again,
//! with another name of the checkpoint, because what was stored for a takeover that failed may be deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use oxbus_blob::{BlobError, BlobStore, ProbeError};
use oxbus_log::event;
use oxbus_model::sync::ignore_poison;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::JoinSet;

use super::cache::Cache;
use super::driver::write_lane;
use super::file_map::FileMap;
use super::holder::{Holder, LEASE};
use super::manifest::{MANIFEST, Manifest, OwnerInfo};
use super::object::{self, DataObject, HEADER_BYTES, LaneObject};
use super::pace::DEPTH;
use super::place::{LaneId, ObjectKey, Place};
use super::requests::{create_answer, look, read_object, repeat};
use super::state::SharedState;
use super::wait::{Owned, wait_until_gone};
use super::{LaneDisk, LaneDiskOptions, READS, Shared, Takeover};
use crate::lane::{LaneSealer, ObjectNumber, SealRequest};

/// How long to try each request of an open.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a standby waits before it asks a store again that does not answer.
const STANDBY_PAUSE: Duration = Duration::from_secs(1);
/// Requests to the upkeep that may wait.
const REQUESTS: usize = 8;

/// The lanes of the disks that are open in this process. Consistent after a panic: a set changes in one step.
static HELD: Mutex<BTreeSet<LaneId>> = Mutex::new(BTreeSet::new());

pub(super) fn forget(lane: LaneId) {
    ignore_poison(HELD.lock()).remove(&lane);
}

/// True if a disk of this process has the lane.
pub(super) fn is_held(lane: LaneId) -> bool {
    ignore_poison(HELD.lock()).contains(&lane)
}

/// Why a namespace in a store could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// Another process has it.
    InUse(OwnerInfo),
    /// A request to the store failed.
    Store(BlobError),
    /// An object is damaged. The text says which, and what to do.
    Damaged(String),
    /// The URL or an option is wrong. The text says what to change.
    Options(String),
    /// The store does not keep the rules.
    Unfit(ProbeError),
    /// A thread or a random number could not be had.
    Io(io::Error),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse(owner) => {
                let OwnerInfo { host, pid, .. } = owner;
                write!(f, "the namespace is in use by the process with pid {pid} on {host}")
            }
            Self::Store(error) => error.fmt(f),
            Self::Damaged(what) | Self::Options(what) => f.write_str(what),
            Self::Unfit(error) => error.fmt(f),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<BlobError> for OpenError {
    fn from(error: BlobError) -> Self {
        Self::Store(error)
    }
}

/// What an open found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Opened {
    /// True if the owner before had not left: its lane was ended.
    pub took_over: bool,
    /// Objects that were read after the checkpoint.
    pub objects: usize,
}

/// The key of the checkpoint of a lane.
pub(super) fn checkpoint_key(lane: LaneId, floor: ObjectNumber) -> String {
    format!("checkpoints/{lane}-{:012}", floor.0)
}

/// What a new owner begins with.
struct Acquired {
    map: FileMap,
    holder: Holder,
    lane: LaneId,
    lease_until: u64,
    /// Payloads that were read, for the cache.
    payloads: Vec<(ObjectKey, Bytes)>,
    opened: Opened,
}

/// True if there is a namespace in the store of a URL.
pub fn has_namespace(url: &str, store_options: &[(String, String)]) -> Result<bool, OpenError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(OpenError::Io)?.block_on(async {
        let store = oxbus_blob::open(url, store_options).await;
        let store = store.map_err(|error| OpenError::Options(error.to_string()))?;
        match repeat(PATIENCE, || store.read(MANIFEST)).await {
            Ok(_) => Ok(true),
            Err(BlobError::Missing) => Ok(false),
            Err(error) => Err(error.into()),
        }
    })
}

/// Gives the store of a disk, once its thread runs.
type Connect = Box<dyn FnOnce() -> Connected + Send>;
/// The store, or why there is none.
type Connected = Pin<Box<dyn Future<Output = Result<Arc<dyn BlobStore>, OpenError>> + Send>>;

/// An open that may take long. Dropping it gives it up.
#[derive(Debug)]
pub struct Opening {
    started: std::sync::mpsc::Receiver<Started>,
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl Opening {
    fn start(connect: Connect, options: LaneDiskOptions) -> Result<Self, OpenError> {
        let stop = Arc::new(Notify::new());
        let (sender, started) = std::sync::mpsc::sync_channel(1);
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("oxbus-lane".to_owned());
        let thread = thread.spawn(move || {
            let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = match built {
                Ok(runtime) => runtime,
                Err(error) => {
                    // Nobody waits if the open was given up.
                    let _ = sender.send(Err(OpenError::Io(error)));
                    return;
                }
            };
            runtime.block_on(async {
                let opened = async {
                    let store = connect().await?;
                    let acquired = acquire(&*store, &options).await?;
                    Ok((store, acquired))
                };
                tokio::select! {
                    biased;
                    () = stopped.notified() => {}
                    opened = opened => match opened {
                        Err(error) => {
                            let _ = sender.send(Err(error));
                        }
                        Ok((store, acquired)) => run(store, options, acquired, &stopped, &sender).await,
                    }
                }
            });
            // Requests that hang must not keep the caller.
            runtime.shutdown_background();
        });
        Ok(Self {
            started,
            stop,
            thread: Some(thread.map_err(OpenError::Io)?),
        })
    }

    /// Waits for the disk, up to `patience`. Returns `None` if it is not open by then.
    pub fn wait(&mut self, patience: Duration) -> Option<Result<(LaneDisk, Opened), OpenError>> {
        let started = match self.started.recv_timeout(patience) {
            Ok(started) => started,
            Err(RecvTimeoutError::Timeout) => return None,
            Err(RecvTimeoutError::Disconnected) => {
                Err(OpenError::Io(io::Error::other("the thread of the store ended")))
            }
        };
        Some(started.map(|(shared, requests, opened)| {
            let disk = LaneDisk {
                root: shared.store.url().trim_end_matches('/').to_owned(),
                shared,
                requests,
                thread: Mutex::new(self.thread.take()),
                stop: Arc::clone(&self.stop),
                pid: std::process::id(),
            };
            (disk, opened)
        }))
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.stop.notify_one();
            // It panics only with the store's code; nothing is left to do.
            let _ = thread.join();
        }
    }
}

impl LaneDisk {
    /// Opens the namespace in a store, or creates it. Its paths begin with the store's URL.
    pub fn open(store: Arc<dyn BlobStore>, options: LaneDiskOptions) -> Result<(Self, Opened), OpenError> {
        let mut opening = Opening::start(Box::new(|| Box::pin(async { Ok(store) })), options)?;
        loop {
            if let Some(opened) = opening.wait(PATIENCE) {
                return opened;
            }
        }
    }

    /// Begins to open the namespace in the store of a URL, whose rules it checks first. `store_options` are those of
    /// [`oxbus_blob::open`].
    pub fn begin_open(
        url: &str,
        store_options: Vec<(String, String)>,
        options: LaneDiskOptions,
    ) -> Result<Opening, OpenError> {
        let url = url.to_owned();
        let waits = options.takeover == Takeover::WhenGone;
        let connect = move || -> Connected {
            Box::pin(async move {
                let store = oxbus_blob::open(&url, &store_options).await;
                let store = store.map_err(|error| OpenError::Options(error.to_string()))?;
                let salt = LaneId::random().map_err(OpenError::Io)?.to_string();
                loop {
                    match oxbus_blob::probe(&*store, &salt).await {
                        Ok(()) => return Ok(store),
                        // A standby waits for the store, too.
                        Err(ProbeError::Request(_, error)) if waits && error.is_unknown() => {
                            tokio::time::sleep(STANDBY_PAUSE).await;
                        }
                        Err(ProbeError::Request(_, error)) => return Err(error.into()),
                        Err(error) => return Err(OpenError::Unfit(error)),
                    }
                }
            })
        };
        Opening::start(Box::new(connect), options)
    }

    /// Where the namespace is, as a URL without credentials: what its paths begin with.
    pub fn root(&self) -> &str {
        &self.root
    }
}

type Started = Result<(Arc<Shared>, mpsc::Sender<super::Request>, Opened), OpenError>;

/// Runs the disk until it is stopped.
async fn run(
    store: Arc<dyn BlobStore>,
    options: LaneDiskOptions,
    acquired: Acquired,
    stopped: &Notify,
    started: &std::sync::mpsc::SyncSender<Started>,
) {
    let lane = acquired.lane;
    ignore_poison(HELD.lock()).insert(lane);
    let state = SharedState::new(acquired.map, lane, DEPTH);
    state.lock().lease_until = acquired.lease_until;
    let shared = Arc::new(Shared {
        store,
        lane,
        state,
        work: Notify::new(),
        upkeep: Notify::new(),
        cache: Mutex::new(Cache::new(options.cache_bytes)),
        options,
        runtime: tokio::runtime::Handle::current(),
        reads: Semaphore::new(READS),
        trouble: Mutex::new(None),
    });
    for (object, payload) in acquired.payloads {
        ignore_poison(shared.cache.lock()).add(Place { object, offset: 0 }, payload);
    }
    if acquired.opened.took_over {
        let (url, objects) = (shared.store.url(), acquired.opened.objects);
        event!(NAMESPACE_TAKEN, objects, url = %url);
    }
    let (sender, requests) = mpsc::channel(REQUESTS);
    let driver = tokio::spawn(write_lane(Arc::clone(&shared)));
    let upkeep = tokio::spawn(super::upkeep::keep(Arc::clone(&shared), acquired.holder, requests));
    // The caller waits for this.
    let _ = started.send(Ok((shared, sender, acquired.opened)));
    stopped.notified().await;
    driver.abort();
    upkeep.abort();
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

async fn acquire(store: &dyn BlobStore, options: &LaneDiskOptions) -> Result<Acquired, OpenError> {
    loop {
        let found = match repeat(PATIENCE, || store.read(MANIFEST)).await {
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
        let Some(owned) = wait_until_gone(store, owned, options.takeover).await? else {
            continue;
        };
        if let Some(acquired) = take_over(store, owned).await? {
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
async fn take_over(store: &dyn BlobStore, owned: Owned) -> Result<Option<Acquired>, OpenError> {
    let Owned { manifest, version } = owned;
    let lane = manifest.lane();
    let mut objects = read_objects(store, lane, manifest.floor(), manifest.released_at).await?;
    let end = match manifest.released_at {
        Some(end) => ObjectNumber(end),
        None => match seal(store, &manifest, &mut objects).await? {
            Some(end) => end,
            None => return Ok(None),
        },
    };
    let mut map = match &manifest.checkpoint {
        None => FileMap::default(),
        Some(key) => match repeat(PATIENCE, || store.read(key)).await {
            Ok(blob) => FileMap::decode(&blob.bytes)
                .ok_or_else(|| OpenError::Damaged(format!("the object {key} is damaged; restore it from a copy")))?,
            // A newer checkpoint has replaced it.
            Err(BlobError::Missing) if has_changed(store, &version).await? => return Ok(None),
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
            if has_changed(store, &version).await? {
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
    match repeat(PATIENCE, || store.create(&key, bytes.clone())).await {
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
    Ok(holder.take(store, next, PATIENCE).await?.map(|lease_until| Acquired {
        map,
        holder,
        lane: new_lane,
        lease_until,
        payloads,
        opened,
    }))
}

async fn has_changed(store: &dyn BlobStore, version: &oxbus_blob::Version) -> Result<bool, OpenError> {
    let now = repeat(PATIENCE, || store.read(MANIFEST)).await?;
    Ok(now.version != *version)
}

/// Reads the data objects of a lane from the floor on, up to its end or the first missing number.
async fn read_objects(
    store: &dyn BlobStore,
    lane: LaneId,
    floor: ObjectNumber,
    end: Option<u64>,
) -> Result<BTreeMap<ObjectNumber, DataObject>, OpenError> {
    let mut objects = BTreeMap::new();
    let mut next = floor.0;
    loop {
        let upto = end.unwrap_or(u64::MAX).min(next + READS as u64);
        let numbers: Vec<ObjectNumber> = (next..upto).map(ObjectNumber).collect();
        let reads = numbers
            .iter()
            .map(|number| repeat(PATIENCE, || read_object(store, lane, *number)));
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

/// Runs some requests at once.
async fn join_all<T>(futures: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut running: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        let mut is_ready = true;
        for (future, answer) in &mut running {
            if answer.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(found) => *answer = Some(found),
                    std::task::Poll::Pending => is_ready = false,
                }
            }
        }
        if is_ready {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    running.into_iter().filter_map(|(_, answer)| answer).collect()
}

/// Ends the lane of the owner of a manifest. Adds the objects that appeared meanwhile. Returns `None` if the manifest
/// has changed.
async fn seal(
    store: &dyn BlobStore,
    manifest: &Manifest,
    objects: &mut BTreeMap<ObjectNumber, DataObject>,
) -> Result<Option<ObjectNumber>, OpenError> {
    let lane = manifest.lane();
    let mut sealer = LaneSealer::default();
    loop {
        match sealer.request() {
            SealRequest::ReadFloor => {
                let blob = repeat(PATIENCE, || store.read(MANIFEST)).await?;
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
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
            SealRequest::Look(number) => {
                let found = repeat(PATIENCE, || look(store, lane, number)).await?;
                if found == crate::lane::Found::Data
                    && let LaneObject::Data(object) = repeat(PATIENCE, || read_object(store, lane, number)).await?
                {
                    objects.insert(number, object);
                }
                sealer.looked(found);
            }
            SealRequest::Sealed(end) => return Ok(Some(end)),
        }
    }
}

/// The keys of checkpoints and objects that the files of this owner do not need, for [`super::upkeep`] to delete.
pub(super) async fn leftovers(shared: &Shared, checkpoint: Option<&str>) -> Vec<String> {
    let mut found = Vec::new();
    if let Ok(listing) = shared.store.list("checkpoints/").await {
        let keys = listing.into_iter().map(|it| it.key);
        found.extend(keys.filter(|key| Some(key.as_str()) != checkpoint));
    }
    let Ok(listing) = shared.store.list("lanes/").await else {
        return found;
    };
    let state = shared.state.lock();
    let needed: BTreeSet<String> = {
        let name = |key: ObjectKey| Some(state.map.lane(key.lane())?.key(key.number()));
        state.map.objects().filter_map(|(key, _)| name(key)).collect()
    };
    let own = format!("lanes/{}/", shared.lane);
    // A fence has only a header. It stays for ever.
    let is_fence = |bytes: u64| bytes == HEADER_BYTES as u64;
    let unneeded = listing
        .into_iter()
        .filter(|it| !is_fence(it.bytes) && !it.key.starts_with(&own) && !needed.contains(&it.key));
    found.extend(unneeded.map(|it| it.key));
    found
}

/// Deletes blobs. What fails is found again at the next open.
pub(super) async fn delete_all(shared: &Arc<Shared>, keys: Vec<String>) {
    let mut running = JoinSet::new();
    for key in keys {
        if running.len() == READS / 2 {
            running.join_next().await;
        }
        let shared = Arc::clone(shared);
        running.spawn(async move { shared.store.delete(&key).await });
    }
    while running.join_next().await.is_some() {}
}
