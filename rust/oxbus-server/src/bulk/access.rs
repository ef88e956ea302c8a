// SPDX-License-Identifier: Apache-2.0
//! Access to bulk calls: the shared access signature must be valid, give the right, and cover the entity.
//!
//! | Right | Calls |
//! |---|---|
//! | Send | send, stages: begin, commit, abort |
//! | Listen | receive, settle, peek, reservations |
//! | Manage | cancel, discard, lists of reservations and stages; and the others |
//! | any | describe; counts with Listen or Manage only |
//!
//! A call that names no entity needs a token of the whole namespace. The token is checked before the body is read, the
//! right and the place as soon as the entity is known.

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

/// The place of calls that name no entity.
pub(super) const NAMESPACE: &str = "";

/// Who calls.
#[derive(Clone)]
pub(super) struct BulkCaller {
    claims: Claims,
    /// The place that the call is about, once it is known.
    path: Arc<OnceLock<String>>,
}

/// Real time: a clock that is moved by hand moves messages, not who may see them.
fn now() -> Timestamp {
    SystemClock::new().now()
}

impl BulkCaller {
    /// Refuses a call that needs a right at a place which the token does not give.
    pub(super) fn authorize(&self, right: AccessRight, path: &str) -> Result<(), BulkError> {
        self.set_path(path);
        Ok(self.claims.check(right, path, now())?)
    }

    /// Refuses a call about a place that the token is not for, and says whether counts may be shown there.
    pub(super) fn sees_counts(&self, path: &str) -> Result<bool, BulkError> {
        self.set_path(path);
        self.claims.check_path(path, now())?;
        Ok(self.claims.grants(AccessRight::Listen))
    }

    fn set_path(&self, path: &str) {
        self.path.get_or_init(|| path.to_owned());
    }

    /// Says in the log that the call named an entity that does not exist.
    fn log_missing_entity(&self) {
        let path = self.path.get().map_or(NAMESPACE, String::as_str);
        log_missing_entity(path, Some(&self.claims.key_name));
    }
}

async fn identify(state: BulkState, token: Result<String, DenialReason>) -> Result<Claims, BulkError> {
    let token = token.map_err(|why| AccessDenied::new(why, NAMESPACE, None))?;
    let authority = state.clone();
    let identified = run_lookup(state.namespace(), move |_| {
        Ok(authority.authority().identify(&token, now()))
    });
    Ok(identified.await??)
}

/// Lets a request through that shows a valid token, whatever that allows.
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
