// SPDX-License-Identifier: Apache-2.0
//! Accepting connections: how many there may be, and waiting for their end.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{Shutdown, shutdown};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

/// After the system refused a connection for want of files or memory.
const PAUSE: Duration = Duration::from_millis(50);

/// The places of all connections of a server.
#[derive(Clone)]
pub(crate) struct Places {
    free: Arc<Semaphore>,
    all: u32,
}

impl Places {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(max)),
            all: u32::try_from(max).expect("few"),
        }
    }

    /// Returns when no connection is left. None may be accepted afterwards.
    pub(crate) async fn until_empty(&self) {
        let _ended = self.free.acquire_many(self.all).await;
    }
}

/// Accepts connections until `stopped`; each is handled by a task of its own.
pub(crate) async fn accept<F: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    places: Places,
    mut stopped: watch::Receiver<bool>,
    handle: impl Fn(TcpStream, SocketAddr) -> F,
) {
    loop {
        let accepted = async {
            // Who comes when all places are taken waits in the system's queue.
            let free = Arc::clone(&places.free);
            let place = free.acquire_owned().await.expect("it is never closed");
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            () = until_stopped(&mut stopped) => break,
            accepted = accepted => accepted,
        };
        let Ok((socket, peer)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let _ = socket.set_nodelay(true);
        let handling = handle(socket, peer);
        tokio::spawn(async move {
            handling.await;
            drop(place);
        });
    }
    // A forked child may have the same socket still; this ends it for all.
    let _ = shutdown(&listener, Shutdown::Both);
}

/// Returns when the server is to end.
pub(crate) async fn until_stopped(stopped: &mut watch::Receiver<bool>) {
    // An error says that the server is gone, which is an end too.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}
