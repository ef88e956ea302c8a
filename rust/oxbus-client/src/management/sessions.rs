// SPDX-License-Identifier: Apache-2.0
//! Requests about sessions: the lock and state of one, and the list of all.

use bytes::Bytes;
use oxbus_amqp::codec::{AmqpTimestamp, AmqpValue};
use oxbus_model::Timestamp;

use super::messages::{no_session, time};
use super::{Arguments, Management};
use crate::connection::{lacks, required};
use crate::deadline::Deadline;
use crate::error::Result;
use crate::transaction::Transaction;

/// Sessions of a page.
const PAGE: usize = 100;
/// Selects sessions with messages or a state: the end of the year 9999, as the SDK writes it.
const ANY_TIME_MS: i64 = 253_402_300_800_000;

impl Management {
    fn session_arguments(&self) -> Result<Arguments> {
        match &self.session {
            Some(_) => Ok(self.arguments()),
            None => Err(no_session()),
        }
    }

    /// Renews the lock of the session. Returns its new end.
    pub async fn renew_session_lock(&self, deadline: Deadline) -> Result<Timestamp> {
        let arguments = self.session_arguments()?;
        let body = self.ask("renew-session-lock", arguments, deadline).await?;
        time(
            required(&body.ok_or_else(|| lacks("expiration"))?, "expiration")?,
            "expiration",
        )
    }

    /// The state of the session.
    pub async fn session_state(&self, deadline: Deadline) -> Result<Option<Bytes>> {
        let arguments = self.session_arguments()?;
        let body = self.ask("get-session-state", arguments, deadline).await?;
        match body.as_ref().and_then(|body| body.get("session-state")) {
            None | Some(AmqpValue::Null) => Ok(None),
            Some(AmqpValue::Binary(bytes)) => Ok(Some(bytes.clone())),
            Some(_) => Err(lacks("session-state")),
        }
    }

    /// Sets the state of the session. `None` clears it.
    pub async fn set_session_state(
        &self,
        state: Option<Bytes>,
        transaction: Option<&Transaction>,
        deadline: Deadline,
    ) -> Result<()> {
        let state = state.map_or(AmqpValue::Null, AmqpValue::from);
        let arguments = self.session_arguments()?.with("session-state", state);
        self.tell("set-session-state", arguments, transaction, deadline)
            .await
            .map(drop)
    }

    /// The ids of sessions with messages or a state, or of those whose state was set after a time.
    pub async fn list_sessions(&self, updated_since: Option<Timestamp>, deadline: Deadline) -> Result<Vec<String>> {
        let since = updated_since.map_or(ANY_TIME_MS, |time| time.0.cast_signed());
        let mut found = Vec::new();
        loop {
            let arguments = Arguments::new()
                .with("last-updated-time", AmqpTimestamp(since))
                .with("skip", i32::try_from(found.len()).unwrap_or(i32::MAX))
                .with("top", i32::try_from(PAGE).unwrap_or(i32::MAX));
            let Some(body) = self.ask("get-message-sessions", arguments, deadline).await? else {
                return Ok(found);
            };
            let ids = required(&body, "sessions-ids")?
                .as_items()
                .ok_or_else(|| lacks("sessions-ids"))?;
            found.extend(ids.iter().filter_map(AmqpValue::as_text).map(str::to_owned));
            if ids.len() < PAGE {
                return Ok(found);
            }
        }
    }
}
