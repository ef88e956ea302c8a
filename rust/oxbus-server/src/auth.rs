// SPDX-License-Identifier: Apache-2.0
//! Who may call: the bearer of a token of the server's key.

use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use oxbus_broker::SystemClock;
use oxbus_model::Clock;
use oxbus_wire::Fault;

use crate::bulk::Plane;
use crate::status::Refusal;

/// Lets a request through that shows a token, where the server has a key.
pub(crate) async fn check(State(plane): State<Plane>, request: Request, next: Next) -> Response {
    let Some(key) = plane.key() else {
        return next.run(request).await;
    };
    let shown = request
        .headers()
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let token = shown.and_then(|value| value.strip_prefix("Bearer "));
    let refused = match token {
        // Real time: a clock that is moved by hand moves messages, not who may see them.
        Some(token) => key.check(token, SystemClock::new().now()).err(),
        None => {
            Some("the server asks for a key; put SharedAccessKeyName and SharedAccessKey into the connection string")
        }
    };
    match refused {
        None => next.run(request).await,
        Some(reason) => Refusal(Fault::unauthenticated(reason)).into_response(),
    }
}
