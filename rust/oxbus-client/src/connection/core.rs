// SPDX-License-Identifier: Apache-2.0
//! What a connection knows: the engine, its links, and what waits for an answer.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use oxbus_amqp::ClientEngine;
use oxbus_amqp::client::{DeliveryId, LinkId, ReceivedDelivery, ReceivedId, SessionId};
use oxbus_amqp::codec::Symbol;
use oxbus_amqp::performative::Attach;
use tokio::sync::Notify;

use super::batches::{Batches, Place};
use super::results::{PendingSend, SendResult, SettleResult};
use crate::error::ClientError;

/// The state of a connection.
#[derive(Debug)]
pub(super) enum Phase {
    Opening,
    Open,
    Ended(ClientError),
}

/// The state of a link.
#[derive(Debug)]
pub(crate) enum LinkPhase {
    /// The server has not answered.
    Attaching,
    /// Attached, with the terms of the server.
    Attached(Box<Attach>),
    /// Refused, detached, or lost with the connection.
    Ended(ClientError),
}

/// A link.
pub(super) struct LinkState {
    pub(super) phase: LinkPhase,
    /// Messages that nobody has taken.
    pub(super) queue: VecDeque<Box<ReceivedDelivery>>,
    /// True if a drain has ended.
    pub(super) is_drained: bool,
    /// Wakes those who wait for any of this.
    pub(super) changed: Arc<Notify>,
}

/// The state behind the lock of a connection.
pub(super) struct Core {
    pub(super) engine: ClientEngine,
    pub(super) phase: Phase,
    /// The extensions that the server offers.
    pub(super) offered: Vec<Symbol>,
    /// The session of new links.
    pub(super) session: SessionId,
    pub(super) links: HashMap<LinkId, LinkState>,
    pub(super) sends: HashMap<DeliveryId, PendingSend>,
    pub(super) send_batches: Batches<SendResult>,
    pub(super) settles: HashMap<ReceivedId, Place>,
    pub(super) settle_batches: Batches<SettleResult>,
    /// Bytes that the task took from the engine.
    pub(super) taken: u64,
    /// Bytes that the system took.
    pub(super) written: u64,
    /// Counts links, for their names.
    pub(super) names: u64,
}

impl Core {
    pub(super) fn new(engine: ClientEngine, session: SessionId) -> Self {
        Self {
            engine,
            phase: Phase::Opening,
            offered: Vec::new(),
            session,
            links: HashMap::new(),
            sends: HashMap::new(),
            send_batches: Batches::default(),
            settles: HashMap::new(),
            settle_batches: Batches::default(),
            taken: 0,
            written: 0,
            names: 0,
        }
    }

    /// The place in the stream of the next byte that the engine writes.
    pub(super) fn produced(&mut self) -> u64 {
        self.taken + self.engine.output().len() as u64
    }
}
