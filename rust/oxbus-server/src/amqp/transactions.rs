// SPDX-License-Identifier: Apache-2.0
//! The transaction coordinator of a connection (B-306 … B-329).
//!
//! A transaction belongs to the link that declared it, and is rolled back when that link ends (B-326). Sends and
//! settlements of all links of the connection may join it. The broker's transaction decides what it may contain: one
//! entity and one partition. Clients that want several entities in a transaction put all their links into the session
//! of the coordinator link, so a transaction that is first used over a link of that session may span entities (B-324).

use oxbus_store::Wait;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use oxbus_amqp::engine::{LinkId, SessionId};
use oxbus_amqp::message::{Sections, value_body};
use oxbus_amqp::performative::{AmqpError, DeliveryState, TransactionRequest, condition};
use oxbus_broker::client::Transaction;
use oxbus_model::caps::AMQP_TRANSACTIONS_MAX;
use oxbus_model::message::NewId;
use oxbus_model::sync::ignore_poison;
use oxbus_model::{Error, ErrorKind, Result};

use super::fault;
use crate::front::Context;

/// The transactions of one connection.
pub(super) struct Coordinator {
    context: Context,
    /// A panic leaves it consistent: a transaction is either in the table or not, and one that is not is rolled back.
    open: Mutex<OpenTransactions>,
}

#[derive(Default)]
struct OpenTransactions {
    /// Ids are consecutive numbers, unique on the connection.
    last_id: u64,
    by_id: HashMap<Bytes, DeclaredTransaction>,
}

struct DeclaredTransaction {
    /// The link that declared the transaction.
    control_link: LinkId,
    transaction: Arc<Transaction>,
    is_used: bool,
}

impl Coordinator {
    pub(super) fn new(context: Context) -> Self {
        Self {
            context,
            open: Mutex::default(),
        }
    }

    /// Generates the ids of messages that arrive without one.
    pub(super) fn new_id(&self) -> NewId {
        self.context.new_id()
    }

    fn open(&self) -> MutexGuard<'_, OpenTransactions> {
        ignore_poison(self.open.lock())
    }

    /// Handles a request on a coordinator link. May wait for a store.
    pub(super) async fn request(&self, control_link: LinkId, message: &Bytes, wait: &Wait<'_>) -> DeliveryState {
        let request = match decode_request(message) {
            Ok(request) => request,
            Err(fault) => return fault.into(),
        };
        let done = match request {
            TransactionRequest::Declare(_) => self.declare(control_link),
            TransactionRequest::Discharge(discharge) => self.discharge(&discharge.txn_id, discharge.fail, wait).await,
        };
        done.unwrap_or_else(|error| fault::of(&error).into())
    }

    fn declare(&self, control_link: LinkId) -> Result<DeliveryState> {
        let transaction = Arc::new(self.context.namespace().transaction(false)?);
        let mut open = self.open();
        if open.by_id.len() >= AMQP_TRANSACTIONS_MAX {
            let detail = format!(
                "the connection has {AMQP_TRANSACTIONS_MAX} open transactions, the maximum; discharge one, or use another \
                 connection"
            );
            return Err(Error::new(ErrorKind::QuotaExceeded, detail));
        }
        open.last_id += 1;
        let transaction_id = Bytes::copy_from_slice(&open.last_id.to_be_bytes());
        let declared = DeclaredTransaction {
            control_link,
            transaction,
            is_used: false,
        };
        open.by_id.insert(transaction_id.clone(), declared);
        Ok(DeliveryState::Declared { transaction_id })
    }

    async fn discharge(&self, id: &Bytes, fail: bool, wait: &Wait<'_>) -> Result<DeliveryState> {
        let declared = self.open().by_id.remove(id).ok_or_else(unknown_transaction)?;
        if fail {
            declared.transaction.rollback()?;
        } else {
            declared.transaction.commit_async(wait).await?;
        }
        Ok(DeliveryState::Accepted)
    }

    /// The open transaction with this id, for a link of `session`.
    pub(super) fn find(&self, id: &Bytes, session: SessionId) -> Result<Arc<Transaction>> {
        let mut open = self.open();
        let declared = open.by_id.get_mut(id).ok_or_else(unknown_transaction)?;
        if !declared.is_used && declared.control_link.session() == session {
            declared.transaction = Arc::new(self.context.namespace().transaction(true)?);
        }
        declared.is_used = true;
        Ok(Arc::clone(&declared.transaction))
    }

    /// Like [`Self::find`], with the error as a fault.
    pub(super) fn transaction(
        &self,
        id: &Bytes,
        session: SessionId,
    ) -> std::result::Result<Arc<Transaction>, AmqpError> {
        self.find(id, session).map_err(|error| fault::of(&error))
    }

    /// Rolls back the open transactions of a coordinator link that ended.
    pub(super) fn link_closed(&self, control_link: LinkId) {
        let mut abandoned = Vec::new();
        self.open().by_id.retain(|_, declared| {
            let stays = declared.control_link != control_link;
            if !stays {
                abandoned.push(Arc::clone(&declared.transaction));
            }
            stays
        });
        for transaction in abandoned {
            // An error means that the transaction has already ended.
            let _ = transaction.rollback();
        }
    }

    /// Rolls back all open transactions of a connection that ended.
    pub(super) fn close(&self) {
        let abandoned = std::mem::take(&mut self.open().by_id);
        for declared in abandoned.into_values() {
            let _ = declared.transaction.rollback();
        }
    }
}

fn unknown_transaction() -> Error {
    // The text of the service (B-327).
    let detail = "Transaction hasn't been declared yet, or has already been discharged. Declare another one.";
    Error::new(ErrorKind::TransactionOver, detail)
}

fn decode_request(message: &Bytes) -> std::result::Result<TransactionRequest, AmqpError> {
    let request =
        Sections::scan(message).and_then(|sections| TransactionRequest::read(&mut value_body(message, &sections)?));
    request.map_err(|error| {
        AmqpError::new(
            condition::DECODE_ERROR,
            format!("a message to the coordinator must be declare or discharge: {error}"),
        )
    })
}
