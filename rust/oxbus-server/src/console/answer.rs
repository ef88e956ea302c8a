// SPDX-License-Identifier: Apache-2.0
//! The dispatch of a request to the console.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, SET_COOKIE};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use oxbus_model::caps::HTTP_BODY_IDLE_MS_MAX;
use serde_json::json;

use super::api::{self, Request as ApiRequest};
use super::error::{ConsoleError, Result, from_json};
use super::json::json_response;
use super::session::{self, Caller};
use super::sign_in::{Credentials, sign_in};
use super::state::Console;
use super::{assets, guard, live};
use crate::blocking::run_blocking;
use crate::front::{Context, PeerInfo};
use crate::sas::development_rule;

const ROOT: &str = "/$console";
const ESCAPED: &str = "/%24console";
/// A message that is edited and sent again, in base64.
const BODY_BYTES_MAX: usize = 4 << 20;

/// Answers a request to the console. Returns any other request unchanged.
pub(crate) async fn answer(
    context: &Context,
    peer: PeerInfo,
    request: Request<Incoming>,
) -> std::result::Result<Response<Body>, Box<Request<Incoming>>> {
    let Some(console) = context.console().cloned() else {
        return Err(Box::new(request));
    };
    let path = request.uri().path();
    if path == "/" && request.method() == Method::GET && wants_page(request.headers()) {
        return Ok(redirect());
    }
    let Some(path) = strip_root(path).map(str::to_owned) else {
        return Err(Box::new(request));
    };
    let (parts, body) = request.into_parts();
    let answered = respond(context, &console, peer, &parts, body, &path).await;
    let mut response = answered.unwrap_or_else(|error| {
        let detail = format!("{}: {}", parts.uri.path(), error.detail);
        // Signing in counts itself, and a page asks for its state before anybody has signed in.
        if error.status != StatusCode::UNAUTHORIZED {
            context
                .meters()
                .count_refusal("console", error.status.as_str(), &detail);
        }
        error.to_response()
    });
    guard::protect(&mut response);
    Ok(response)
}

/// The path below the console's, and `None` for any other.
fn strip_root(path: &str) -> Option<&str> {
    let rest = [ROOT, ESCAPED].iter().find_map(|root| {
        let (first, rest) = path.split_at_checked(root.len())?;
        first.eq_ignore_ascii_case(root).then_some(rest)
    })?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

fn wants_page(headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    accepted.is_some_and(|accepted| accepted.contains("text/html"))
}

fn redirect() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    let to = HeaderValue::from_static("/$console/");
    response.headers_mut().insert(LOCATION, to);
    response
}

async fn respond(
    context: &Context,
    console: &Arc<Console>,
    peer: PeerInfo,
    request: &Parts,
    body: Incoming,
    path: &str,
) -> Result<Response<Body>> {
    guard::check(context, &console.options.hosts, peer, &request.headers)?;
    let Some(path) = path.strip_prefix('/') else {
        return Ok(redirect());
    };
    if let Some(resource) = path.strip_prefix("api/") {
        guard::check_same_site(request)?;
        return api(context, console, peer, request, body, resource).await;
    }
    if request.method != Method::GET && request.method != Method::HEAD {
        return Err(ConsoleError::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "pages are read with GET",
        ));
    }
    assets::respond(path, &request.headers)
}

