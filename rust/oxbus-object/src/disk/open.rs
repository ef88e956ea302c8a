// SPDX-License-Identifier: Apache-2.0
//! Opening a disk: its thread connects to the store, acquires the namespace (`takeover`), and then serves it.

use std::io;
use std::pin::Pin;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use oxbus_blob::{BlobError, BlobStore, ProbeError};
use oxbus_log::event;
use oxbus_model::sync::ignore_poison;
use tokio::sync::{Notify, Semaphore, mpsc};

use super::cache::Cache;
use super::driver::write_lane;
use super::manifest::MANIFEST;
use super::open_error::{OpenError, Opened};
use super::pace::DEPTH;
use super::place::{LaneId, Place};
use super::requests::{OPEN_PATIENCE, Patience, RETRY_PAUSE, repeat};
use super::state::SharedState;
use super::takeover::{Acquired, acquire};
use super::wait::hold;
use super::{LaneDisk, LaneDiskOptions, READS, Shared, Takeover};

/// How long a standby waits before it asks a store again that does not answer.
const STANDBY_PAUSE: Duration = Duration::from_secs(1);
/// Requests to the upkeep that may wait.
const REQUESTS: usize = 8;

/// True if there is a namespace in the store of a URL.
pub fn has_namespace(url: &str, store_options: &[(String, String)]) -> Result<bool, OpenError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(OpenError::Io)?.block_on(async {
        let store = oxbus_blob::open(url, store_options).await;
        let store = store.map_err(|error| OpenError::Options(error.to_string()))?;
        match repeat(Patience::of_open(RETRY_PAUSE), || store.read(MANIFEST)).await {
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
            if let Some(opened) = opening.wait(OPEN_PATIENCE) {
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
    hold(lane);
    let state = SharedState::new(acquired.map, lane, DEPTH);
    state.extend_lease(acquired.lease_until);
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
