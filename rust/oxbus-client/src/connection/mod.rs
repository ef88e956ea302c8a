// SPDX-License-Identifier: Apache-2.0
//! A connection: the engine behind a lock, and a task that moves its bytes.
//!
//! Callers command the engine and write on their own threads. The task reads, hands events to whom they concern, writes
//! what callers leave, and ends the connection. No lock is held while anybody waits.

mod batches;
mod core;
mod dispatch;
mod link;
mod requests;
mod results;
mod send;
mod settle;
mod task;
mod tokens;
mod writing;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

use oxbus_amqp::ClientEngine;
use oxbus_amqp::client::{ClientSettings, CommandError, SaslChoice};
use oxbus_model::sync::ignore_poison;
use tokio::sync::Notify;
use tokio::time::Instant;

use self::core::{Core, Phase};
pub(crate) use self::link::LinkHandle;
pub(crate) use self::requests::{RequestLink, RequestNode, lacks, properties, required};
pub(crate) use self::results::{SendResult, SettleResult};
pub(crate) use self::send::Transfer;
use self::tokens::Tokens;
use self::writing::{TaskWaker, Writer};
use crate::deadline::Deadline;
use crate::error::{ClientError, Result};
use crate::options::ClientOptions;
use crate::runtime;
use crate::transport::{self, TlsConfig};

static CONNECTIONS: AtomicU64 = AtomicU64::new(0);

/// A connection. It ends with `close`, or when the server or the network ends it.
pub(crate) struct Connection {
    /// Its number in the process.
    number: u64,
    options: Arc<ClientOptions>,
    /// A panic leaves it consistent enough to fail: the engine checks each command.
    core: Mutex<Core>,
    /// Held while bytes are written. `None` before the task begins, and after it ends.
    writer: Mutex<Option<Writer>>,
    /// Wakes the task to write, or to end.
    wake: Arc<Notify>,
    /// The same, for the socket.
    task_waker: Waker,
    /// Wakes those who wait for the connection to open.
    changed: Notify,
    started: Instant,
    tokens: tokio::sync::Mutex<Tokens>,
}

impl Connection {
    /// Connects and opens a connection with one session.
    pub(crate) async fn open(options: Arc<ClientOptions>, tls: Option<TlsConfig>) -> Result<Arc<Self>> {
        let deadline = Deadline::after(Some(options.connect_timeout));
        let stream = deadline
            .within("connecting to the server", transport::connect(&options, tls.as_ref()))
            .await?;
        let settings = ClientSettings {
            container_id: options.identifier.as_str().into(),
            hostname: Some(options.host.as_str().into()),
            sasl: SaslChoice::Anonymous,
            properties: options.properties.clone(),
            ..ClientSettings::default()
        };
        let mut engine = ClientEngine::new(settings, 0);
        let session = engine.begin().map_err(unusable)?;
        let wake = Arc::new(Notify::new());
        let connection = Arc::new(Self {
            number: CONNECTIONS.fetch_add(1, Ordering::Relaxed),
            options,
            core: Mutex::new(Core::new(engine, session)),
            writer: Mutex::new(None),
            task_waker: Waker::from(Arc::new(TaskWaker(Arc::clone(&wake)))),
            wake,
            changed: Notify::new(),
            started: Instant::now(),
            tokens: tokio::sync::Mutex::new(Tokens::default()),
        });
        runtime::spawn(task::run(Arc::clone(&connection), stream))?;
        let opening = Opening(&connection);
        deadline
            .within("opening the connection", connection.until_open())
            .await?;
        std::mem::forget(opening);
        Ok(connection)
    }

    async fn until_open(&self) -> Result<()> {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            match &self.core().phase {
                Phase::Opening => {}
                Phase::Open => return Ok(()),
                Phase::Ended(error) => return Err(error.clone()),
            }
            changed.await;
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// True until the connection ends.
    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.core().phase, Phase::Ended(_))
    }

    /// True if the server offers an extension.
    pub(crate) fn offers(&self, extension: &str) -> bool {
        self.core().offered.iter().any(|offered| offered.as_str() == extension)
    }

    /// Closes the connection. The task writes the rest.
    pub(crate) fn close(&self) {
        let now = self.now();
        let mut core = self.core();
        core.engine.close(None, now);
        core.end(&ClientError::connection("the connection is closed"));
        let wakes = core.take_events(now);
        drop(core);
        self.notify(wakes);
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        ignore_poison(self.core.lock())
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Wakes the task, and those whose events arrived.
    fn notify(&self, wakes: Vec<Arc<Notify>>) {
        for link in wakes {
            link.notify_waiters();
        }
        self.changed.notify_waiters();
        self.wake.notify_one();
    }
}

/// Closes the connection when it is dropped: nobody waits for it any more.
struct Opening<'a>(&'a Connection);

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The error of a command that the engine refuses.
fn unusable(error: CommandError) -> ClientError {
    ClientError::connection(format!("the connection cannot be used; open another one: {error}"))
}
