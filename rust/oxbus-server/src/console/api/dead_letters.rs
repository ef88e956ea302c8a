// SPDX-License-Identifier: Apache-2.0
//! `dead-letters`: dead letters by reason and description; `resubmit` and `purge` with their jobs.

use std::collections::BTreeMap;

use oxbus_broker::entity::MessageSelector;
use oxbus_broker::record::{DEAD_LETTER_DESCRIPTION, DEAD_LETTER_REASON};
use oxbus_model::name::EntityName;
use oxbus_model::options::in_range;
use oxbus_model::rules::OwnedValue;
use oxbus_model::{SequenceNumber, Timestamp};
use oxbus_store::Wait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Request;
use super::message::{brief, text_property};
use super::reading::{browse_each, receiver};
use crate::console::error::{ConsoleError, Result, from_json};
use crate::console::resubmission::{FilterText, Resubmission, start};

/// Dead letters that are grouped.
const LOOKED_AT_MAX: usize = 50_000;
const GROUPS_MAX: usize = 200;
/// Messages that a group shows.
const SAMPLES: usize = 5;
const PER_SECOND_MAX: u64 = 1_000_000;

#[derive(Default)]
struct Group {
    count: u64,
    oldest_ms: u64,
    newest_ms: u64,
    samples: Vec<Value>,
}

#[derive(Deserialize)]
struct PathOnly {
    path: String,
}

/// The exception of a description: its first line, without what differs from message to message.
fn exception(description: &str) -> String {
    let line = description.lines().next().unwrap_or_default();
    line.chars()
        .map(|it| if it.is_ascii_digit() { '#' } else { it })
        .take(200)
        .collect()
}

pub(super) fn get(request: &Request, wait: &Wait<'_>) -> Result<Value> {
    let path = request.query::<PathOnly>()?.path;
    let (own, _) = EntityName::split_sub_queue(&path);
    let receiver = receiver(request, &format!("{own}/$deadletterqueue"), None)?;
    let mut groups: BTreeMap<(String, String), Group> = BTreeMap::new();
    let (looked_at, next) = browse_each(
        &receiver,
        SequenceNumber(0),
        LOOKED_AT_MAX,
        |item, fields| {
            let of = |name| text_property(fields, name).unwrap_or_default();
            let mut key = (
                of(DEAD_LETTER_REASON).to_owned(),
                exception(of(DEAD_LETTER_DESCRIPTION)),
            );
            if groups.len() >= GROUPS_MAX && !groups.contains_key(&key) {
                "(further ones)".clone_into(&mut key.1);
            }
            let group = groups.entry(key).or_default();
            let at = item.message.enqueued_at.0;
            group.oldest_ms = if group.count == 0 { at } else { group.oldest_ms.min(at) };
            group.newest_ms = group.newest_ms.max(at);
            group.count += 1;
            if group.samples.len() < SAMPLES {
                group.samples.push(brief(receiver.entity(), item)?);
            }
            Ok(true)
        },
        wait,
    )?;
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.count));
    let shown = groups.into_iter().map(|((reason, exception), group)| {
        json!({
            "reason": reason, "exception": exception, "count": group.count,
            "oldest_ms": group.oldest_ms, "newest_ms": group.newest_ms, "samples": group.samples,
        })
    });
    let entity = receiver.entity();
    let jobs = request.console.jobs.list();
    let own_jobs = jobs.into_iter().filter(|job| job.entity == entity.name().as_str());
    Ok(json!({
        "name": entity.name().as_str(),
        "now_ms": request.now_ms(),
        "groups": shown.collect::<Vec<_>>(),
        "looked_at": looked_at,
        "is_complete": next.is_none(),
        "total": entity.counts(wait)?.total.dead_letter,
        "jobs": own_jobs.take(10).collect::<Vec<_>>(),
    }))
}

pub(super) fn jobs(request: &Request) -> Value {
    json!({ "jobs": request.console.jobs.list() })
}

