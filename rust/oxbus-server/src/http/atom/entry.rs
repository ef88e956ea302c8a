// SPDX-License-Identifier: Apache-2.0
//! ATOM entries and feeds of responses.
//!
//! Clients read the name of an entity from the title, and treat the second of two links as the next page.

use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use oxbus_model::Timestamp;

use super::page::Page;
use super::xml::{XmlWriter, escape_attribute};
use super::{ATOM, times};
use crate::http::HttpResponse;

/// An entry: name, path, times, and the description in XML.
pub(super) struct AtomEntry {
    pub(super) title: String,
    pub(super) path: String,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    pub(super) description: String,
}

/// The URL parts and names that entries of a response refer to.
pub(super) struct RequestHost {
    /// `https://host:port`.
    pub(super) base_url: String,
    /// `host:port`.
    pub(super) authority: String,
    /// The name of the namespace.
    pub(super) namespace: String,
}

fn write(entry: &AtomEntry, host: &RequestHost, attributes: &str, text: &mut String) {
    let link = format!("{}/{}", host.base_url, entry.path);
    let mut out = XmlWriter::default();
    out.open("entry", attributes);
    out.text("id", &link);
    out.text_with("title", "type=\"text\"", &entry.title);
    out.text("published", times::format_time(entry.created_at));
    out.text("updated", times::format_time(entry.updated_at));
    out.open("author", "");
    out.text("name", &host.namespace);
    out.close("author");
    out.text_with(
        "link",
        &format!("rel=\"self\" href=\"{}\"", escape_attribute(&link)),
        "",
    );
    out.open("content", "type=\"application/xml\"");
    text.push_str(&out.finish());
    text.push_str(&entry.description);
    text.push_str("</content></entry>");
}

fn xml_response(status: StatusCode, kind: &'static str, text: String) -> HttpResponse {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// The response with one entry.
pub(super) fn entry_response(status: StatusCode, entry: &AtomEntry, host: &RequestHost) -> HttpResponse {
    let mut text = String::new();
    write(entry, host, &format!("xmlns=\"{ATOM}\""), &mut text);
    xml_response(status, "application/atom+xml;type=entry;charset=utf-8", text)
}

/// A page of a list.
pub(super) struct Feed<'a> {
    pub(super) title: &'a str,
    pub(super) path: &'a str,
    pub(super) entries: Vec<AtomEntry>,
    pub(super) page: Page,
    pub(super) next: Option<Page>,
    /// The API version in the links to other pages.
    pub(super) version: Option<&'a str>,
    pub(super) now: Timestamp,
}

/// The response with a page of a list.
pub(super) fn feed_response(feed: &Feed<'_>, host: &RequestHost) -> HttpResponse {
    let url = format!("{}/{}", host.base_url, feed.path);
    let link = |page: Page| {
        let version = feed
            .version
            .map_or_else(String::new, |version| format!("&api-version={version}"));
        let Page { skip, top } = page;
        escape_attribute(&format!("{url}?$skip={skip}&$top={top}{version}"))
    };
    let mut out = XmlWriter::default();
    out.open("feed", &format!("xmlns=\"{ATOM}\""));
    out.text_with("title", "type=\"text\"", feed.title);
    out.text("id", &url);
    out.text("updated", times::format_time(feed.now));
    out.text_with("link", &format!("rel=\"self\" href=\"{}\"", link(feed.page)), "");
    if let Some(next) = feed.next {
        out.text_with("link", &format!("rel=\"next\" href=\"{}\"", link(next)), "");
    }
    let mut text = out.finish();
    for entry in &feed.entries {
        write(entry, host, "", &mut text);
    }
    text.push_str("</feed>");
    xml_response(StatusCode::OK, "application/atom+xml;type=feed;charset=utf-8", text)
}
