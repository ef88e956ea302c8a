// SPDX-License-Identifier: Apache-2.0
//! Accepting connections: their limit, and waiting until all have closed.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

/// The pause after `accept` failed for lack of file descriptors or memory.
const PAUSE: Duration = Duration::from_millis(50);

/// One permit for each connection of a server.
#[derive(Clone)]
pub(crate) struct ConnectionPermits {
    semaphore: Arc<Semaphore>,
    max: u32,
}

impl ConnectionPermits {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            semaphore: Arc::new(Semaphore::new(max)),
            max: u32::try_from(max).expect("the limit fits into 32 bits"),
        }
    }

    /// Returns when all connections are closed. No connection may be accepted afterwards.
    pub(crate) async fn wait_until_all_closed(&self) {
        let _ended = self.semaphore.acquire_many(self.max).await;
    }
}

/// Accepts connections until `stopped`. Each connection runs in its own task.
pub(crate) async fn accept<F: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    permits: ConnectionPermits,
    mut stopped: watch::Receiver<bool>,
    handle: impl Fn(TcpStream) -> F,
) {
    loop {
        let accepted = async {
            // Without a free permit, new connections wait in the system's accept queue.
            let semaphore = Arc::clone(&permits.semaphore);
            let permit = semaphore.acquire_owned().await.expect("the semaphore is never closed");
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
    oxbus_system::end_listening(&listener);
}

/// Returns when the server stops.
pub(crate) async fn until_stopped(stopped: &mut watch::Receiver<bool>) {
    // An error means that the sender is dropped: the server has stopped.
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
    async fn connections_beyond_the_limit_wait_for_a_permit() {
        // B-044, SERVER_CONNECTIONS_MAX: a flood of connections cannot exceed the limit.
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
        // A short timeout stands in for "never": the second connection gets no answer yet.
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