async fn api(
    context: &Context,
    console: &Arc<Console>,
    peer: PeerInfo,
    request: &Parts,
    body: Incoming,
    resource: &str,
) -> Result<Response<Body>> {
    let token = session::token_in(&request.headers);
    let caller = token
        .as_deref()
        .and_then(|token| console.sign_ins.find(token, context.authority(), context.now(), true))
        .map(|caller| Caller {
            peer: peer.address,
            ..caller
        });
    let is_get = request.method == Method::GET;
    if !is_get && request.method != Method::POST {
        let detail = "the console is read with GET and changed with POST";
        return Err(ConsoleError::new(StatusCode::METHOD_NOT_ALLOWED, detail));
    }
    match (is_get, resource) {
        (true, "state") => return Ok(json_response(StatusCode::OK, &state(context, console, caller.as_ref()))),
        (false, "sign-in") => return begin(context, console, peer, request, body).await,
        _ => {}
    }
    let (Some(caller), Some(token)) = (caller, token) else {
        return Err(ConsoleError::new(
            StatusCode::UNAUTHORIZED,
            "nobody has signed in here; sign in first",
        ));
    };
    if is_get && resource == "live" {
        return live::stream(context, console, caller, token, &request.uri);
    }
    let Ok(_permit) = context.requests().try_acquire() else {
        let detail = "the server already handles too many requests; wait, then try again";
        return Err(ConsoleError::new(StatusCode::SERVICE_UNAVAILABLE, detail));
    };
    if is_get {
        let cards = live::cards_for(context, resource).await;
        let request = ApiRequest::new(context, console, caller, &request.uri, cards);
        let resource = resource.to_owned();
        let found = run_blocking(move |wait| Ok(api::get(&request, &resource, wait))).await??;
        return Ok(json_response(StatusCode::OK, &found));
    }
    let csrf = request.headers.get("x-csrf-token").map(HeaderValue::as_bytes);
    if !csrf.is_some_and(|csrf| caller.is_csrf(csrf)) {
        let detail = "the request has no valid token against forgery; reload the page and try again";
        return Err(ConsoleError::forbidden(detail));
    }
    if resource == "sign-out" {
        console.sign_ins.remove(&token);
        return Ok(with_cookie(request, "", peer));
    }
    let bytes = read(context, request, body, BODY_BYTES_MAX).await?;
    let request = ApiRequest::new(context, console, caller, &request.uri, Vec::new());
    let resource = resource.to_owned();
    let done = run_blocking(move |wait| Ok(api::post(&request, &resource, &bytes, wait))).await??;
    Ok(json_response(StatusCode::OK, &done))
}

/// What a page must know before it shows anything.
fn state(context: &Context, console: &Console, caller: Option<&Caller>) -> serde_json::Value {
    let development = development_rule();
    let rules = context.authority().rules();
    let has_known_key = rules
        .iter()
        .any(|rule| rule.key_name == development.key_name && rule.primary_key == development.primary_key);
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "is_read_only": console.options.is_read_only,
        // Everybody knows that key, and it works on loopback only.
        "has_development_key": has_known_key && context.is_loopback(),
        "signed_in": caller.map(|caller| json!({
            "key_name": caller.key_name,
            "rights": caller.rights.iter().map(|right| right.name()).collect::<Vec<_>>(),
            "csrf": caller.csrf,
        })),
    })
}

async fn begin(
    context: &Context,
    console: &Console,
    peer: PeerInfo,
    request: &Parts,
    body: Incoming,
) -> Result<Response<Body>> {
    let bytes = read(context, request, body, 8 << 10).await?;
    let given: Credentials = from_json(&bytes)?;
    let token = sign_in(context, console, peer, &given)?;
    Ok(with_cookie(request, &token, peer))
}

fn with_cookie(request: &Parts, token: &str, peer: PeerInfo) -> Response<Body> {
    let mut response = json_response(StatusCode::OK, &json!({}));
    let cookie = session::cookie(&request.headers, token, peer.is_encrypted);
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

/// Reads a JSON body of at most `max` bytes. A form of another site cannot send this content type.
async fn read(context: &Context, request: &Parts, body: Incoming, max: usize) -> Result<Bytes> {
    let content_type = request.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    if !content_type.is_some_and(|it| it.starts_with(b"application/json")) {
        let detail = "the body must be JSON; send it with Content-Type: application/json";
        return Err(ConsoleError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    let mut share = context.bodies().share();
    share.take(max)?;
    let limit = Duration::from_millis(HTTP_BODY_IDLE_MS_MAX);
    let read = tokio::time::timeout(limit, Limited::new(body, max).collect()).await;
    let read =
        read.map_err(|_| ConsoleError::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive; send it again"))?;
    let read = read.map_err(|_| {
        let detail = format!("the body is too large or ended early; send at most {max} bytes");
        ConsoleError::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
    })?;
    Ok(read.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::strip_root;

    #[test]
    fn the_console_has_its_own_paths() {
        assert_eq!(strip_root("/$console"), Some(""));
        assert_eq!(strip_root("/%24Console/api/state"), Some("/api/state"));
        for path in ["/", "/console/", "/$consoles", "/orders/$console"] {
            assert_eq!(strip_root(path), None, "{path}");
        }
    }
}
