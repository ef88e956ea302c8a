// SPDX-License-Identifier: Apache-2.0
//! Calls of the broker for one connection.
//!
//! Where calls may wait for a store they run on threads, a few at a time; where they never wait they are done at once, on the
//! connection's own task, which saves two changes of thread for each.

use std::collections::VecDeque;

use oxbus_amqp::engine::{DeliveryId, IncomingId, LinkId};
use oxbus_amqp::performative::{DeliveryState, Fault};
use oxbus_broker::client::{Acceptor, Step};
use oxbus_broker::{Receiver, Sender};
use oxbus_model::Result;
use oxbus_model::caps::{AMQP_JOBS_MAX, AMQP_JOBS_WAITING_MAX};
use oxbus_store::Wait;
use tokio::task::JoinSet;

use super::request::Reply;
use crate::blocking::with_call_timeout;
use crate::pending::PendingDeliveries;

/// What a call has brought.
pub(super) enum JobResult {
    /// An entity was opened for a link.
    Opened(LinkId, std::result::Result<LinkEndpoint, Fault>),
    /// Messages of a link were stored, or not.
    Sent(LinkId, Vec<(IncomingId, DeliveryState)>, usize),
    /// A step of the wait for messages.
    ReceiveStep(LinkId, Result<Step<PendingDeliveries>>),
    /// A step of the wait for a session.
    AcceptStep(LinkId, Result<Step<Box<Receiver>>>),
    /// Messages were settled, or not.
    Settled(LinkId, Vec<(DeliveryId, DeliveryState)>),
    /// A request was answered.
    Answered(Box<PendingReply>),
    /// A request of the coordinator was answered, and so many bytes of it wait no longer.
    Coordinated(IncomingId, DeliveryState, usize),
    /// Nothing to do with it.
    Nothing,
    /// The call failed within the server.
    Panicked,
}

/// What a link stands on.
pub(super) enum LinkEndpoint {
    Sender(Box<Sender>),
    Receiver(Box<Receiver>),
    /// A session that is accepted next.
    Acceptor(Box<Acceptor>),
    /// The management of an entity that is there.
    Management,
}

/// An answer on its way.
pub(super) struct PendingReply {
    /// The link the request came over.
    pub(super) link: LinkId,
    pub(super) reply: Reply,
    /// Bytes of the request, which waited until now.
    pub(super) bytes: usize,
    pub(super) request_properties: oxbus_amqp::message::Properties,
}

type Job = Box<dyn FnOnce(&Wait<'_>) -> JobResult + Send>;

/// Calls under way.
pub(super) struct Jobs {
    may_wait: bool,
    running: JoinSet<JobResult>,
    waiting: VecDeque<Job>,
    done: VecDeque<JobResult>,
}

impl Jobs {
    pub(super) fn new(may_wait: bool) -> Self {
        Self {
            may_wait,
            running: JoinSet::new(),
            waiting: VecDeque::new(),
            done: VecDeque::new(),
        }
    }

    /// Does `work` now, or has a thread do it.
    pub(super) fn start(&mut self, work: impl FnOnce(&Wait<'_>) -> JobResult + Send + 'static) {
        if !self.may_wait {
            self.done.push_back(work(&Wait::FOREVER));
        } else if self.running.len() < AMQP_JOBS_MAX {
            self.running.spawn_blocking(|| with_call_timeout(work));
        } else {
            self.waiting.push_back(Box::new(work));
        }
    }

    /// What is done already.
    pub(super) fn pop_done(&mut self) -> Option<JobResult> {
        self.done.pop_front()
    }

    /// Waits for a thread.
    pub(super) async fn next(&mut self) -> JobResult {
        let Some(done) = self.running.join_next().await else {
            return std::future::pending().await;
        };
        if let Some(work) = self.waiting.pop_front() {
            self.running.spawn_blocking(|| with_call_timeout(work));
        }
        // A panic was told where it happened.
        done.unwrap_or(JobResult::Panicked)
    }

    /// Waits for all that is under way; nobody asks for it any more.
    pub(super) async fn finish(&mut self) {
        self.done.clear();
        while !self.is_idle() {
            drop(self.next().await);
        }
    }

    /// Whether so many calls wait that no further ones should come.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= AMQP_JOBS_WAITING_MAX
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty() && self.done.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::sync_channel;

    use oxbus_model::caps::AMQP_JOBS_MAX;

    use super::{JobResult, Jobs};

    #[tokio::test]
    async fn calls_that_hang_take_no_more_than_some_threads() {
        // AMQP_JOBS_MAX: a client with many links sends on each of them while the store hangs.
        let mut jobs = Jobs::new(true);
        let running = Arc::new(AtomicUsize::new(0));
        let mut gates = Vec::new();
        let calls = 3 * AMQP_JOBS_MAX;
        for _ in 0..calls {
            let (gate, opened) = sync_channel::<()>(0);
            gates.push(gate);
            let running = Arc::clone(&running);
            jobs.start(move |_| {
                running.fetch_add(1, Ordering::SeqCst);
                // An error says that the gate is gone, which opens it.
                let _ = opened.recv();
                running.fetch_sub(1, Ordering::SeqCst);
                JobResult::Nothing
            });
        }
        while running.load(Ordering::SeqCst) < AMQP_JOBS_MAX {
            tokio::task::yield_now().await;
        }
        assert_eq!(jobs.running.len(), AMQP_JOBS_MAX);
        assert_eq!(jobs.waiting.len(), calls - AMQP_JOBS_MAX);
        for done in 1..=calls {
            drop(gates.remove(0));
            assert!(matches!(jobs.next().await, JobResult::Nothing));
            assert!(jobs.running.len() <= AMQP_JOBS_MAX);
            assert_eq!(jobs.running.len() + jobs.waiting.len(), calls - done);
        }
        assert!(jobs.is_idle());
    }
}
