// SPDX-License-Identifier: Apache-2.0
//! `messages`: browses messages with filters. Nothing is locked by it.

use oxbus_broker::client::BrowseItem;
use oxbus_model::message::Fields;
use oxbus_store::Wait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Request;
use super::message::{brief, text_of_value};
use super::reading::{browse_each, parse_number, receiver};
use crate::console::error::Result;

/// Messages of a page.
const FOUND_MAX: usize = 50;
/// Messages that one request looks at. The next request continues.
const LOOKED_AT_MAX: usize = 20_000;

#[derive(Deserialize)]
#[serde(default)]
struct BrowseQuery {
    path: String,
    partition: Option<u16>,
    session: String,
    /// `NAME`, or `NAME=VALUE`.
    property: String,
    text: String,
    from_ms: Option<u64>,
    to_ms: Option<u64>,
    /// The number at which the page begins.
    from: String,
}

impl Default for BrowseQuery {
    fn default() -> Self {
        Self {
            path: String::new(),
            partition: None,
            session: String::new(),
            property: String::new(),
            text: String::new(),
            from_ms: None,
            to_ms: None,
            from: "0".to_owned(),
        }
    }
}

impl BrowseQuery {
    fn finds(&self, item: &BrowseItem, fields: &Fields<'_>) -> bool {
        let enqueued = item.message.enqueued_at.0;
        let is_in_time = self.from_ms.is_none_or(|from| from <= enqueued) && self.to_ms.is_none_or(|to| enqueued < to);
        let is_of_session = self.session.is_empty() || fields.session_id == Some(&self.session);
        is_in_time && is_of_session && self.has_property(fields) && self.has_text(fields)
    }

    fn has_property(&self, fields: &Fields<'_>) -> bool {
        if self.property.is_empty() {
            return true;
        }
        let (name, wanted) = match self.property.split_once('=') {
            Some((name, value)) => (name.trim(), Some(value.trim())),
            None => (self.property.trim(), None),
        };
        let value = fields
            .application_properties
            .and_then(|properties| properties.get(name));
        value.is_some_and(|value| wanted.is_none_or(|wanted| text_of_value(value) == wanted))
    }

    fn has_text(&self, fields: &Fields<'_>) -> bool {
        if self.text.is_empty() {
            return true;
        }
        let body = fields.body.data();
        let texts = [fields.subject, fields.correlation_id, fields.given_id()];
        let wanted = self.text.as_bytes();
        body.windows(wanted.len()).any(|it| it == wanted)
            || texts.into_iter().flatten().any(|text| text.contains(&self.text))
    }
}

pub(super) fn get(request: &Request, wait: &Wait<'_>) -> Result<Value> {
    let query: BrowseQuery = request.query()?;
    let receiver = receiver(request, &query.path, query.partition)?;
    let mut found = Vec::new();
    let (looked_at, next) = browse_each(
        &receiver,
        parse_number(&query.from)?,
        LOOKED_AT_MAX,
        |item, fields| {
            if query.finds(item, fields) {
                found.push(brief(receiver.entity(), item)?);
            }
            Ok(found.len() < FOUND_MAX)
        },
        wait,
    )?;
    Ok(json!({
        "now_ms": request.now_ms(),
        "messages": found,
        "looked_at": looked_at,
        "next": next.map(|next| next.0.to_string()),
    }))
}
