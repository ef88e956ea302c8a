// SPDX-License-Identifier: Apache-2.0
//! A message from a server, in the form that messages of this process have.

use bytes::Bytes;
use oxbus_amqp::record::{AmqpMessageMetadata, MessageStateAnnotation, read_received};
use oxbus_arrow::RemoteRow;
use oxbus_broker::record;
use oxbus_client::{DeferredMessage, Received, Result, SettleHandle};
use oxbus_model::message::Fields;
use oxbus_store::Record;

/// A message from a server.
pub(crate) struct RemoteMessage {
    pub(crate) record: Record,
    pub(crate) metadata: AmqpMessageMetadata,
    pub(crate) handle: SettleHandle,
}

/// What settles a message from a server, and what its sequence number does not tell.
#[derive(Clone, Copy)]
pub(crate) struct RemoteHandle {
    pub(crate) settle: SettleHandle,
    pub(crate) partition: Option<u16>,
}

impl RemoteMessage {
    fn new(fields: &Fields<'_>, metadata: &AmqpMessageMetadata, handle: SettleHandle) -> Self {
        Self {
            record: record::encode(fields),
            metadata: *metadata,
            handle,
        }
    }

    pub(super) fn of_received(received: &Received) -> Result<Self> {
        received.read(|fields, metadata| Ok(Self::new(fields, metadata, received.handle())))
    }

    pub(super) fn of_deferred(deferred: &DeferredMessage) -> Result<Self> {
        deferred.read(|fields, metadata| Ok(Self::new(fields, metadata, deferred.handle)))
    }

    pub(super) fn of_peeked(sections: &Bytes) -> Result<Self> {
        let nothing = SettleHandle::without_lock();
        Ok(read_received(sections, |fields, metadata| {
            Ok(Self::new(fields, metadata, nothing))
        })?)
    }

    /// The message as a row of a table.
    pub(crate) fn row(&self) -> RemoteRow<'_> {
        let metadata = &self.metadata;
        RemoteRow {
            number: metadata.number,
            partition: metadata.partition,
            enqueued_at: metadata.enqueued_at,
            delivery_count: metadata.delivery_count,
            locked_until: metadata.locked_until,
            is_deferred: metadata.state == MessageStateAnnotation::Deferred,
            lock_token: self.handle.lock_token(),
            record: &self.record,
        }
    }

    pub(crate) fn remote_handle(&self) -> RemoteHandle {
        RemoteHandle {
            settle: self.handle,
            partition: self.metadata.partition,
        }
    }
}
