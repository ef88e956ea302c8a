// SPDX-License-Identifier: Apache-2.0
//! An HTTP connection: its state between requests, and the dispatch of a request to its handler.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use oxbus_model::authorization::AccessRight;
use oxbus_model::caps::{HTTP_HEAD_BYTES_MAX, HTTP_HEAD_MS_MAX, HTTP_HEADERS_MAX, HTTP_REQUESTS_MAX};
use oxbus_model::sync::ignore_poison;
use oxbus_model::{Error, ErrorKind};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::error::{Area, HttpError, RefusalText};
use super::messages::ConnectionContext;
use super::route::HttpRoute;
use super::spans::RequestSpan;
use super::{HttpResponse, access, atom, body, health, messages, metrics};
use crate::accept::until_stopped;
use crate::console;
use crate::front::{Context, PeerInfo, accept_upgrade, is_websocket};

/// An HTTP connection.
struct HttpConnection {
    context: ConnectionContext,
    /// The task that took over when the connection switched to a WebSocket. A panic leaves it consistent: it is set in
    /// one step.
    websocket: Mutex<Option<JoinHandle<()>>>,
}

/// Serves HTTP on a stream until it closes or the server stops.
pub(crate) async fn serve_http(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    context: Context,
    peer: PeerInfo,
) {
    let mut stopped = context.stopped();
    let connection = Arc::new(HttpConnection {
        context: ConnectionContext::new(context, peer),
        websocket: Mutex::default(),
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
    // An error means that the client disconnected or does not speak HTTP, so there is no one to report it to.
    tokio::select! {
        _ = serving.as_mut() => {}
        () = until_stopped(&mut stopped) => {
            serving.as_mut().graceful_shutdown();
            let _ = serving.await;
        }
    }
    connection.context.close();
    // The WebSocket counts as this connection until it closes.
    let websocket = ignore_poison(connection.websocket.lock()).take();
    if let Some(task) = websocket {
        let _ = task.await;
    }
}

impl HttpConnection {
    /// The response of a bulk route or of an operation of the service.
    async fn serve(&self, request: Request<Incoming>) -> Response<Either<Full<Bytes>, Body>> {
        let began = Instant::now();
        let traced = self
            .context
            .server
            .spans()
            .is_on()
            .then(|| RequestSpan::begin(&request, self.context.peer.is_encrypted));
        let response = match self.answer_beside_service(request).await {
            Ok(response) => response.map(Either::Right),
            Err(request) => self.respond(*request).await.map(Either::Left),
        };
        let detail = response
            .extensions()
            .get::<RefusalText>()
            .map_or("", |text| text.0.as_str());
        self.context
            .server
            .meters()
            .count_response(response.status(), detail, began.elapsed());
        if let Some(traced) = traced {
            traced.end(&response, self.context.server.spans());
        }
        response
    }

    /// The response of the console or of a bulk route. Returns any other request unchanged.
    async fn answer_beside_service(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Box<Request<Incoming>>> {
        let request = match console::answer(&self.context.server, self.context.peer, request).await {
            Ok(response) => return Ok(response),
            Err(request) => request,
        };
        if self.context.server.is_view() {
            return Err(request);
        }
        self.context.server.bulk().answer(*request).await
    }

    async fn respond(&self, request: Request<Incoming>) -> HttpResponse {
        let response = if self.context.server.is_view() {
            let detail = "the directory is open for reading only, and only its console answers; start `oxbus serve`";
            Err(HttpError::new(StatusCode::FORBIDDEN, 40300, detail))
        } else if is_websocket(&request) {
            let websocket = accept_upgrade(request, &self.context.server, self.context.peer);
            let response = websocket.map(|(response, task)| {
                *ignore_poison(self.websocket.lock()) = Some(task);
                response
            });
            response.ok_or_else(|| {
                HttpError::bad_request("the WebSocket offers no supported protocol; offer AMQPWSB10 or amqp")
            })
        } else {
            let (parts, mut body) = request.into_parts();
            let response = self.handle(&parts, &mut body).await;
            if response.is_err() {
                body::drain(&mut body, &parts.headers).await;
            }
            response
        };
        response.unwrap_or_else(|error| error.to_response())
    }

    async fn handle(&self, request: &Parts, body: &mut Incoming) -> Result<HttpResponse, HttpError> {
        match HttpRoute::of(&request.method, request.uri.path())? {
            HttpRoute::Health(check) => Ok(health::health(&self.context.server, check)),
            HttpRoute::Metrics => {
                if !self.context.server.is_loopback() {
                    access::check(&self.context.server, &request.headers, AccessRight::Manage, "").await?;
                }
                metrics::metrics(&self.context.server, &request.headers).await
            }
            HttpRoute::Messages { entity, operation } => {
                let Ok(_permit) = self.context.server.requests().try_acquire() else {
                    return Err(busy(Area::Messages));
                };
                messages::handle(&self.context, request, body, entity, operation).await
            }
            HttpRoute::Entities(resource) => {
                let Ok(_permit) = self.context.server.requests().try_acquire() else {
                    return Err(busy(Area::Entities));
                };
                atom::handle(&self.context.server, self.context.peer, request, body, resource).await
            }
            HttpRoute::Selected { entity, operation } => {
                let Ok(_permit) = self.context.server.requests().try_acquire() else {
                    return Err(busy(Area::Entities));
                };
                atom::handle_selected(&self.context.server, request, body, entity, operation).await
            }
        }
    }
}

fn busy(area: Area) -> HttpError {
    let detail = format!("the server already handles {HTTP_REQUESTS_MAX} requests; wait, then try again");
    HttpError::of(area, &Error::new(ErrorKind::ServerBusy, detail))
}
