// SPDX-License-Identifier: Apache-2.0
//! The pages, built from `console/` of the project and compressed. `make console-assets` writes them.
//!
//! The names of script and style contain a hash of their content, so browsers keep them for ever. Every other path is
//! the page, whose script reads the path.

use axum::body::Body;
use hyper::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH, VARY,
};
use hyper::{Response, StatusCode};

use super::error::{ConsoleError, Result};

const PAGE: &[u8] = include_bytes!("assets/index.html.gz");
const SCRIPT: &[u8] = include_bytes!("assets/console.js.gz");
const STYLE: &[u8] = include_bytes!("assets/console.css.gz");
/// The names in the page, one a line: script, style; then the `ETag` of the page.
const NAMES: &str = include_str!("assets/names.txt");
/// Beside each other: the whole console is small enough for a slow line.
const _: () = assert!(PAGE.len() + SCRIPT.len() + STYLE.len() <= 300 << 10);

fn name(at: usize) -> &'static str {
    NAMES.lines().nth(at).unwrap_or_default()
}

/// The page, the script or the style.
pub(super) fn respond(path: &str, headers: &HeaderMap) -> Result<Response<Body>> {
    let (bytes, kind, is_fixed) = match path.strip_prefix("assets/") {
        Some(file) if file == name(0) => (SCRIPT, "text/javascript; charset=utf-8", true),
        Some(file) if file == name(1) => (STYLE, "text/css; charset=utf-8", true),
        Some(_) => {
            let detail = "the console has no such file; reload the page, because the server has a newer version";
            return Err(ConsoleError::new(StatusCode::NOT_FOUND, detail));
        }
        None => (PAGE, "text/html; charset=utf-8", false),
    };
    let tag = HeaderValue::from_static(name(2));
    if !is_fixed && headers.get(IF_NONE_MATCH) == Some(&tag) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response.headers_mut().insert(ETAG, tag);
        return Ok(response);
    }
    let mut response = Response::new(Body::from(bytes));
    let fields: [(HeaderName, HeaderValue); 3] = [
        (CONTENT_TYPE, HeaderValue::from_static(kind)),
        (CONTENT_ENCODING, HeaderValue::from_static("gzip")),
        (VARY, HeaderValue::from_static("Accept-Encoding")),
    ];
    response.headers_mut().extend(fields);
    if is_fixed {
        let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
        response.headers_mut().insert(CACHE_CONTROL, forever);
    } else {
        response
            .headers_mut()
            .insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        response.headers_mut().insert(ETAG, tag);
    }
    Ok(response)
}
