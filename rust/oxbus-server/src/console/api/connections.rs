// SPDX-License-Identifier: Apache-2.0
//! `connections`: the open connections with their links, and the refusals of the last hour.

use serde_json::{Value, json};

use super::Request;
use super::page::ROWS_MAX;

pub(super) fn get(request: &Request) -> Value {
    let now = request.context.now();
    let shown = request.cards.iter().take(ROWS_MAX).map(|(number, card)| {
        let mut row = json!(card);
        row["number"] = json!(number);
        row
    });
    json!({
        "now_ms": now.0,
        "total": request.cards.len(),
        "connections": shown.collect::<Vec<_>>(),
        "refusals": request.context.meters().refusals().list(now),
    })
}
