// SPDX-License-Identifier: Apache-2.0
//! `locks`: who holds messages: links of connections, receivers without one, reservations of Spark, and staged sends.

use std::collections::BTreeMap;

use oxbus_broker::client::{ReservationInfo, ReservationStatus};
use oxbus_broker::stage::StageState;
use oxbus_model::SequenceNumber;
use oxbus_model::name::EntityName;
use oxbus_model::name::SubQueue;
use oxbus_store::{MessagePhase, Wait};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Request;
use super::message::brief;
use super::reading::{browse_each, number_of, receiver};
use crate::console::error::Result;

/// Locked messages of an entity that a page shows.
const LOCKED_MAX: usize = 200;
const LOOKED_AT_MAX: usize = 20_000;
/// Entities whose reservations are looked for.
const ENTITIES_MAX: usize = 20_000;

#[derive(Deserialize)]
struct LocksQuery {
    #[serde(default)]
    path: String,
}

pub(super) fn get(request: &Request, wait: &Wait<'_>) -> Result<Value> {
    let path = request.query::<LocksQuery>()?.path;
    let locked = if path.is_empty() {
        Value::Null
    } else {
        locked_messages(request, &path, wait)?
    };
    Ok(json!({
        "now_ms": request.now_ms(),
        "holders": holders(request, &path),
        "locked": locked,
        "reservations": reservations(request, &path, wait)?,
        "stages": stages(request, &path),
    }))
}

/// The links that hold messages.
fn holders(request: &Request, path: &str) -> Vec<Value> {
    let key = EntityName::key_of(path);
    let mut found = Vec::new();
    for (number, card) in &request.cards {
        for link in &card.links {
            let is_of_entity = path.is_empty()
                || link
                    .entity
                    .as_deref()
                    .is_some_and(|entity| EntityName::key_of(entity) == key);
            if link.role == "receive" && is_of_entity {
                found.push(json!({
                    "connection": number, "peer": card.peer, "sdk": card.sdk, "key_name": card.key_name,
                    "link": link.name, "entity": link.entity, "session": link.session, "mode": link.mode,
                    "credit": link.credit, "unsettled": link.unsettled, "held": link.held, "idle_ms": link.idle_ms,
                }));
            }
        }
    }
    found
}

/// The locked messages of an entity, each with the link that holds it, if it is one of a connection.
fn locked_messages(request: &Request, path: &str, wait: &Wait<'_>) -> Result<Value> {
    let receiver = receiver(request, path, None)?;
    let key = EntityName::key_of(path);
    let mut held: BTreeMap<&str, Value> = BTreeMap::new();
    for (number, card) in &request.cards {
        for link in &card.links {
            if link
                .entity
                .as_deref()
                .is_some_and(|entity| EntityName::key_of(entity) == key)
            {
                let holder = json!({ "connection": number, "peer": card.peer, "link": link.name });
                held.extend(link.held.iter().map(|message| (message.as_str(), holder.clone())));
            }
        }
    }
    let mut rows = Vec::new();
    let (looked_at, _) = browse_each(
        &receiver,
        SequenceNumber(0),
        LOOKED_AT_MAX,
        |item, _| {
            if matches!(item.message.phase, MessagePhase::Locked | MessagePhase::DeferredLocked) {
                let mut row = brief(receiver.entity(), item)?;
                row["holder"] = held
                    .get(number_of(item).0.to_string().as_str())
                    .cloned()
                    .unwrap_or(Value::Null);
                rows.push(row);
            }
            Ok(rows.len() < LOCKED_MAX)
        },
        wait,
    )?;
    Ok(json!({ "messages": rows, "looked_at": looked_at }))
}

/// The reservations of Spark's consumers: of one entity, or of all.
fn reservations(request: &Request, path: &str, wait: &Wait<'_>) -> Result<Vec<Value>> {
    let namespace = request.context.namespace();
    let of = |path: &str| -> Vec<ReservationInfo> {
        // A topic has none.
        let known = namespace.reservations(path);
        known.map(|known| known.list(wait)).unwrap_or_default()
    };
    let paths: Vec<String> = if path.is_empty() {
        let entities = namespace.list_entities()?;
        entities
            .iter()
            .take(ENTITIES_MAX)
            .map(|it| it.name().as_str().to_owned())
            .collect()
    } else {
        vec![path.to_owned()]
    };
    let shown = |path: &str, it: &ReservationInfo| {
        json!({
            "entity": path, "consumer": it.consumer, "epoch": it.epoch, "done": it.done, "reservation": it.n,
            "messages": it.messages, "is_live": it.standing == ReservationStatus::Live,
            "expires_ms": it.expires_at.map(|at| at.0),
        })
    };
    Ok(paths
        .iter()
        .flat_map(|path| of(path).iter().map(|it| shown(path, it)).collect::<Vec<_>>())
        .collect())
}

/// The staged sends to one entity, or to all.
fn stages(request: &Request, path: &str) -> Vec<Value> {
    let (own, sub_queue) = EntityName::split_sub_queue(path);
    let key = EntityName::key_of(own);
    let stages = request.context.namespace().stages().list();
    let is_wanted = |entity: &str| own.is_empty() || EntityName::key_of(entity) == key;
    let stages = stages
        .iter()
        .filter(|it| is_wanted(&it.entity) && sub_queue == SubQueue::Main);
    let shown = stages.map(|it| {
        let (state, of) = match &it.state {
            StageState::Open => ("open", Value::Null),
            StageState::Ready => ("ready", Value::Null),
            StageState::Committed { sink, batch } => ("committed", json!(format!("{sink}, batch {batch}"))),
            StageState::Damaged(reason) => ("damaged", json!(reason)),
        };
        json!({
            "id": it.id, "entity": it.entity, "created_ms": it.created_at.0, "expires_ms": it.expires_at.0,
            "rows": it.rows, "bytes": it.bytes, "state": state, "of": of,
        })
    });
    shown.collect()
}
