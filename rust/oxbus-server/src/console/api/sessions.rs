// SPDX-License-Identifier: Apache-2.0
//! `sessions`: the sessions of an entity, with their holders.

use oxbus_broker::shard::SessionInfo;
use oxbus_model::Ticks;
use oxbus_store::Wait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Request;
use super::page::PageQuery;
use crate::console::error::Result;

#[derive(Deserialize)]
struct SessionsQuery {
    #[serde(default)]
    state: String,
}

pub(super) fn get(request: &Request, wait: &Wait<'_>) -> Result<Value> {
    let (entity, _) = request.entity()?;
    let query: PageQuery = request.query()?;
    let only = request.query::<SessionsQuery>()?.state;
    let all = entity.list_sessions(wait)?;
    let total = all.len();
    let is_wanted = |info: &SessionInfo| match only.as_str() {
        "held" => info.owner.is_some(),
        "free" => info.owner.is_none(),
        _ => true,
    };
    let mut found: Vec<&(usize, SessionInfo)> = all
        .iter()
        .filter(|(_, info)| query.finds(&info.id) && is_wanted(info))
        .collect();
    let (column, is_down) = query.order();
    match column {
        "messages" => found.sort_by_key(|(_, info)| info.messages),
        "oldest" => found.sort_by_key(|(_, info)| std::cmp::Reverse(info.oldest.map_or(u64::MAX, |at| at.0))),
        "holder" => found.sort_by_key(|(_, info)| info.owner.clone()),
        "until" => found.sort_by_key(|(_, info)| info.deadline.map(|deadline| deadline.0)),
        "partition" => found.sort_by_key(|(index, _)| *index),
        _ => {}
    }
    if is_down {
        found.reverse();
    }
    let moment = request.context.namespace().clock().moment();
    let until = |deadline: Ticks| moment.now.plus_ms(deadline.0.saturating_sub(moment.ticks.0)).0;
    let peer_of = |owner: &str| {
        let mut holders = request
            .cards
            .iter()
            .filter(|(_, card)| card.links.iter().any(|link| link.name == owner));
        holders
            .next()
            .map(|(number, card)| json!({ "connection": number, "peer": card.peer }))
    };
    let page = query.cut(found.into_iter());
    let rows: Vec<Value> = page
        .rows
        .iter()
        .map(|(index, info)| {
            json!({
                "id": *info.id,
                "partition": entity.visible_partition(*index).map(|it| it.0),
                "messages": info.messages,
                "oldest_ms": info.oldest.map(|at| at.0),
                "holder": info.owner,
                "holder_connection": info.owner.as_deref().and_then(peer_of),
                "until_ms": info.deadline.map(until),
                "state_set_ms": info.state_set_at.map(|at| at.0),
            })
        })
        .collect();
    Ok(json!({
        "now_ms": moment.now.0,
        "name": entity.name().as_str(),
        "total": total,
        "page": { "rows": rows, "found": page.found, "page": page.page, "pages": page.pages },
    }))
}
