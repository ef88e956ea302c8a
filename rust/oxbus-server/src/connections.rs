// SPDX-License-Identifier: Apache-2.0
//! Connections: how many, for how long, and their end.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use oxbus_model::caps::{BULK_HEAD_BYTES_MAX, BULK_HEADERS_MAX};
use rustix::net::{Shutdown, shutdown};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

use crate::limits::Limits;

/// After the system refused a connection for want of files or memory.
const PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections until `stopped`, then waits for those that there are.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    limits: Limits,
    routes: Router,
    mut stopped: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(limits.connections as usize));
    loop {
        let accepted = async {
            // Who comes when all places are taken waits in the system's queue.
            let place = Arc::clone(&places).acquire_owned().await.expect("it is never closed");
            (listener.accept().await, place)
        };
        let (socket, place) = tokio::select! {
            () = until_stopped(&mut stopped) => break,
            accepted = accepted => accepted,
        };
        let Ok((socket, _)) = socket else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let (tls, routes, stopped) = (tls.clone(), routes.clone(), stopped.clone());
        tokio::spawn(async move {
            handle(socket, tls, limits.head(), routes, stopped).await;
            drop(place);
        });
    }
    // A forked child may have the same socket still; this ends it for all.
    let _ = shutdown(&listener, Shutdown::Both);
    drop(listener);
    let all = u32::try_from(limits.connections).expect("few");
    let _ended = places.acquire_many(all).await;
}

/// Returns when the server is to end.
pub(crate) async fn until_stopped(stopped: &mut watch::Receiver<bool>) {
    // An error says that the server is gone, which is an end too.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

async fn handle(
    socket: TcpStream,
    tls: Option<TlsAcceptor>,
    head: Duration,
    routes: Router,
    stopped: watch::Receiver<bool>,
) {
    let _ = socket.set_nodelay(true);
    let Some(tls) = tls else {
        return answer(socket, head, routes, stopped).await;
    };
    if let Ok(Ok(socket)) = tokio::time::timeout(head, tls.accept(socket)).await {
        answer(socket, head, routes, stopped).await;
    }
}

async fn answer(
    socket: impl AsyncRead + AsyncWrite + Unpin,
    head: Duration,
    routes: Router,
    mut stopped: watch::Receiver<bool>,
) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head)
        .max_headers(BULK_HEADERS_MAX)
        .max_buf_size(BULK_HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(socket), TowerToHyperService::new(routes));
    let mut connection = std::pin::pin!(connection);
    // An error is a client that left or speaks something else: nobody is there to be told.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = until_stopped(&mut stopped) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
