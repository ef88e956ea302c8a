// SPDX-License-Identifier: Apache-2.0
//! `overview`: all entities, and the sums of the namespace.

use std::sync::Arc;

use oxbus_model::sync::ignore_poison;
use oxbus_store::Wait;
use serde_json::{Value, json};

use super::Request;
use super::page::PageQuery;
use crate::console::error::Result;
use crate::console::history::ALL;
use crate::console::overview_row::Row;

/// The rows are read again after this time.
const FRESH_MS: u64 = 1_500;

/// The rows of all entities, by path.
fn rows(request: &Request, wait: &Wait<'_>) -> Result<Arc<Vec<Row>>> {
    let now = request.context.now();
    // Pages that are read at the same time wait for one another, and read the rows once.
    let mut cache = ignore_poison(request.console.overview.lock());
    if let Some((at, rows)) = cache.as_ref()
        && now.0 < at.0 + FRESH_MS
    {
        return Ok(Arc::clone(rows));
    }
    let rates = request.console.history.rates();
    let entities = request.context.namespace().list_entities()?;
    let rows = entities.iter().map(|entity| Row::of(entity, &rates, wait));
    let rows = Arc::new(rows.collect::<oxbus_model::Result<Vec<Row>>>()?);
    *cache = Some((now, Arc::clone(&rows)));
    Ok(rows)
}

pub(super) fn get(request: &Request, wait: &Wait<'_>) -> Result<Value> {
    let query: PageQuery = request.query()?;
    let all = rows(request, wait)?;
    let mut found: Vec<&Row> = all.iter().filter(|row| query.finds(&row.name)).collect();
    let (column, is_down) = query.order();
    let number: Option<fn(&Row) -> f64> = match column {
        "active" => Some(|it| it.active as f64),
        "dead" => Some(|it| it.dead as f64),
        "scheduled" => Some(|it| it.scheduled as f64),
        "locked" => Some(|it| it.locked as f64),
        "bytes" => Some(|it| it.bytes as f64),
        "in" => Some(|it| it.rates.in_per_second),
        "out" => Some(|it| it.rates.out_per_second),
        // The oldest has the smallest time and the greatest age; an entity without messages has none.
        "oldest" => Some(|it| it.oldest_ms.map_or(0.0, |ms| -(ms as f64) + 1e15)),
        _ => None,
    };
    match (number, column) {
        (Some(number), _) => found.sort_by(|a, b| number(a).total_cmp(&number(b))),
        (None, "kind") => found.sort_by_key(|row| row.kind),
        (None, "status") => found.sort_by_key(|row| (row.is_available, row.status.clone())),
        (None, _) => {}
    }
    if is_down {
        found.reverse();
    }
    let sum = |value: fn(&Row) -> u64| all.iter().map(value).sum::<u64>();
    let namespace = request.context.namespace();
    let health = namespace.partition_health();
    let rates = request.console.history.rates();
    Ok(json!({
        "now_ms": request.now_ms(),
        "totals": {
            "entities": all.len(),
            "active": sum(|it| it.active),
            "dead": sum(|it| it.dead),
            "scheduled": sum(|it| it.scheduled),
            "locked": sum(|it| it.locked),
            "bytes": sum(|it| it.bytes),
            "rates": rates.get(ALL).copied().unwrap_or_default(),
            "partitions": health.len(),
            "partitions_out": health.iter().filter(|it| it.reason.is_some()).count(),
            "is_durable": namespace.is_durable(),
        },
        "page": query.cut(found.into_iter()),
    }))
}
