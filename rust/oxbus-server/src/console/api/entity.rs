// SPDX-License-Identifier: Apache-2.0
//! `entity`: one entity with its partitions, settings, rules and subscriptions; `history`: its samples.

use oxbus_model::EntityKind;
use oxbus_store::Wait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Request;
use super::rules::shown;
use super::settings;
use crate::console::error::Result;
use crate::console::history::ALL;

/// Subscriptions of a topic in the page; the overview has all.
const SUBSCRIPTIONS_MAX: usize = 200;

pub(super) fn get(request: &Request, wait: &Wait<'_>) -> Result<Value> {
    let (entity, _) = request.entity()?;
    let counts = entity.counts(wait)?;
    let namespace = request.context.namespace();
    let health = namespace.partition_health();
    let partitions: Vec<Value> = counts
        .partitions
        .iter()
        .map(|(id, is_reached, it)| {
            let reason = health
                .iter()
                .find(|health| health.partition == *id)
                .and_then(|it| it.reason.clone());
            let out = it.locked + it.deferred;
            json!({
                "partition": id.0,
                "is_reached": is_reached,
                "reason": reason,
                "ready": it.active.saturating_sub(out),
                "locked": it.locked,
                "deferred": it.deferred,
                "scheduled": it.scheduled,
                "dead": it.dead_letter,
                "transfer": it.transfer,
                "bytes": it.size_bytes,
            })
        })
        .collect();
    let (topic, subscription) = entity.name().parts();
    let (created, updated, accessed) = entity.times();
    let rules: Vec<Value> = if entity.kind() == EntityKind::Subscription {
        let rules = namespace.list_rules(topic, subscription.unwrap_or_default())?;
        rules.iter().map(shown).collect()
    } else {
        Vec::new()
    };
    let subscriptions = entity.subscriptions();
    let names = subscriptions.iter().take(SUBSCRIPTIONS_MAX);
    let names: Vec<&str> = names.map(|it| it.name().as_str()).collect();
    let rates = request.console.history.rates();
    Ok(json!({
        "now_ms": request.now_ms(),
        "name": entity.name().as_str(),
        "kind": entity.kind().name(),
        "is_available": entity.is_available(),
        "is_partitioned": entity.is_partitioned(),
        "requires_session": entity.requires_session(),
        "created_ms": created.0,
        "updated_ms": updated.0,
        "accessed_ms": accessed.map(|it| it.0),
        "partitions": partitions,
        "rates": rates.get(entity.name().as_str()).copied().unwrap_or_default(),
        "settings": settings::shown(&entity, namespace.plan()),
        "rules": rules,
        "subscriptions": names,
        "subscriptions_all": subscriptions.len(),
    }))
}

#[derive(Deserialize)]
struct HistoryQuery {
    #[serde(default)]
    path: String,
}

/// The samples of an entity, or of all without a path.
pub(super) fn history(request: &Request) -> Result<Value> {
    let path = request.query::<HistoryQuery>()?.path;
    let name = if path.is_empty() {
        ALL.to_owned()
    } else {
        request.entity_of(&path)?.0.name().as_str().to_owned()
    };
    Ok(json!(request.console.history.series(&name)))
}
