// SPDX-License-Identifier: Apache-2.0
//! Accepting a session: one by its id, or the next one that is available (B-192 … B-199).

use oxbus_store::Wait;
use std::sync::Arc;
use std::time::Duration;

use oxbus_model::hash::partition_of;
use oxbus_model::message::check_key_length;
use oxbus_model::name::SubQueue;
use oxbus_model::{Effect, Error, ErrorKind, Result};

use super::receiver::{Receiver, ReceiverOptions, look_again_after};
use super::session::Held;
use super::wait::{WaitOptions, WaitPlace, WaitSource, until_found};
use crate::entity::Entity;

/// Which session to accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// The one with this id, which need not have messages (B-193).
    Named(String),
    /// The one that waits longest (B-195).
    Next,
}

/// Accepts one session for one receiver.
pub struct Acceptor {
    queue: Arc<Entity>,
    options: ReceiverOptions,
    wanted: Wanted,
    /// The cells it may look at, one bit each.
    allowed: u64,
    /// The name of the receiver, for people.
    owner: String,
    /// Milliseconds that the clock may be behind.
    lag_ms: u64,
}

/// The cell in which a session lives (B-189).
fn index_of(queue: &Entity, id: &str) -> usize {
    partition_of(id.as_bytes(), queue.partitions().into()) as usize
}

impl Acceptor {
    pub(crate) fn new(queue: Arc<Entity>, wanted: Wanted, options: ReceiverOptions, owner: String) -> Result<Self> {
        if options.sub_queue != SubQueue::Main {
            let detail = "a sub-queue has no sessions; leave session_id out";
            return Err(Error::new(ErrorKind::InvalidArgument, detail));
        }
        if let Wanted::Named(id) = &wanted {
            check_key_length("session_id", Some(id))?;
        }
        if !queue.requires_session() {
            return Err(queue.not_sessionful());
        }
        let allowed = options.check(&queue)?;
        if let Wanted::Named(id) = &wanted
            && allowed >> index_of(&queue, id) & 1 == 0
        {
            let detail = "the session lives in another partition; leave partition_id out";
            return Err(Error::new(ErrorKind::InvalidArgument, detail));
        }
        Ok(Self {
            allowed,
            lag_ms: queue.core().clock().lag_ms(),
            queue,
            options,
            wanted,
            owner,
        })
    }

    /// The queue whose sessions it accepts.
    pub fn queue(&self) -> &Arc<Entity> {
        &self.queue
    }

    /// Accepts the session without waiting; `None` when no session is available. One that is held is an error (B-194).
    pub fn accept_now(&self, wait: &Wait<'_>) -> Result<Option<Receiver>> {
        self.queue.check_not_forwarding(SubQueue::Main)?;
        self.queue.check_receives()?;
        self.queue.use_now();
        let moment = self.queue.core().clock().moment();
        self.queue.tick(moment, wait);
        let held = match &self.wanted {
            Wanted::Named(id) => Some(self.accept(id, wait)?),
            Wanted::Next => self.accept_next(wait),
        };
        held.map(|held| Receiver::new(Arc::clone(&self.queue), self.options, Some(held)))
            .transpose()
    }

    fn accept(&self, id: &str, wait: &Wait<'_>) -> Result<Held> {
        let index = index_of(&self.queue, id);
        let shard = self.queue.shard(index);
        shard.health().check_serves(shard.id(), wait)?;
        let sessions = self.queue.cell_for_append(index).sessions();
        let deadline = self.deadline();
        let accepted = sessions.and_then(|sessions| sessions.accept(id, &self.owner, deadline));
        accepted.map(|accepted| Held { index, accepted }).ok_or_else(|| {
            let detail = format!(
                "The requested session '{id}' cannot be accepted. It may be locked by another receiver. Wait until it is released, or \
                 accept another one."
            );
            Error::new(ErrorKind::SessionCannotBeLocked, detail)
        })
    }

    fn accept_next(&self, wait: &Wait<'_>) -> Option<Held> {
        let receivable = self.queue.receivable(SubQueue::Main);
        let partitions = usize::from(self.queue.partitions());
        let first = receivable.accept_rotation() % partitions;
        let (deadline, now) = (self.deadline(), self.queue.now());
        for index in (first..partitions).chain(0..first) {
            if receivable.ready() & self.allowed & 1 << index == 0 || !self.queue.shard(index).health().serves() {
                continue;
            }
            let Some(cell) = self.queue.cell(index) else { continue };
            let (accepted, ended) = cell.accept_next(&self.owner, deadline, now, self.queue.delivery_policy(), wait);
            self.queue.announce(index, ended, wait);
            if let Some(accepted) = accepted {
                receivable.accepted_from(index);
                self.pass_on();
                return Some(Held { index, accepted });
            }
            let sessions = cell.sessions();
            receivable.exhausted(index, || sessions.is_some_and(crate::shard::Sessions::has_available));
        }
        None
    }

    /// Wakes the next one who waits while there may be more.
    fn pass_on(&self) {
        let receivable = self.queue.receivable(SubQueue::Main);
        if receivable.wait_queue.waiters() > 0 && receivable.ready() != 0 {
            receivable.wait_queue.notify(1);
        }
    }

    fn deadline(&self) -> oxbus_model::Ticks {
        let ticks = self.queue.core().clock().ticks();
        ticks.plus_ms(self.queue.settings().lock_duration_ms + self.lag_ms)
    }

    /// Accepts the session; waits while none is available. `None` when the wait is over.
    pub fn accept_until(&self, options: &WaitOptions<'_>, wait: &Wait<'_>) -> Result<Option<Receiver>> {
        until_found(self, options, || self.accept_now(wait))
    }

    /// The error of a wait for a session that ended without one (B-196).
    pub fn timed_out(&self) -> Error {
        let detail = format!(
            "The operation did not complete within the allotted timeout: no session became available. Send to a session, or wait longer: \
             queue=`{}`",
            self.queue.name().as_str()
        );
        Error::new(ErrorKind::Timeout, detail).with_effect(Effect::None)
    }
}

/// It waits with all who accept sessions of the queue.
impl WaitSource for Acceptor {
    fn place(&self) -> WaitPlace {
        WaitPlace::at_queue(&self.queue, SubQueue::Main)
    }

    fn look_again_after(&self) -> Option<Duration> {
        look_again_after(&self.queue)
    }
}
