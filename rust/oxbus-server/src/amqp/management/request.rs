// SPDX-License-Identifier: Apache-2.0
//! A management request: its operation, its arguments, and the entity it addresses.

use std::sync::Arc;

use oxbus_amqp::codec::{AmqpTimestamp, AmqpValue, Map};
use oxbus_broker::client::{SettleKey, Transaction};
use oxbus_broker::entity::Entity;
use oxbus_broker::{Receiver, ReceiverOptions};
use oxbus_model::name::EntityName;
use oxbus_model::options::ReceiveMode;
use oxbus_model::{Error, ErrorKind, Result, SequenceNumber, Timestamp};

use crate::amqp::node::EntityAddress;
use crate::amqp::request::AmqpRequest;
use oxbus_amqp::record::token;

/// A management request.
pub(super) struct ManagementRequest<'a> {
    pub(super) amqp: &'a AmqpRequest,
    pub(super) address: &'a EntityAddress,
    operation: String,
    link: Option<String>,
    body: Map,
}

/// The error for a missing argument or one of the wrong type.
pub(super) fn wrong_type(key: &str, expected: &str) -> Error {
    let detail = format!("the request lacks a value or has one of the wrong type; set {key} to {expected}");
    Error::new(ErrorKind::InvalidArgument, detail)
}

impl<'a> ManagementRequest<'a> {
    pub(super) fn read(amqp: &'a AmqpRequest) -> Result<Self> {
        let address = amqp.address.as_ref().ok_or_else(|| {
            let detail = "a management request must name its entity; attach to entity/$management";
            Error::new(ErrorKind::InvalidArgument, detail)
        })?;
        let properties = amqp.properties()?;
        let text = |key: &str| properties.get(key).and_then(AmqpValue::as_text).map(str::to_owned);
        let body = match amqp.body() {
            Some(AmqpValue::Map(body)) => body,
            None | Some(AmqpValue::Null) => Map::new(),
            Some(_) => return Err(wrong_type("the body", "an amqp-value with a map")),
        };
        Ok(Self {
            amqp,
            address,
            operation: text("operation").ok_or_else(|| wrong_type("the application property operation", "a string"))?,
            link: text("associated-link-name"),
            body,
        })
    }

    pub(super) fn operation(&self) -> &str {
        &self.operation
    }

    /// The value under a key. Null counts as absent.
    pub(super) fn find(&self, key: &str) -> Option<&AmqpValue> {
        self.body.get(key).filter(|value| **value != AmqpValue::Null)
    }

    /// The string under a key.
    pub(super) fn text(&self, key: &str) -> Result<&str> {
        self.optional_text(key)?.ok_or_else(|| wrong_type(key, "a string"))
    }

