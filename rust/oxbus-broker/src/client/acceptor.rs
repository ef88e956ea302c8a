// SPDX-License-Identifier: Apache-2.0
//! Accepts a session by its id, or the next available one (B-192 … B-199).

use oxbus_store::Wait;
use std::sync::Arc;
use std::time::Duration;

use oxbus_model::hash::partition_of;
use oxbus_model::message::check_key_length;
use oxbus_model::name::SubQueue;
use oxbus_model::{Effect, Error, ErrorKind, Result};

use super::receiver::{Receiver, ReceiverOptions, recheck_after};
use super::session::ReceiverSession;
use super::wait::{WaitOptions, WaitQueueRef, WaitSource, until_found};
use crate::entity::Entity;
use crate::shard::SessionSearch;

/// Which session to accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionSelector {
    /// The session with this id, which may have no messages (B-193).
    Id(String),
    /// The session that has been available longest (B-195).
    Next,
}

/// Accepts one session for one receiver.
pub struct Acceptor {
    entity: Arc<Entity>,
    options: ReceiverOptions,
    selector: SessionSelector,
    /// Cells whose sessions it may accept, one bit each.
    allowed: u64,
    /// Name of the receiver, for operators.
    owner: String,
    /// Maximum lag of the clock, in milliseconds.
    lag_ms: u64,
}

/// Index of the cell of a session (B-189).
fn index_of(entity: &Entity, id: &str) -> usize {
    partition_of(id.as_bytes(), entity.partitions().into()) as usize
}

impl Acceptor {
    pub(crate) fn new(
        entity: Arc<Entity>,
        selector: SessionSelector,
        options: ReceiverOptions,
        owner: String,
    ) -> Result<Self> {
        if options.sub_queue != SubQueue::Main {
            let detail = "a sub-queue has no sessions; leave session_id out";
            return Err(Error::new(ErrorKind::InvalidArgument, detail));
        }
        if let SessionSelector::Id(id) = &selector {
            check_key_length("session_id", Some(id))?;
        }
        if !entity.requires_session() {
            return Err(entity.no_sessions_error());
        }
        let allowed = options.check(&entity)?;
        if let SessionSelector::Id(id) = &selector
            && allowed >> index_of(&entity, id) & 1 == 0
        {
            let detail = "the session is in another partition; leave partition_id out";
            return Err(Error::new(ErrorKind::InvalidArgument, detail));
        }
        Ok(Self {
            allowed,
            lag_ms: entity.core().clock().lag_ms(),
            entity,
            options,
            selector,
            owner,
        })
    }

    /// The entity whose sessions it accepts.
    pub fn entity(&self) -> &Arc<Entity> {
        &self.entity
    }

    /// Accepts a session without waiting. Returns `None` if no session is available. Fails if the session with the
    /// requested id is locked (B-194).
    pub fn accept_now(&self, wait: &Wait<'_>) -> Result<Option<Receiver>> {
        self.entity.check_not_forwarding(SubQueue::Main)?;
        self.entity.check_receives()?;
        self.entity.note_use();
        let moment = self.entity.core().clock().moment();
        self.entity.tick(moment, wait);
        let session = match &self.selector {
            SessionSelector::Id(id) => Some(self.accept(id, wait)?),
            SessionSelector::Next => self.accept_next(wait),
        };
        session
            .map(|session| Receiver::new(Arc::clone(&self.entity), self.options, Some(session)))
            .transpose()
    }

    fn accept(&self, id: &str, wait: &Wait<'_>) -> Result<ReceiverSession> {
        let index = index_of(&self.entity, id);
        let shard = self.entity.shard(index);
        shard.health().check_serves(shard.id(), wait)?;
        let sessions = self.entity.cell_for_append(index).sessions();
        let deadline = self.deadline();
        let accepted = sessions.and_then(|sessions| sessions.accept(id, &self.owner, deadline));
        accepted.map(|accepted| ReceiverSession { index, accepted }).ok_or_else(|| {
            let detail = format!(
                "The requested session '{id}' cannot be accepted. It may be locked by another receiver. Wait until it is released, or \
                 accept another one."
            );
            Error::new(ErrorKind::SessionCannotBeLocked, detail)
        })
    }

    fn accept_next(&self, wait: &Wait<'_>) -> Option<ReceiverSession> {
        let receivable = self.entity.receivable(SubQueue::Main);
        let partitions = usize::from(self.entity.partitions());
        let first = receivable.accept_rotation() % partitions;
        let (deadline, now) = (self.deadline(), self.entity.now());
        for index in (first..partitions).chain(0..first) {
            if receivable.ready() & self.allowed & 1 << index == 0 || !self.entity.shard(index).health().serves() {
                continue;
            }
            let Some(cell) = self.entity.cell(index) else { continue };
            let (policy, mut search) = (self.entity.delivery_policy(), SessionSearch::all());
            let (accepted, ended) = cell.accept_next(&self.owner, deadline, now, policy, &mut search, wait);
            self.entity.announce(index, ended, wait);
            if let Some(accepted) = accepted {
                receivable.note_accepted(index);
                self.notify_next();
                return Some(ReceiverSession { index, accepted });
            }
            let sessions = cell.sessions();
            receivable.note_empty(index, || sessions.is_some_and(crate::shard::Sessions::has_available));
        }
        None
    }

    /// Notifies the next waiter if more sessions may be available.
    fn notify_next(&self) {
        let receivable = self.entity.receivable(SubQueue::Main);
        if receivable.wait_queue.waiters() > 0 && receivable.ready() != 0 {
            receivable.wait_queue.notify(1);
        }
    }

    fn deadline(&self) -> oxbus_model::Ticks {
        let ticks = self.entity.core().clock().ticks();
        ticks.plus_ms(self.entity.settings().lock_duration_ms + self.lag_ms)
    }

    /// Accepts a session and waits while none is available. Returns `None` if the wait ends first.
    pub fn accept_until(&self, options: &WaitOptions<'_>, wait: &Wait<'_>) -> Result<Option<Receiver>> {
        until_found(self, options, || self.accept_now(wait))
    }

    /// The error of a wait that ends without a session (B-196).
    pub fn timed_out(&self) -> Error {
        let detail = format!(
            "The operation did not complete within the allotted timeout: no session became available. Send to a session, or wait longer: \
             queue=`{}`",
            self.entity.name().as_str()
        );
        Error::new(ErrorKind::Timeout, detail).with_effect(Effect::None)
    }
}

/// An acceptor waits in the wait queue of the entity.
impl WaitSource for Acceptor {
    fn wait_queue(&self) -> WaitQueueRef {
        WaitQueueRef::of_entity(&self.entity, SubQueue::Main)
    }

    fn recheck_after(&self) -> Option<Duration> {
        recheck_after(&self.entity)
    }
}
