// SPDX-License-Identifier: Apache-2.0
//! Connections to a bulk server: how many, for how long, and their end.

use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use oxbus_model::caps::{BULK_CONNECTIONS_MAX, BULK_HEAD_BYTES_MAX, BULK_HEAD_MS_MAX, BULK_HEADERS_MAX};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::accept::{Places, accept, until_stopped};

const HEAD_TIMEOUT: Duration = Duration::from_millis(BULK_HEAD_MS_MAX);

/// Accepts connections until `stopped`, then waits for those that there are.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    routes: Router,
    stopped: watch::Receiver<bool>,
) {
    let places = Places::new(BULK_CONNECTIONS_MAX);
    let ends = stopped.clone();
    accept(listener, places.clone(), stopped, move |socket| {
        handle(socket, tls.clone(), routes.clone(), ends.clone())
    })
    .await;
    places.until_empty().await;
}

async fn handle(socket: TcpStream, tls: Option<TlsAcceptor>, routes: Router, stopped: watch::Receiver<bool>) {
    let Some(tls) = tls else {
        return answer(socket, routes, stopped).await;
    };
    if let Ok(Ok(socket)) = tokio::time::timeout(HEAD_TIMEOUT, tls.accept(socket)).await {
        answer(socket, routes, stopped).await;
    }
}

async fn answer(socket: impl AsyncRead + AsyncWrite + Unpin, routes: Router, mut stopped: watch::Receiver<bool>) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
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