/// What to resubmit or purge.
#[derive(Deserialize)]
struct Selection {
    path: String,
    /// Only dead letters with this reason.
    #[serde(default)]
    reason: Option<String>,
    /// Only messages that this SQL filter selects.
    #[serde(default)]
    filter: Option<String>,
    #[serde(default)]
    per_second: Option<u64>,
    /// The name of the entity, typed.
    #[serde(default)]
    confirmation: String,
}

impl Selection {
    /// The reason is a parameter, because it may be longer than the text of a filter.
    fn filter(&self) -> FilterText {
        let own = self
            .filter
            .as_deref()
            .map(str::trim)
            .filter(|filter| !filter.is_empty());
        let reason = self.reason.as_deref().map(|reason| match reason {
            "" => format!("{DEAD_LETTER_REASON} IS NULL OR {DEAD_LETTER_REASON} = ''"),
            _ => format!("{DEAD_LETTER_REASON} = @reason"),
        });
        let parts = [own.map(str::to_owned), reason].into_iter().flatten();
        let parts: Vec<String> = parts.map(|part| format!("({part})")).collect();
        let value = self.reason.clone().filter(|reason| !reason.is_empty());
        FilterText {
            expression: parts.join(" AND "),
            parameters: value
                .map(|reason| ("reason".to_owned(), OwnedValue::Text(reason)))
                .into_iter()
                .collect(),
        }
    }
}

pub(super) fn resubmit(request: &Request, body: &[u8], wait: &Wait<'_>) -> Result<Value> {
    let given: Selection = from_json(body)?;
    let (entity, _) = request.entity_of(&given.path)?;
    let per_second = given.per_second.unwrap_or(100);
    in_range("per_second", per_second, 1, PER_SECOND_MAX, "messages")?;
    let filter = given.filter();
    filter.parse()?;
    let total = entity.counts(wait)?.total.dead_letter;
    let work = Resubmission {
        total,
        filter,
        per_second,
        before: Timestamp(request.context.namespace().clock().now().0 + 1),
        entity: std::sync::Arc::clone(&entity),
    };
    let id = start(&request.context, &request.console, &request.caller, work);
    request.log_change("resubmit", entity.name().as_str(), total);
    Ok(json!({ "job": id }))
}

pub(super) fn purge(request: &Request, body: &[u8], wait: &Wait<'_>) -> Result<Value> {
    let given: Selection = from_json(body)?;
    let (entity, sub_queue) = request.entity_of(&given.path)?;
    let name = entity.name().as_str();
    if given.confirmation != name {
        return Err(ConsoleError::bad_request(format!(
            "a purge cannot be undone; type the name of the entity to confirm it: `{name}`"
        )));
    }
    let selector = MessageSelector {
        filter: given.filter().parse()?,
        ..MessageSelector::default()
    };
    let count = entity.purge(sub_queue, &selector, wait)?;
    request.log_change("purge", name, count as u64);
    Ok(json!({ "count": count }))
}

#[derive(Deserialize)]
struct JobNumber {
    id: u64,
}

pub(super) fn cancel(request: &Request, body: &[u8]) -> Result<Value> {
    let JobNumber { id } = from_json(body)?;
    if !request.console.jobs.cancel(id) {
        return Err(ConsoleError::bad_request("there is no such job any more"));
    }
    request.log_change("cancel_job", "", id);
    Ok(json!({}))
}

#[cfg(test)]
mod tests {
    use super::{Selection, exception};

    #[test]
    fn a_reason_becomes_a_filter_whatever_it_contains() {
        let selection = |reason: &str, filter: Option<&str>| Selection {
            path: String::new(),
            reason: Some(reason.to_owned()),
            filter: filter.map(str::to_owned),
            per_second: None,
            confirmation: String::new(),
        };
        let filter = selection("it's '; -- bad", Some("a = 1")).filter();
        assert_eq!(filter.expression, "(a = 1) AND (DeadLetterReason = @reason)");
        for reason in ["it's", "", &"x".repeat(10_000)] {
            assert!(selection(reason, None).filter().parse().expect("a filter").is_some());
        }
    }

    #[test]
    fn descriptions_that_differ_in_numbers_are_one_exception() {
        assert_eq!(exception("order 17 failed\n at line 3"), "order ## failed");
    }
}