    /// The string under a key, if present.
    pub(super) fn optional_text(&self, key: &str) -> Result<Option<&str>> {
        let text = |value: &'_ AmqpValue| match value {
            AmqpValue::String(_) | AmqpValue::Symbol(_) => true,
            // Clients return strings from messages as binaries.
            AmqpValue::Binary(_) => value.as_text().is_some(),
            _ => false,
        };
        match self.find(key) {
            None => Ok(None),
            Some(value) if text(value) => Ok(value.as_text()),
            Some(_) => Err(wrong_type(key, "a string")),
        }
    }

    /// The whole number under a key.
    pub(super) fn number(&self, key: &str) -> Result<i64> {
        let number = self.find(key).and_then(AmqpValue::as_i64);
        number.ok_or_else(|| wrong_type(key, "a whole number"))
    }

    /// The requested count.
    pub(super) fn count(&self, key: &str) -> Result<usize> {
        usize::try_from(self.number(key)?).map_err(|_| wrong_type(key, "a whole number from 0 on"))
    }

    /// The time under a key.
    pub(super) fn time(&self, key: &str) -> Result<Timestamp> {
        match self.find(key) {
            Some(AmqpValue::Timestamp(AmqpTimestamp(ms))) => Ok(Timestamp(u64::try_from(*ms).unwrap_or(0))),
            _ => Err(wrong_type(key, "a timestamp")),
        }
    }

    /// The items of the list or array under a key.
    pub(super) fn items(&self, key: &str) -> Result<&[AmqpValue]> {
        let items = self.find(key).and_then(AmqpValue::as_items);
        items.ok_or_else(|| wrong_type(key, "an array"))
    }

    /// The sequence numbers of the request.
    pub(super) fn numbers(&self) -> Result<Vec<SequenceNumber>> {
        let number = |value: &AmqpValue| {
            let number = value
                .as_i64()
                .ok_or_else(|| wrong_type("sequence-numbers", "an array of long"))?;
            // The cast keeps all 64 bits: the number of a high partition has its top bit set.
            Ok(SequenceNumber(number.cast_unsigned()))
        };
        self.items("sequence-numbers")?.iter().map(number).collect()
    }

    /// The keys of the request's lock tokens. A token that cannot be opened belongs to no lock (B-155).
    pub(super) fn settle_keys(&self, receiver: &Receiver) -> Result<Vec<SettleKey>> {
        let settle_key = |value: &AmqpValue| {
            let AmqpValue::Uuid(uuid) = value else {
                return Err(wrong_type("lock-tokens", "an array of uuid"));
            };
            receiver.open_token(token::from_guid(*uuid)).ok_or_else(|| {
                let detail = format!(
                    "The lock supplied is invalid. Either the lock expired, or the message has already been removed from the queue. \
                     Receive the message again: entity=`{}`",
                    self.address.path
                );
                Error::new(ErrorKind::MessageLockLost, detail)
            })
        };
        let settle_keys: Vec<SettleKey> = self
            .items("lock-tokens")?
            .iter()
            .map(settle_key)
            .collect::<Result<_>>()?;
        if settle_keys.is_empty() {
            return Err(wrong_type("lock-tokens", "an array of at least one uuid"));
        }
        Ok(settle_keys)
    }

    /// The queue, topic or subscription.
    pub(super) fn entity(&self) -> Result<Arc<Entity>> {
        self.amqp.context.namespace().entity(&self.address.path)
    }

    /// A receiver for the request: that of the named session, else that of the named link, else a new one. Any
    /// receiver of the entity can open a lock token, so the link may be gone (B-427).
    pub(super) fn receiver(&self, mode: ReceiveMode) -> Result<Arc<Receiver>> {
        if self.find("session-id").is_some() {
            return self.session();
        }
        if let Some(receiver) = self.link_receiver().filter(|receiver| receiver.mode() == mode) {
            return Ok(receiver);
        }
        self.new_receiver(mode).map(Arc::new)
    }

    /// A new receiver.
    pub(super) fn new_receiver(&self, mode: ReceiveMode) -> Result<Receiver> {
        let address = self.address;
        let options = ReceiverOptions {
            sub_queue: address.sub_queue,
            transfer: address.transfer,
            mode,
            ..ReceiverOptions::default()
        };
        self.amqp.context.namespace().receiver(&address.path, options)
    }

    /// The receiver of the link that the request names, if it receives from this entity.
    fn link_receiver(&self) -> Option<Arc<Receiver>> {
        let receiver = self.amqp.state.receiver(self.link.as_deref()?)?;
        let address = self.address;
        let is_same = receiver.entity().name().key() == EntityName::key_of(&address.path)
            && receiver.sub_queue() == address.sub_queue
            && receiver.is_of_transfer() == address.transfer
            && !receiver.is_closed();
        is_same.then_some(receiver)
    }

    /// The receiver that holds the session of the request, on the named link or any other link of this connection.
    pub(super) fn session(&self) -> Result<Arc<Receiver>> {
        let id = self.text("session-id")?;
        let of_link = self
            .link_receiver()
            .filter(|receiver| receiver.session_id() == Some(id));
        let key = EntityName::key_of(&self.address.path);
        of_link.or_else(|| self.amqp.state.session(&key, id)).ok_or_else(|| {
            let detail = format!(
                "The session lock has expired on the MessageSession. Accept a new MessageSession: entity=`{}` session_id=`{id}`",
                self.address.path
            );
            Error::new(ErrorKind::SessionLockLost, detail)
        })
    }

    /// The transaction that the request is part of (B-328).
    pub(super) fn transaction(&self) -> Result<Option<Arc<Transaction>>> {
        let id = self.amqp.transaction.as_ref();
        id.map(|(id, session)| self.amqp.coordinator.find(id, *session))
            .transpose()
    }

    /// Rejects a request whose operation cannot be part of a transaction (B-307).
    pub(super) fn reject_transaction(&self) -> Result<()> {
        if self.amqp.transaction.is_none() {
            return Ok(());
        }
        let detail = format!(
            "{} cannot be part of a transaction; make the request outside of it",
            self.operation
        );
        Err(Error::new(ErrorKind::InvalidOperation, detail))
    }
}
