// SPDX-License-Identifier: Apache-2.0
//! Access to bulk calls: the shared access signature must be valid, give the right, and cover the entity.
//!
//! | Right | Calls |
//! |---|---|
//! | Send | send, stages: begin, commit, abort |
//! | Listen | receive, settle, peek, reservations |
//! | Manage | cancel, discard, lists of reservations and stages, backup, and all of the above |
//! | any | describe, with counts only for Listen or Manage |
//!
//! A call without an entity needs a token for the whole namespace. The token is checked before the body is read. The
//! right and the path are checked as soon as the entity is known.

use std::sync::{Arc, OnceLock};

use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use oxbus_broker::SystemClock;
use oxbus_model::authorization::AccessRight;
use oxbus_model::{Clock, Timestamp};

use super::BulkState;
use super::error::{BulkError, MissingEntity};
use crate::blocking::run_lookup;
use crate::sas::{AccessDenied, Claims, DenialReason, log_missing_entity};

/// The path of calls without an entity.
pub(super) const NAMESPACE: &str = "";

/// The caller of a request.
#[derive(Clone)]
pub(super) struct BulkCaller {
    claims: Claims,
    /// The path of the call, once it is known.
    path: Arc<OnceLock<String>>,
}

/// Real time, because a manual clock applies to messages, not to the expiry of tokens.
fn now() -> Timestamp {
    SystemClock::new().now()
}

impl BulkCaller {
    /// Checks that the token gives the right at the path.
    pub(super) fn authorize(&self, right: AccessRight, path: &str) -> Result<(), BulkError> {
        self.set_path(path);
        Ok(self.claims.check(right, path, now())?)
    }

    /// Checks that the token covers the path. Returns true if its holder may see counts there.
    pub(super) fn sees_counts(&self, path: &str) -> Result<bool, BulkError> {
        self.set_path(path);
        self.claims.check_path(path, now())?;
        Ok(self.claims.grants(AccessRight::Listen))
    }

    fn set_path(&self, path: &str) {
        self.path.get_or_init(|| path.to_owned());
    }

    /// Logs that the call named an entity that does not exist.
    fn log_missing_entity(&self) {
        let path = self.path.get().map_or(NAMESPACE, String::as_str);
        log_missing_entity(path, Some(&self.claims.key_name));
    }
}

async fn identify(state: BulkState, token: Result<String, DenialReason>) -> Result<Claims, BulkError> {
    let token = token.map_err(|reason| AccessDenied::new(reason, NAMESPACE, None))?;
    let bulk = state.clone();
    let identified = run_lookup(state.namespace(), move |_| Ok(bulk.authority().identify(&token, now())));
    Ok(identified.await??)
}

/// Passes on requests that have a valid token, whatever its rights.
pub(super) async fn authenticate(State(state): State<BulkState>, mut request: Request, next: Next) -> Response {
    let header = request.headers().get(AUTHORIZATION).map(|value| value.to_str());
    let token = match header {
        None => Err(DenialReason::Missing),
        Some(Err(_)) => Err(DenialReason::Malformed("it is not ASCII")),
        Some(Ok(token)) => Ok(token.to_owned()),
    };
    match identify(state, token).await {
        Ok(claims) => {
            let path = Arc::default();
            let caller = BulkCaller { claims, path };
            request.extensions_mut().insert(caller.clone());
            let response = next.run(request).await;
            if response.extensions().get::<MissingEntity>().is_some() {
                caller.log_missing_entity();
            }
            response
        }
        Err(error) => error.into_response(),
    }
}
