// SPDX-License-Identifier: Apache-2.0
//! Accepting connections: how many there may be, and waiting for their end.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{Shutdown, shutdown};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

/// After the system refused a connection for want of files or memory.
const PAUSE: Duration = Duration::from_millis(50);

/// The places of all connections of a server.
#[derive(Clone)]
pub(crate) struct ConnectionPermits {
    semaphore: Arc<Semaphore>,
    max: u32,
}

impl ConnectionPermits {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            semaphore: Arc::new(Semaphore::new(max)),
            max: u32::try_from(max).expect("few"),
        }
    }

    /// Returns when no connection is left. None may be accepted afterwards.
    pub(crate) async fn wait_until_all_closed(&self) {
        let _ended = self.semaphore.acquire_many(self.max).await;
    }
}

/// Accepts connections until `stopped`; each is handled by a task of its own.
pub(crate) async fn accept<F: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    permits: ConnectionPermits,
    mut stopped: watch::Receiver<bool>,
    handle: impl Fn(TcpStream) -> F,
) {
    loop {
        let accepted = async {
            // Who comes when all places are taken waits in the system's queue.
            let semaphore = Arc::clone(&permits.semaphore);
            let permit = semaphore.acquire_owned().await.expect("it is never closed");
            (listener.accept().await, permit)
        };
        let (accepted, permit) = tokio::select! {
            () = until_stopped(&mut stopped) => break,
            accepted = accepted => accepted,
        };
        let Ok((socket, _)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let _ = socket.set_nodelay(true);
        let handling = handle(socket);
        tokio::spawn(async move {
            handling.await;
            drop(permit);
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::watch;

    use super::{ConnectionPermits, accept};

    #[tokio::test]
    async fn who_comes_when_all_places_are_taken_waits_for_one() {
        // B-044, SERVER_CONNECTIONS_MAX: a flood of connections takes no more than the places that there are.
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = watch::channel(false);
        let permits = ConnectionPermits::new(1);
        let echo = |mut socket: TcpStream| async move {
            let byte = socket.read_u8().await.unwrap_or_default();
            let _ = socket.write_u8(byte).await;
        };
        let accepting = tokio::spawn(accept(listener, permits.clone(), stopped, echo));
        let mut first = TcpStream::connect(address).await.expect("connected");
        let mut second = TcpStream::connect(address).await.expect("connected");
        second.write_u8(2).await.expect("written");
        // Nobody can tell that something will never come; a moment shows what has not come.
        let early = tokio::time::timeout(Duration::from_millis(50), second.read_u8()).await;
        assert!(early.is_err());
        first.write_u8(1).await.expect("written");
        assert_eq!(first.read_u8().await.expect("an answer"), 1);
        assert_eq!(second.read_u8().await.expect("an answer"), 2);
        stop.send_replace(true);
        accepting.await.expect("it ended");
        permits.wait_until_all_closed().await;
    }
}
