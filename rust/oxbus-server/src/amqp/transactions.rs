// SPDX-License-Identifier: Apache-2.0
//! The coordinator of a connection: transactions begin and end here (B-306 … B-329).
//!
//! A transaction belongs to the link that declared it and ends with it, undone (B-326). Sends and settlements of any link of
//! the connection may be part of it. What may be in it, the broker's transaction decides.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use oxbus_amqp::message::{Sections, value_body};
use oxbus_amqp::performative::{DeliveryState, Fault, TransactionRequest, condition};
use oxbus_broker::client::Transaction;
use oxbus_model::caps::AMQP_TRANSACTIONS_MAX;
use oxbus_model::{Error, ErrorKind, Result};

use super::fault;
use crate::front::Context;

/// Transactions of one connection.
pub(super) struct Coordinator {
    context: Context,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    /// Ids are numbers in turn: never one twice on a connection.
    last: u64,
    by_id: HashMap<Bytes, Declared>,
}

struct Declared {
    /// The link that declared it.
    control: u64,
    transaction: Arc<Transaction>,
}

impl Coordinator {
    pub(super) fn new(context: Context) -> Self {
        Self {
            context,
            open: Mutex::default(),
        }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a message on the coordinator link `control`. A transaction that is declared with `cross_entity` may touch
    /// several entities (B-324). May wait for a store.
    pub(super) fn request(&self, control: u64, message: &Bytes, cross_entity: bool) -> DeliveryState {
        let request = match read(message) {
            Ok(request) => request,
            Err(fault) => return fault.into(),
        };
        let done = match request {
            TransactionRequest::Declare(_) => self.declare(control, cross_entity),
            TransactionRequest::Discharge(discharge) => self.discharge(&discharge.txn_id, discharge.fail),
        };
        done.unwrap_or_else(|error| fault::of(&error).into())
    }

    fn declare(&self, control: u64, cross_entity: bool) -> Result<DeliveryState> {
        let transaction = Arc::new(self.context.namespace().transaction(cross_entity)?);
        let mut open = self.open();
        if open.by_id.len() >= AMQP_TRANSACTIONS_MAX {
            let detail = format!(
                "the connection has {AMQP_TRANSACTIONS_MAX} open transactions, which is the most; discharge one, or use another \
                 connection"
            );
            return Err(Error::new(ErrorKind::QuotaExceeded, detail));
        }
        open.last += 1;
        let transaction_id = Bytes::copy_from_slice(&open.last.to_be_bytes());
        let declared = Declared { control, transaction };
        open.by_id.insert(transaction_id.clone(), declared);
        Ok(DeliveryState::Declared { transaction_id })
    }

    fn discharge(&self, id: &Bytes, fail: bool) -> Result<DeliveryState> {
        let declared = self.open().by_id.remove(id).ok_or_else(unknown)?;
        if fail {
            declared.transaction.rollback()?;
        } else {
            declared.transaction.commit()?;
        }
        Ok(DeliveryState::Accepted)
    }

    /// The open transaction of an id.
    pub(super) fn find(&self, id: &Bytes) -> Result<Arc<Transaction>> {
        let open = self.open();
        let declared = open.by_id.get(id).ok_or_else(unknown)?;
        Ok(Arc::clone(&declared.transaction))
    }

    /// The open transaction of an id, for who answers a transfer or a disposition.
    pub(super) fn transaction(&self, id: &Bytes) -> std::result::Result<Arc<Transaction>, Fault> {
        self.find(id).map_err(|error| fault::of(&error))
    }

    /// A coordinator link is gone: what it declared and did not discharge is undone.
    pub(super) fn closed(&self, control: u64) {
        let mut gone = Vec::new();
        self.open().by_id.retain(|_, declared| {
            let stays = declared.control != control;
            if !stays {
                gone.push(Arc::clone(&declared.transaction));
            }
            stays
        });
        for transaction in gone {
            // One that somebody else ended meanwhile is over either way.
            let _ = transaction.rollback();
        }
    }

    /// The connection is gone: everything is undone.
    pub(super) fn close(&self) {
        let gone = std::mem::take(&mut self.open().by_id);
        for declared in gone.into_values() {
            let _ = declared.transaction.rollback();
        }
    }
}

fn unknown() -> Error {
    // The service's words (B-327).
    let detail = "Transaction hasn't been declared yet, or has already been discharged. Declare another one.";
    Error::new(ErrorKind::TransactionOver, detail)
}

fn read(message: &Bytes) -> std::result::Result<TransactionRequest, Fault> {
    let request = Sections::scan(message).and_then(|sections| TransactionRequest::read(&mut value_body(message, &sections)?));
    request.map_err(|error| Fault::new(condition::DECODE_ERROR, format!("a message to the coordinator must be declare or discharge: {error}")))
}
