// SPDX-License-Identifier: Apache-2.0
//! Who may speak to the console, and the headers that make a browser protect it.

use axum::body::Body;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Response, StatusCode};

use super::error::{ConsoleError, Result};
use crate::front::{Context, PeerInfo};

/// Only files of this server, no inline scripts and styles, no frames; what a script puts into a page is text.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

const ISOLATION: [(HeaderName, HeaderValue); 3] = [
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (
        HeaderName::from_static("permissions-policy"),
        HeaderValue::from_static("camera=(), geolocation=(), microphone=()"),
    ),
];

/// Fails if the browser reached the server without TLS from elsewhere, or under a name that is not the server's.
pub(super) fn check(context: &Context, hosts: &[String], peer: PeerInfo, headers: &HeaderMap) -> Result<()> {
    if !context.is_loopback() && !peer.is_encrypted {
        return Err(ConsoleError::forbidden(
            "the console of a server that other machines can reach needs TLS; open it with https://",
        ));
    }
    let given = headers
        .get(HOST)
        .and_then(|host| host.to_str().ok())
        .unwrap_or_default();
    if is_own(given, context.host(), hosts) {
        return Ok(());
    }
    // Otherwise a page of another site could point its own name at this address, and read the answers.
    Err(ConsoleError::new(
        StatusCode::MISDIRECTED_REQUEST,
        "the console does not answer under this host name; open it by address, or start the server with \
         --console-host NAME",
    ))
}

/// True if a `Host` names the server: an address, `localhost`, its host, or a further name.
fn is_own(given: &str, host: &str, further: &[String]) -> bool {
    let name = name_of(given);
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    bare.parse::<std::net::IpAddr>().is_ok()
        || [host, "localhost"]
            .into_iter()
            .chain(further.iter().map(String::as_str))
            .any(|own| !name.is_empty() && own.eq_ignore_ascii_case(name))
}

/// A `Host` without its port.
fn name_of(given: &str) -> &str {
    match given.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|it| it.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => given,
    }
}

/// Fails if the request comes from a page of another site. Browsers that send no such header are held by the token.
pub(super) fn check_same_site(request: &Parts) -> Result<()> {
    let site = request.headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    if site.is_none_or(|site| matches!(site, b"same-origin" | b"none")) {
        return Ok(());
    }
    Err(ConsoleError::forbidden(
        "the request comes from a page of another site; use the console's own pages",
    ))
}

/// Adds the headers that each response of the console has.
pub(super) fn protect(response: &mut Response<Body>) {
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.extend(ISOLATION);
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
}

#[cfg(test)]
mod tests {
    use super::is_own;

    #[test]
    fn only_addresses_and_names_of_the_server_are_accepted() {
        let further = ["Bus.Example".to_owned()];
        for host in [
            "127.0.0.1:5300",
            "[::1]:5300",
            "10.0.0.7",
            "localhost",
            "LOCALHOST:1",
            "bus.example:443",
            "box",
        ] {
            assert!(is_own(host, "box", &further), "{host}");
        }
        for host in [
            "",
            ":5300",
            "evil.example",
            "localhost.evil.example:5300",
            "127.0.0.1.evil.example",
            "bus.example.x",
        ] {
            assert!(!is_own(host, "box", &further), "{host}");
        }
    }
}
