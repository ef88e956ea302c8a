// SPDX-License-Identifier: Apache-2.0
//! Broker calls of one connection.
//!
//! Calls that may wait for a disk or a store begin on blocking threads, a limited number at a time. Those that wait for
//! a store are suspended meanwhile and hold no thread. In a namespace where calls never wait, they run at once on the
//! connection's task, which saves two thread switches per call.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;

use oxbus_amqp::engine::{DeliveryId, IncomingId, LinkId};
use oxbus_amqp::performative::{AmqpError, DeliveryState};
use oxbus_broker::client::{Acceptor, WaitStep};
use oxbus_broker::{Receiver, Sender};
use oxbus_model::Result;
use oxbus_model::caps::{AMQP_JOBS_MAX, AMQP_JOBS_WAITING_MAX};
use oxbus_store::Wait;
use oxbus_store::suspended::{SuspendedCall, run_now};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::request::Reply;
use crate::blocking::{run_call, with_call_timeout};
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
    /// The receiver of a link that the client has detached is released.
    Released(LinkId),
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

/// The calls in progress.
pub(super) struct Jobs {
    context: Context,
    may_wait: bool,
    /// The threads that its calls may hold at a time.
    threads: Arc<Semaphore>,
    running: JoinSet<Option<JobResult>>,
    done: VecDeque<JobResult>,
}

impl Jobs {
    pub(super) fn new(context: Context) -> Self {
        Self {
            may_wait: context.namespace().may_wait(),
            context,
            threads: Arc::new(Semaphore::new(AMQP_JOBS_MAX)),
            running: JoinSet::new(),
            done: VecDeque::new(),
        }
    }

    /// Runs `work` at once, or on a blocking thread.
    pub(super) fn start(&mut self, work: impl FnOnce(&Wait<'_>) -> JobResult + Send + 'static) {
        self.start_call(async { with_call_timeout(work) });
    }

    /// Makes a call at once, or on blocking threads. It holds none while it is suspended.
    pub(super) fn start_call(&mut self, call: impl Future<Output = JobResult> + Send + 'static) {
        let context = self.context.clone();
        let call = async move {
            let began = Instant::now();
            let done = call.await;
            context.meters().count_operation(done.operation(), began.elapsed());
            done
        };
        if !self.may_wait {
            self.done.push_back(run_now(call));
            return;
        }
        let (threads, call) = (Some(Arc::clone(&self.threads)), SuspendedCall::new(call));
        self.running.spawn(async move { run_call(call, threads).await.ok() });
    }

    /// Hands out `result` after an event.
    pub(super) fn hand_out_after(&mut self, event: impl Future<Output = ()> + Send + 'static, result: JobResult) {
        self.running.spawn(async move {
            event.await;
            Some(result)
        });
    }

    /// The next finished result, if any.
    pub(super) fn pop_done(&mut self) -> Option<JobResult> {
        self.done.pop_front()
    }

    /// Waits for the next result of a call in progress.
    pub(super) async fn next(&mut self) -> JobResult {
        match self.running.join_next().await {
            // The panic hook has already reported a panic.
            Some(done) => done.ok().flatten().unwrap_or(JobResult::Panicked),
            None => std::future::pending().await,
        }
    }

    /// Waits for all calls in progress and drops their results.
    pub(super) async fn finish(&mut self) {
        self.done.clear();
        while !self.is_idle() {
            drop(self.next().await);
        }
    }

    /// True if too many calls are in progress or wait for a thread.
    pub(super) fn is_full(&self) -> bool {
        self.running.len() >= AMQP_JOBS_MAX + AMQP_JOBS_WAITING_MAX
    }

    /// True if no call is in progress or queued.
    pub(super) fn is_idle(&self) -> bool {
        self.running.is_empty() && self.done.is_empty()
    }
}

impl Drop for Jobs {
    /// The calls in progress end by themselves.
    fn drop(&mut self) {
        self.running.detach_all();
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::mpsc::sync_channel;
    use std::task::Poll;

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
        assert_eq!(jobs.running.len(), calls);
        for done in 1..=calls {
            drop(gates.remove(0));
            assert!(matches!(jobs.next().await, JobResult::Nothing));
            assert!(running.load(Ordering::SeqCst) <= AMQP_JOBS_MAX);
            assert_eq!(jobs.running.len(), calls - done);
        }
        assert!(jobs.is_idle());
    }

    #[tokio::test]
    async fn suspended_calls_hold_no_thread() {
        let namespace = Namespace::open(NamespaceOptions::default()).expect("opens");
        let mut jobs = Jobs::new(Context::for_tests(namespace));
        jobs.may_wait = true;
        let (begun, has_answered) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let calls = 10 * AMQP_JOBS_MAX;
        for _ in 0..calls {
            let (begun, has_answered) = (Arc::clone(&begun), Arc::clone(&has_answered));
            jobs.start_call(async move {
                begun.fetch_add(1, Ordering::SeqCst);
                poll_fn(|_| {
                    if has_answered.load(Ordering::SeqCst) {
                        Poll::Ready(())
                    } else {
                        Poll::Pending
                    }
                })
                .await;
                JobResult::Nothing
            });
        }
        // All have begun, and none holds a thread.
        while begun.load(Ordering::SeqCst) < calls || jobs.threads.available_permits() < AMQP_JOBS_MAX {
            tokio::task::yield_now().await;
        }
        has_answered.store(true, Ordering::SeqCst);
        for _ in 0..calls {
            assert!(matches!(jobs.next().await, JobResult::Nothing));
        }
        assert!(jobs.is_idle());
    }

    #[tokio::test]
    async fn a_closed_connection_leaves_its_calls_to_themselves() {
        let namespace = Namespace::open(NamespaceOptions::default()).expect("opens");
        let mut jobs = Jobs::new(Context::for_tests(namespace));
        jobs.may_wait = true;
        let (ended, is_polled) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (end, polled) = (Arc::clone(&ended), Arc::clone(&is_polled));
        jobs.start_call(async move {
            poll_fn(|_| {
                if polled.swap(true, Ordering::SeqCst) {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            })
            .await;
            end.store(true, Ordering::SeqCst);
            JobResult::Nothing
        });
        while !is_polled.load(Ordering::SeqCst) {
            tokio::task::yield_now().await;
        }
        drop(jobs);
        while !ended.load(Ordering::SeqCst) {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }
}
