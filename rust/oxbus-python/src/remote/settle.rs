// SPDX-License-Identifier: Apache-2.0
//! Settling messages of a server.

use std::future::Future;
use std::sync::Arc;

use oxbus_amqp::codec::{AmqpValue, Map};
use oxbus_amqp::record::to_amqp_value;
use oxbus_client::{ClientError, Deadline, Result, SettleHandle, Settlement};
use oxbus_model::message::Value;
use oxbus_model::sync::ignore_poison;
use oxbus_model::{LockToken, Timestamp};
use pyo3::prelude::*;

use super::RemoteTransaction;
use super::call;
use super::error::raise;
use super::message::RemoteMessage;
use super::receiver::RemoteReceiver;

/// The settlement of a call, as the client takes it.
pub(super) fn settlement(of: oxbus_broker::client::Settlement<'_>) -> Settlement {
    use oxbus_broker::client::Settlement as Call;
    match of {
        Call::Complete => Settlement::Complete,
        Call::Abandon(entries) => Settlement::Abandon {
            changes: changes(entries),
            delay_ms: 0,
        },
        Call::AbandonFor {
            changes: entries,
            delay_ms,
        } => Settlement::Abandon {
            changes: changes(entries),
            delay_ms,
        },
        Call::Defer(entries) => Settlement::Defer {
            changes: changes(entries),
        },
        Call::DeadLetter {
            reason,
            description,
            changes: entries,
        } => Settlement::DeadLetter {
            reason: reason.map(ToOwned::to_owned),
            description: description.map(ToOwned::to_owned),
            changes: changes(entries),
        },
    }
}

fn changes(entries: &[(&str, Value<'_>)]) -> Map {
    let mut map = Map::new();
    for (key, value) in entries {
        map.push(AmqpValue::from(*key), to_amqp_value(&(*value).into()));
    }
    map
}

impl RemoteReceiver {
    /// Settles messages in one write.
    pub(crate) fn settle(
        &self,
        py: Python<'_>,
        handles: Vec<SettleHandle>,
        of: oxbus_broker::client::Settlement<'_>,
        transaction: Option<&RemoteTransaction>,
    ) -> PyResult<SettledList> {
        call::run(py, self.settling(handles, of, transaction)?)
    }

    /// The call of a settlement.
    pub(crate) fn settling<'a>(
        &self,
        handles: Vec<SettleHandle>,
        of: oxbus_broker::client::Settlement<'_>,
        transaction: Option<&'a RemoteTransaction>,
    ) -> PyResult<impl Future<Output = Result<SettledList>> + Send + use<'a>> {
        let settlement = settlement(of);
        let transaction = transaction.map(|it| it.on(self.inner.path())).transpose()?;
        let receiver = Arc::clone(&self.inner);
        Ok(async move {
            let settled = receiver.settle(&handles, &settlement, transaction, Deadline::NEVER);
            settled.await.map(SettledList)
        })
    }

    /// Keeps what settles messages of a table, which has their lock tokens only.
    pub(crate) fn keep_handles(&self, messages: &[RemoteMessage]) {
        let mut kept = ignore_poison(self.of_tokens.lock());
        let handles = messages.iter().map(|message| message.handle);
        kept.extend(handles.filter_map(|handle| Some((handle.lock_token()?, handle))));
    }

    /// What settles the message of a lock token. It is forgotten: a message is settled once.
    pub(crate) fn handle_of(&self, token: LockToken) -> SettleHandle {
        let kept = ignore_poison(self.of_tokens.lock()).remove(&token);
        kept.unwrap_or_else(|| SettleHandle::of_token(token))
    }

    /// Gives back messages without counting a delivery.
    pub(crate) fn release(&self, py: Python<'_>, handles: &[SettleHandle]) -> PyResult<()> {
        call::run(py, async {
            self.inner.release(handles).await;
            Ok(())
        })
    }

    /// Renews the lock of a message. Returns its new end.
    pub(crate) fn renew(&self, py: Python<'_>, handle: SettleHandle, timeout: Option<f64>) -> PyResult<Timestamp> {
        let deadline = call::deadline("timeout", timeout)?;
        let tokens: Vec<_> = handle.lock_token().into_iter().collect();
        let until = call::run(py, async {
            self.inner.management().await?.renew_locks(&tokens, deadline).await
        })?;
        Ok(until.first().copied().unwrap_or(Timestamp(0)))
    }
}

/// The result of each message of a list.
pub(crate) struct SettledList(Vec<Result<()>>);

impl SettledList {
    /// The positions of messages that were not settled, and the error of the first of them whose lock is not lost.
    pub(crate) fn unsettled(&self) -> (Vec<usize>, Option<PyErr>) {
        let failed = self.0.iter().enumerate().filter(|(_, result)| result.is_err());
        let is_other = |error: &&ClientError| error.broker_kind() != Some(oxbus_model::ErrorKind::MessageLockLost);
        let other = self.0.iter().filter_map(|result| result.as_ref().err()).find(is_other);
        (failed.map(|(position, _)| position).collect(), other.map(raise))
    }

    /// The first error, if there is one.
    pub(crate) fn into_result(self) -> PyResult<()> {
        self.0
            .into_iter()
            .collect::<Result<()>>()
            .map_err(|error| raise(&error))
    }
}
