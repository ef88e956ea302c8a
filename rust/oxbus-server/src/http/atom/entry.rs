// SPDX-License-Identifier: Apache-2.0
//! Entries and feeds: what goes out.
//!
//! Clients take the name of an entity from the title, and the next page from the second link if there are just two.

use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use oxbus_model::Timestamp;

use super::page::Page;
use super::xml::{Out, quoted};
use super::{ATOM, times};
use crate::http::Answer;

/// One thing that is shown: its name, its path, its times, and its description in XML.
pub(super) struct Entry {
    pub(super) title: String,
    pub(super) path: String,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    pub(super) description: String,
}

/// Where the client called.
pub(super) struct Caller {
    /// `https://host:port`.
    pub(super) base: String,
    /// `host:port`.
    pub(super) host: String,
    /// Name of the namespace.
    pub(super) namespace: String,
}

fn write(entry: &Entry, caller: &Caller, attributes: &str, text: &mut String) {
    let link = format!("{}/{}", caller.base, entry.path);
    let mut out = Out::default();
    out.open("entry", attributes);
    out.text("id", &link);
    out.text_with("title", "type=\"text\"", &entry.title);
    out.text("published", times::written(entry.created_at));
    out.text("updated", times::written(entry.updated_at));
    out.open("author", "");
    out.text("name", &caller.namespace);
    out.close("author");
    out.text_with("link", &format!("rel=\"self\" href=\"{}\"", quoted(&link)), "");
    out.open("content", "type=\"application/xml\"");
    text.push_str(&out.finish());
    text.push_str(&entry.description);
    text.push_str("</content></entry>");
}

fn answer(status: StatusCode, kind: &'static str, text: String) -> Answer {
    let mut answer = Response::new(Full::from(text));
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

/// An answer with one entry.
pub(super) fn one(status: StatusCode, entry: &Entry, caller: &Caller) -> Answer {
    let mut text = String::new();
    write(entry, caller, &format!("xmlns=\"{ATOM}\""), &mut text);
    answer(status, "application/atom+xml;type=entry;charset=utf-8", text)
}

/// A page of a list.
pub(super) struct Feed<'a> {
    pub(super) title: &'a str,
    pub(super) path: &'a str,
    pub(super) entries: Vec<Entry>,
    pub(super) page: Page,
    pub(super) next: Option<Page>,
    /// The version that the links to other pages name.
    pub(super) version: Option<&'a str>,
    pub(super) now: Timestamp,
}

/// An answer with a page of a list.
pub(super) fn many(feed: &Feed<'_>, caller: &Caller) -> Answer {
    let place = format!("{}/{}", caller.base, feed.path);
    let link = |page: Page| {
        let version = feed
            .version
            .map_or_else(String::new, |version| format!("&api-version={version}"));
        let Page { skip, top } = page;
        quoted(&format!("{place}?$skip={skip}&$top={top}{version}"))
    };
    let mut out = Out::default();
    out.open("feed", &format!("xmlns=\"{ATOM}\""));
    out.text_with("title", "type=\"text\"", feed.title);
    out.text("id", &place);
    out.text("updated", times::written(feed.now));
    out.text_with("link", &format!("rel=\"self\" href=\"{}\"", link(feed.page)), "");
    if let Some(next) = feed.next {
        out.text_with("link", &format!("rel=\"next\" href=\"{}\"", link(next)), "");
    }
    let mut text = out.finish();
    for entry in &feed.entries {
        write(entry, caller, "", &mut text);
    }
    text.push_str("</feed>");
    answer(StatusCode::OK, "application/atom+xml;type=feed;charset=utf-8", text)
}
