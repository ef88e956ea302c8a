// SPDX-License-Identifier: Apache-2.0
//! An HTTP connection: what it keeps between its requests, and how a request finds its handler.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use oxbus_model::authorization::AccessRight;
use oxbus_model::caps::{HTTP_HEAD_BYTES_MAX, HTTP_HEAD_MS_MAX, HTTP_HEADERS_MAX, HTTP_REQUESTS_MAX};
use oxbus_model::sync::whole;
use oxbus_model::{Error, ErrorKind};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;

use super::messages::Client;
use super::refusal::{Area, Refusal};
use super::route::Route;
use super::{Answer, access, atom, body, health, messages, metrics};
use crate::accept::until_stopped;
use crate::front::{Context, Peer, is_websocket, switch};

/// One connection.
struct Connection {
    client: Client,
    /// What the connection became when it switched to a WebSocket.
    /// Set in one step: whole after a panic.
    switched: Mutex<Option<JoinHandle<()>>>,
}

/// Speaks HTTP on a stream until it ends or the server stops.
pub(crate) async fn serve_http(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    context: Context,
    peer: Peer,
) {
    let mut stopped = context.stopped();
    let connection = Arc::new(Connection {
        client: Client::new(context, peer),
        switched: Mutex::default(),
    });
    let service = service_fn(|request| {
        let connection = Arc::clone(&connection);
        async move { Ok::<_, Infallible>(connection.serve(request).await) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_millis(HTTP_HEAD_MS_MAX))
        .max_headers(HTTP_HEADERS_MAX)
        .max_buf_size(HTTP_HEAD_BYTES_MAX)
        .title_case_headers(true)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut serving = std::pin::pin!(serving);
    // An error is a client that left or speaks something else: nobody is there to be told.
    tokio::select! {
        _ = serving.as_mut() => {}
        () = until_stopped(&mut stopped) => {
            serving.as_mut().graceful_shutdown();
            let _ = serving.await;
        }
    }
    connection.client.close();
    // It has the place of this connection until it ends.
    let switched = whole(connection.switched.lock()).take();
    if let Some(task) = switched {
        let _ = task.await;
    }
}

impl Connection {
    /// The answer of a bulk route, or of the operations of the service.
    async fn serve(&self, request: Request<Incoming>) -> Response<Either<Full<Bytes>, Body>> {
        let answer = match self.client.context.bulk().answer(request).await {
            Ok(answer) => answer.map(Either::Right),
            Err(request) => self.answer(*request).await.map(Either::Left),
        };
        self.client
            .context
            .meters()
            .answered(answer.status().is_client_error() || answer.status().is_server_error());
        answer
    }

    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let answer = if is_websocket(&request) {
            let switched = switch(request, &self.client.context, self.client.peer);
            let answer = switched.map(|(answer, task)| {
                *whole(self.switched.lock()) = Some(task);
                answer
            });
            answer.ok_or_else(|| {
                Refusal::bad_request("the WebSocket offers no protocol that is spoken here; offer AMQPWSB10 or amqp")
            })
        } else {
            let (parts, mut body) = request.into_parts();
            let answer = self.handle(&parts, &mut body).await;
            if answer.is_err() {
                body::drain(&mut body, &parts.headers).await;
            }
            answer
        };
        answer.unwrap_or_else(|refusal| refusal.answer())
    }

    async fn handle(&self, request: &Parts, body: &mut Incoming) -> Result<Answer, Refusal> {
        match Route::of(&request.method, request.uri.path())? {
            Route::Health => Ok(health::health(
                self.client.context.namespace(),
                *self.client.context.stopped().borrow(),
            )),
            Route::Metrics => {
                if !self.client.context.is_loopback() {
                    access::check(&self.client.context, &request.headers, AccessRight::Manage, "").await?;
                }
                metrics::metrics(&self.client.context).await
            }
            Route::Messages { entity, operation } => {
                let Ok(_place) = self.client.context.requests().try_acquire() else {
                    return Err(busy(Area::Messages));
                };
                messages::handle(&self.client, request, body, entity, operation).await
            }
            Route::Entities(place) => {
                let Ok(_place) = self.client.context.requests().try_acquire() else {
                    return Err(busy(Area::Entities));
                };
                atom::handle(&self.client.context, self.client.peer, request, body, place).await
            }
        }
    }
}

fn busy(area: Area) -> Refusal {
    let detail = format!("the server works on {HTTP_REQUESTS_MAX} requests already; wait, then try again");
    Refusal::of(area, &Error::new(ErrorKind::ServerBusy, detail))
}
