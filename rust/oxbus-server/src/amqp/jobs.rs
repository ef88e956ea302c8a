// SPDX-License-Identifier: Apache-2.0
//! Broker calls of one connection.
//!
//! Calls that may wait for a store run on blocking threads, a limited number at a time. In a namespace where calls
//! never wait, they run at once on the connection's task, which saves two thread switches per call.

use std::collections::VecDeque;

use oxbus_amqp::engine::{DeliveryId, IncomingId, LinkId};
use oxbus_amqp::performative::{AmqpError, DeliveryState};
use oxbus_broker::client::{Acceptor, WaitStep};
use oxbus_broker::{Receiver, Sender};
use oxbus_model::Result;
use oxbus_model::caps::{AMQP_JOBS_IN_STORE_MAX, AMQP_JOBS_MAX, AMQP_JOBS_WAITING_MAX};
use oxbus_store::Wait;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::request::Reply;
use crate::blocking::with_call_timeout;
use crate::front::Context;
use crate::http::Operation;
use crate::pending::PendingDeliveries;

/// The result of a call.
pub(super) enum JobResult {
    /// The endpoint of a link, or the fault that refuses it.
    Opened(LinkId, std::result::Result<LinkEndpoint, AmqpError>),
    /// The outcomes of sent messages, and the size of the messages in bytes.
    Sent(LinkId, Vec<(IncomingId, DeliveryState)>, usize),
    /// One attempt to receive messages.
    ReceiveStep(LinkId, Result<WaitStep<PendingDeliveries>>),
    /// One attempt to accept a session.
    AcceptStep(LinkId, Result<WaitStep<Box<Receiver>>>),
    /// The outcomes of settlements.
    Settled(LinkId, Vec<(DeliveryId, DeliveryState)>),
    /// The reply to a request.
    Answered(Box<PendingReply>),
    /// The outcome of a coordinator request, and the size of the request in bytes.
    Coordinated(IncomingId, DeliveryState, usize),
    /// Nothing to handle.
    Nothing,
    /// The call panicked.
    Panicked,
}

/// The broker object behind a link.
pub(super) enum LinkEndpoint {
    Sender(Box<Sender>),
    Receiver(Box<Receiver>),
    /// Waits for a session.
    Acceptor(Box<Acceptor>),
    /// The management of an existing entity.
    Management,
}

/// A reply that waits to be sent.
pub(super) struct PendingReply {
    /// The link of the request.
    pub(super) link: LinkId,
    pub(super) reply: Reply,
    /// The size of the request in bytes, which count as queued until now.
    pub(super) bytes: usize,
    pub(super) request_properties: oxbus_amqp::message::Properties,
}

impl JobResult {
    fn operation(&self) -> Operation {
        match self {
            Self::Sent(..) => Operation::Send,
            Self::ReceiveStep(..) => Operation::Receive,
            Self::Settled(..) => Operation::Settle,
            _ => Operation::Manage,
        }
    }
}

type Job = Box<dyn FnOnce(&Wait<'_>) -> JobResult + Send>;

/// The calls in progress.
pub(super) struct Jobs {
    context: Context,
    may_wait: bool,
    /// Calls that run at once, if they may wait.
    running_max: usize,
    running: JoinSet<JobResult>,
    waiting: VecDeque<Job>,
    done: VecDeque<JobResult>,
}

impl Jobs {
    pub(super) fn new(context: Context) -> Self {
        Self {
            may_wait: context.namespace().may_wait(),
            running_max: if context.namespace().is_in_store() {
                AMQP_JOBS_IN_STORE_MAX
            } else {
                AMQP_JOBS_MAX
            },
            context,
            running: JoinSet::new(),
            waiting: VecDeque::new(),
            done: VecDeque::new(),
        }
    }

    /// Runs `work` at once, or on a blocking thread.
    pub(super) fn start(&mut self, work: impl FnOnce(&Wait<'_>) -> JobResult + Send + 'static) {
        let context = self.context.clone();
        let work = move |wait: &Wait<'_>| {
            let began = Instant::now();
            let done = work(wait);
            context.meters().count_operation(done.operation(), began.elapsed());
            done
        };
        if !self.may_wait {
            self.done.push_back(work(&Wait::FOREVER));
        } else if self.running.len() < self.running_max {
            self.running.spawn_blocking(|| with_call_timeout(work));
        } else {
            self.waiting.push_back(Box::new(work));
        }
    }

    /// The next finished result, if any.
    pub(super) fn pop_done(&mut self) -> Option<JobResult> {
        self.done.pop_front()
    }

    /// Waits for the next result of a thread.
    pub(super) async fn next(&mut self) -> JobResult {
        let Some(done) = self.running.join_next().await else {
            return std::future::pending().await;
        };
        if let Some(work) = self.waiting.pop_front() {
            self.running.spawn_blocking(|| with_call_timeout(work));
        }
        // The panic hook has already reported it.
        done.unwrap_or(JobResult::Panicked)
    }

    /// Waits for all calls in progress and drops their results.
    pub(super) async fn finish(&mut self) {
        self.done.clear();
        while !self.is_idle() {
            drop(self.next().await);
        }
    }

    /// True if the queue of waiting calls is full.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= AMQP_JOBS_WAITING_MAX
    }

    /// True if no call is in progress or queued.
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

    use oxbus_broker::{Namespace, NamespaceOptions};

    use super::{Context, JobResult, Jobs};

    #[tokio::test]
    async fn blocked_calls_occupy_a_limited_number_of_threads() {
        // AMQP_JOBS_MAX: a client sends on many links while the store hangs.
        let namespace = Namespace::open(NamespaceOptions::default()).expect("opens");
        let mut jobs = Jobs::new(Context::for_tests(namespace));
        jobs.may_wait = true;
        let running = Arc::new(AtomicUsize::new(0));
        let mut gates = Vec::new();
        let calls = 3 * AMQP_JOBS_MAX;
        for _ in 0..calls {
            let (gate, opened) = sync_channel::<()>(0);
            gates.push(gate);
            let running = Arc::clone(&running);
            jobs.start(move |_| {
                running.fetch_add(1, Ordering::SeqCst);
                // An error means that the gate was dropped, which opens it.
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
