// SPDX-License-Identifier: Apache-2.0
//! The key that selects the partition of a message, and the identity that its duplicates share.

use oxbus_model::message::Fields;
use oxbus_model::{Error, ErrorKind, Identity, Result};

use super::Entity;
use crate::routing::{PartitionRoute, route};
use crate::write::{EncodedMessage, PlainEncoder, check_size};

impl Entity {
    /// True if duplicates of a message are dropped (B-219).
    #[inline]
    pub fn detects_duplicates(&self) -> bool {
        self.features.detects_duplicates
    }

    /// The key that selects the partition of a message (B-063). With duplicate detection in a partitioned entity, the
    /// message id is the last choice (B-066), and a message without any key is rejected (B-068).
    #[inline]
    pub fn key_of<'a>(&self, fields: &Fields<'a>) -> Result<Option<&'a str>> {
        self.check_session(fields.session_id)?;
        let key = fields.key()?;
        if !(self.detects_duplicates() && self.is_partitioned()) {
            return Ok(key);
        }
        let key = key.or(fields.given_id());
        if key.is_some() {
            return Ok(key);
        }
        let detail = "Message to a partitioned entity with duplicate detection enabled must have either PartitionKey or MessageId. \
                      Set message_id, partition_key or session_id.";
        Err(Error::new(ErrorKind::InvalidOperation, detail))
    }

    /// Checks and encodes a message for this entity, with the partition of its key and its identity.
    #[inline]
    pub fn encode(&self, fields: &Fields<'_>) -> Result<EncodedMessage> {
        let route = self.route_of(fields)?;
        fields.check()?;
        let len = fields.encoded_len();
        check_size(len, self.settings().message_size_bytes_max)?;
        let mut message = EncodedMessage::new(fields, len);
        message.partition = route.partition();
        message.identity = self.identity_of(fields)?;
        Ok(message)
    }

    /// Encodes messages that have only a body and an assigned id. Returns `None` if this entity wants more of a message.
    pub fn plain_encoder(&self) -> Option<PlainEncoder> {
        let needs_key = self.requires_session() || (self.detects_duplicates() && self.is_partitioned());
        (!needs_key).then(|| PlainEncoder {
            message_size_bytes_max: self.settings().message_size_bytes_max,
        })
    }

    /// Sets the identity of a message that is already encoded.
    pub(crate) fn set_identity(&self, message: &mut EncodedMessage) -> Result<()> {
        if self.detects_duplicates() {
            let identity = self.identity_of(&Fields::decode(&message.record)?)?;
            message.identity = identity;
        }
        Ok(())
    }

    /// Partitions to which a message may be sent (B-061 … B-073).
    #[inline]
    pub fn route_of(&self, fields: &Fields<'_>) -> Result<PartitionRoute> {
        Ok(route(self.key_of(fields)?, self.partitions()))
    }

    /// The identity that duplicates of a message share (B-220, B-222). Returns `None` without an id, or without
    /// duplicate detection (B-229).
    pub fn identity_of(&self, fields: &Fields<'_>) -> Result<Option<Identity>> {
        let Some(id) = fields.given_id().filter(|_| self.detects_duplicates()) else {
            return Ok(None);
        };
        let key = if self.is_partitioned() {
            self.key_of(fields)?
        } else {
            None
        };
        Ok(Some(self.core().identity_key().identity(key, id)))
    }

    /// Forgets identities and attached stages whose window has ended.
    pub(crate) fn forget_expired_identities(&self) {
        for (_, cell) in self.cells() {
            cell.attached()
                .forget(self.now(), self.core().attached_window_ms(self.now()));
        }
        if !self.detects_duplicates() {
            return;
        }
        for history in self.cells().filter_map(|(_, cell)| cell.history()) {
            history.forget(self.now(), self.settings().duplicate_window_ms);
        }
    }
}
