// SPDX-License-Identifier: Apache-2.0
//! Transactions of a connection, over its coordinator link.

use std::sync::Arc;

use bytes::Bytes;
use oxbus_amqp::performative::{DeliveryState, Fault, condition};
use oxbus_broker::client::Transaction;

use crate::front::Context;

/// The transactions of one connection.
pub(super) struct Coordinator;

impl Coordinator {
    pub(super) fn new(_context: Context) -> Self {
        Self
    }

    /// Declares or discharges a transaction.
    pub(super) fn request(&self, _message: &Bytes) -> DeliveryState {
        Fault::new(condition::NOT_IMPLEMENTED, "this version has no transactions over AMQP").into()
    }

    /// A transaction that was declared.
    pub(super) fn transaction(&self, _id: &Bytes) -> Result<Arc<Transaction>, Fault> {
        Err(Fault::new(
            condition::TRANSACTION_UNKNOWN_ID,
            "no transaction has this id",
        ))
    }

    /// Rolls back what is open.
    pub(super) fn close(&self) {}
}
