// SPDX-License-Identifier: Apache-2.0
//! The resources of the console, one file each: what a page shows, and what it changes.
//!
//! Handlers run on blocking threads. They use the broker as the other front ends do, and have no rules of their own.

mod browse;
mod connections;
mod dead_letters;
mod entity;
mod locks;
mod message;
mod overview;
mod page;
mod partitions;
mod reading;
mod rules;
mod send;
mod sessions;
mod settings;

use std::sync::Arc;

use axum::extract::Query;
use hyper::{StatusCode, Uri};
use oxbus_broker::entity::Entity;
use oxbus_log::event;
use oxbus_model::authorization::AccessRight;
use oxbus_model::name::{EntityName, SubQueue};
use oxbus_store::Wait;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::connections::Card;
use super::error::{ConsoleError, Result};
use super::session::Caller;
use super::state::Console;
use crate::front::Context;

/// A request for a resource.
pub(super) struct Request {
    context: Context,
    console: Arc<Console>,
    caller: Caller,
    uri: Uri,
    /// The connections, for resources that show them.
    cards: Vec<(u64, Card)>,
}

/// The entity of a request, with `/$deadletterqueue` for its dead letters.
#[derive(Deserialize)]
struct PathQuery {
    path: String,
}

impl Request {
    pub(super) fn new(
        context: &Context,
        console: &Arc<Console>,
        caller: Caller,
        uri: &Uri,
        cards: Vec<(u64, Card)>,
    ) -> Self {
        Self {
            context: context.clone(),
            console: Arc::clone(console),
            caller,
            uri: uri.clone(),
            cards,
        }
    }

    /// The time of the namespace, which a test may set.
    fn now_ms(&self) -> u64 {
        self.context.namespace().clock().now().0
    }

    fn query<T: DeserializeOwned>(&self) -> Result<T> {
        let query = Query::<T>::try_from_uri(&self.uri);
        let invalid = |error: axum::extract::rejection::QueryRejection| {
            ConsoleError::bad_request(format!("a parameter is missing or wrong: {}", error.body_text()))
        };
        query.map(|Query(query)| query).map_err(invalid)
    }

    fn entity(&self) -> Result<(Arc<Entity>, SubQueue)> {
        self.entity_of(&self.query::<PathQuery>()?.path)
    }

    fn entity_of(&self, path: &str) -> Result<(Arc<Entity>, SubQueue)> {
        let (path, sub_queue) = EntityName::split_sub_queue(path);
        Ok((self.context.namespace().entity(path)?, sub_queue))
    }

    /// Fails if the caller may not do this, or nobody may.
    fn check_change(&self, right: AccessRight) -> Result<()> {
        if self.console.options.is_read_only {
            return Err(ConsoleError::forbidden(
                "the directory is open for reading only; start `oxbus serve` to change it",
            ));
        }
        if self.caller.may(right) {
            return Ok(());
        }
        let right = right.name();
        Err(ConsoleError::forbidden(format!(
            "the key `{}` has not the right {right}; sign in with one that has",
            self.caller.key_name
        )))
    }

    /// Writes the log line of a change that was made.
    fn log_change(&self, action: &'static str, entity: &str, count: u64) {
        event!(
            CONSOLE_CHANGED,
            key_name = self.caller.key_name,
            peer = self.caller.peer.map(oxbus_log::display),
            entity,
            action,
            count
        );
    }
}

/// What a page shows.
pub(super) fn get(request: &Request, resource: &str, wait: &Wait<'_>) -> Result<Value> {
    match resource {
        "overview" => overview::get(request, wait),
        "entity" => entity::get(request, wait),
        "history" => entity::history(request),
        "messages" => browse::get(request, wait),
        "message" => message::get(request, wait),
        "dead-letters" => dead_letters::get(request, wait),
        "jobs" => Ok(dead_letters::jobs(request)),
        "sessions" => sessions::get(request, wait),
        "locks" => locks::get(request, wait),
        "connections" => Ok(connections::get(request)),
        "partitions" => Ok(partitions::get(request)),
        _ => Err(unknown(resource)),
    }
}

/// What a page changes. Only the test of a rule changes nothing.
pub(super) fn post(request: &Request, resource: &str, body: &[u8], wait: &Wait<'_>) -> Result<Value> {
    match resource {
        "rule-test" => return rules::test(request, body, wait),
        "send" | "send-edited" => request.check_change(AccessRight::Send)?,
        _ => request.check_change(AccessRight::Manage)?,
    }
    match resource {
        "send" => send::send(request, body, wait),
        "send-edited" => {
            request.check_change(AccessRight::Manage)?;
            send::send_edited(request, body, wait)
        }
        "settings" => settings::change(request, body, wait),
        "rule" => rules::put(request, body, wait),
        "rule-delete" => rules::delete(request, body, wait),
        "resubmit" => dead_letters::resubmit(request, body, wait),
        "purge" => dead_letters::purge(request, body, wait),
        "job-cancel" => dead_letters::cancel(request, body),
        "heal" => partitions::heal(request, body, wait),
        _ => Err(unknown(resource)),
    }
}

fn unknown(resource: &str) -> ConsoleError {
    let detail = format!("the console has no resource `{resource}`; reload the page");
    ConsoleError::new(StatusCode::NOT_FOUND, detail)
}
