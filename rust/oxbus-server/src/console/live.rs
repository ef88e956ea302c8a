// SPDX-License-Identifier: Apache-2.0
//! A resource as server-sent events: `GET api/live?resource=RESOURCE` sends what `GET api/RESOURCE` answers, at once and
//! each time that it has changed.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use futures_util::stream;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode, Uri};
use percent_encoding::percent_decode_str;
use serde_json::json;

use super::api::{self, Request};
use super::connections::Card;
use super::error::{ConsoleError, Result};
use super::session::Caller;
use super::state::{Console, STREAMS_MAX};
use crate::accept::until_stopped;
use crate::blocking::run_blocking;
use crate::front::Context;

const STEP: Duration = Duration::from_secs(2);
/// Steps without a change after which a comment tells that the stream lives.
const SILENT_STEPS: u32 = 7;

/// The cards of the connections, for the resources that show them.
pub(super) async fn cards_for(context: &Context, resource: &str) -> Vec<(u64, Card)> {
    if matches!(resource, "connections" | "locks" | "sessions") {
        context.connections().ask().await
    } else {
        Vec::new()
    }
}

struct Stream {
    context: Context,
    console: Arc<Console>,
    caller: Caller,
    token: String,
    resource: String,
    uri: Uri,
    last: Option<String>,
    silent: u32,
    _permit: tokio::sync::OwnedSemaphorePermit,
}

impl Stream {
    /// The next event. `None` ends the stream: the sign-in or the server ended.
    async fn next(mut self) -> Option<(std::result::Result<String, std::convert::Infallible>, Self)> {
        let mut stopped = self.context.stopped();
        loop {
            if self.last.is_some() {
                tokio::select! {
                    () = tokio::time::sleep(STEP) => {}
                    () = until_stopped(&mut stopped) => return None,
                }
            }
            // Looking on is no use: a page that nobody watches does not keep the sign-in alive.
            let authority = self.context.authority();
            let now = self.context.now();
            self.console.sign_ins.find(&self.token, authority, now, false)?;
            let text = self.read().await;
            if self.last.as_ref() == Some(&text) {
                self.silent += 1;
                if self.silent >= SILENT_STEPS {
                    self.silent = 0;
                    return Some((Ok(": still here\n\n".to_owned()), self));
                }
                continue;
            }
            self.silent = 0;
            let event = format!("data: {text}\n\n");
            self.last = Some(text);
            return Some((Ok(event), self));
        }
    }

    async fn read(&self) -> String {
        let cards = cards_for(&self.context, &self.resource).await;
        let request = Request::new(&self.context, &self.console, self.caller.clone(), &self.uri, cards);
        let resource = self.resource.clone();
        let found = run_blocking(move |wait| Ok(api::get(&request, &resource, wait))).await;
        let found = found.map_err(ConsoleError::from).and_then(|found| found);
        found.map_or_else(
            |error| json!({ "error": error.detail }).to_string(),
            |value| value.to_string(),
        )
    }
}

/// Begins a stream.
pub(super) fn stream(
    context: &Context,
    console: &Arc<Console>,
    caller: Caller,
    token: String,
    uri: &Uri,
) -> Result<Response<Body>> {
    let query = uri.query().unwrap_or_default();
    let named = query.split('&').find_map(|pair| pair.strip_prefix("resource="));
    let wrong = || ConsoleError::bad_request("`resource` must name a resource of the console");
    let named = percent_decode_str(named.ok_or_else(wrong)?)
        .decode_utf8()
        .map_err(|_| wrong())?;
    let target: Uri = format!("/{named}").parse().map_err(|_| wrong())?;
    let permit = Arc::clone(&console.streams).try_acquire_owned().map_err(|_| {
        let detail = format!("{STREAMS_MAX} pages are already live; close some, or reload this page later");
        ConsoleError::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    })?;
    let stream = Stream {
        context: context.clone(),
        console: Arc::clone(console),
        caller,
        token,
        resource: target.path().trim_start_matches('/').to_owned(),
        uri: target,
        last: None,
        silent: 0,
        _permit: permit,
    };
    let events = stream::unfold(stream, Stream::next);
    let mut response = Response::new(Body::from_stream(events));
    let kind = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}
