// SPDX-License-Identifier: Apache-2.0
//! One connection: a task that reads, calls the broker, answers and writes.
//!
//! All input of one read is processed before anything is written, so that answers are written together. A link has at
//! most one call of each kind in progress. Input that arrives during the call goes into the next one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use oxbus_amqp::codec::{Map, Symbol};
use oxbus_amqp::engine::{Engine, EngineEvent, EngineSettings, IncomingDelivery, LinkId};
use oxbus_amqp::extension::ABANDON_DELAY;
use oxbus_amqp::performative::{AmqpError, Attach, condition};
use oxbus_model::Timestamp;
use oxbus_model::caps::{AMQP_CLOSE_MS_MAX, AMQP_QUEUED_BYTES_MAX};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;

use super::client_names::ClientNames;
use super::jobs::{JobResult, Jobs};
use super::links::{ClientLink, LinkKind};
use super::notified::NotifiedLinks;
use super::read_buffer::ReadBuffer;
use super::state::ConnectionState;
use super::timers::Timers;
use super::transactions::Coordinator;
use crate::accept::until_stopped;
use crate::console::Probe;
use crate::front::{Context, PeerInfo};

/// The text of the errors that a stopping server sends.
pub(super) const SHUTTING_DOWN: &str = "the server is shutting down; connect again later";

/// An AMQP connection.
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent of each other")]
pub(super) struct AmqpConnection {
    pub(super) context: Context,
    pub(super) peer: PeerInfo,
    pub(super) engine: Engine,
    pub(super) state: Arc<ConnectionState>,
    pub(super) coordinator: Arc<Coordinator>,
    pub(super) links: HashMap<LinkId, ClientLink>,
    /// Attaches of request and reply links, until their entity is known to exist.
    pub(super) pending_attaches: HashMap<LinkId, Attach>,
    pub(super) jobs: Jobs,
    pub(super) notified: Arc<NotifiedLinks>,
    pub(super) timers: Timers,
    /// Links with queued messages or settlements.
    pub(super) dirty: Vec<LinkId>,
    /// Links with credit that cannot send at the moment, because the client reads too slowly.
    pub(super) stalled: Vec<LinkId>,
    /// Bytes of messages and requests whose calls have not finished.
    pub(super) queued_bytes: usize,
    pub(super) started: Instant,
    /// True if the client has authenticated, by SASL PLAIN or by a token.
    pub(super) is_known: bool,
    /// When the connection lost its last link, or was accepted if it has had none.
    pub(super) linkless_since: Option<Instant>,
    /// True if the connection has had a link.
    pub(super) had_links: bool,
    pub(super) is_stopping: bool,
    /// True if the server takes no more links, delivers nothing, and waits for the client to settle.
    pub(super) is_draining: bool,
    /// True if the server has sent a close and waits for the client's.
    pub(super) is_closing: bool,
    /// What the client said about itself when it opened the connection.
    pub(super) client: ClientNames,
    /// The time of the accept, for people.
    pub(super) opened_at: Timestamp,
    /// The messages that the client sent, and those that it got.
    pub(super) message_counts: (u64, u64),
    /// A buffer for the head of an outgoing message.
    pub(super) head: BytesMut,
}

impl AmqpConnection {
    pub(super) fn new(context: Context, peer: PeerInfo) -> Self {
        let started = Instant::now();
        let opened_at = context.now();
        let settings = EngineSettings {
            offered_capabilities: vec![Symbol::from_static(ABANDON_DELAY)],
            properties: Map::new()
                .with("product", "oxbus")
                .with("version", env!("CARGO_PKG_VERSION")),
            ..EngineSettings::default()
        };
        Self {
            engine: Engine::new(settings, 0),
            state: Arc::new(ConnectionState::new(context.clone())),
            coordinator: Arc::new(Coordinator::new(context.clone())),
            jobs: Jobs::new(context.clone()),
            context,
            peer,
            links: HashMap::new(),
            pending_attaches: HashMap::new(),
            notified: Arc::default(),
            timers: Timers::default(),
            dirty: Vec::new(),
            stalled: Vec::new(),
            queued_bytes: 0,
            started,
            is_known: false,
            linkless_since: Some(started),
            had_links: false,
            is_stopping: false,
            is_draining: false,
            is_closing: false,
            client: ClientNames::default(),
            opened_at,
            message_counts: (0, 0),
            head: BytesMut::new(),
        }
    }

    /// Milliseconds since the connection was accepted.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Runs the connection until it closes.
    pub(super) async fn run(mut self, stream: impl AsyncRead + AsyncWrite + Unpin + Send) {
        let (mut reads, mut writes) = tokio::io::split(stream);
        let mut stopped = self.context.stopped();
        let mut draining = self.context.draining();
        let mut output = BytesMut::new();
        let notified = Arc::clone(&self.notified);
        let mut probe: Probe = self.context.connections().enter();
        let mut read_buffer = ReadBuffer::new();
        loop {
            self.work();
            if output.is_empty() {
                std::mem::swap(&mut output, self.engine.output());
            }
            if output.is_empty() && self.engine.is_finished() {
                break;
            }
            let may_read = self.engine.wants_input() && self.has_capacity() && (self.is_closing || !self.is_drained());
            let deadline = self.deadline();
            read_buffer.reserve(self.engine.input());
            tokio::select! {
                written = writes.write(&output), if !output.is_empty() => match written {
                    Ok(0) | Err(_) => break,
                    Ok(count) => output.advance(count),
                },
                read = reads.read_buf(self.engine.input()), if may_read => match read {
                    Ok(0) | Err(_) => break,
                    Ok(count) => read_buffer.record_read(count),
                },
                done = self.jobs.next() => self.finish(done),
                () = notified.wait() => {}
                () = tokio::time::sleep_until(deadline) => {
                    read_buffer.shrink();
                    self.on_timer();
                }
                () = probe.asked() => self.context.connections().answer(&mut probe, self.card()),
                () = until_stopped(&mut stopped), if !self.is_stopping => self.is_stopping = true,
                () = until_stopped(&mut draining), if !self.is_draining => self.begin_drain(),
            }
        }
        self.context.connections().leave(&probe);
        // The time limit for answering a close applies also to a client that has stopped reading.
        let closing = async {
            let _ = writes.flush().await;
            let _ = writes.shutdown().await;
        };
        let _ = tokio::time::timeout(Duration::from_millis(AMQP_CLOSE_MS_MAX), closing).await;
        self.end().await;
    }

    /// Processes the input received so far and the calls that have finished. Does not wait.
    fn work(&mut self) {
        if !self.engine.is_backed_up() {
            for link in std::mem::take(&mut self.stalled) {
                self.continue_sending(link);
            }
        }
        loop {
            if let Some(done) = self.jobs.pop_done() {
                self.finish(done);
                continue;
            }
            let now = self.now();
            if self.has_capacity()
                && let Some(event) = self.engine.next_event(now)
            {
                self.handle(event);
                continue;
            }
            let notified = self.notified.take();
            let is_notified = !notified.is_empty();
            for link in notified {
                self.resume(link);
            }
            if !self.start_queued() && !is_notified {
                break;
            }
        }
        let is_done = self.is_stopping && self.is_drained() || self.is_draining && self.is_settled();
        if is_done && self.jobs.is_idle() {
            self.force_close(SHUTTING_DOWN.to_owned());
        }
        let now = self.now();
        self.engine.flush(now);
    }

    /// True while the queued bytes and calls are below their limits.
    fn has_capacity(&self) -> bool {
        self.queued_bytes < AMQP_QUEUED_BYTES_MAX && !self.jobs.is_full()
    }

    /// True if the server is stopping and all input has been answered.
    fn is_drained(&self) -> bool {
        self.is_stopping && self.queued_bytes == 0 && self.dirty.is_empty()
    }

    /// Takes no more links and delivers nothing more.
    fn begin_drain(&mut self) {
        self.is_draining = true;
        for link in self.links.values_mut() {
            if let LinkKind::Receive(receive_link) = &mut link.kind {
                receive_link.waiting = None;
            }
        }
    }

    /// True if the client has nothing left to settle, and all its input has been answered.
    fn is_settled(&self) -> bool {
        let is_unsettled = |link: &LinkId| self.engine.unsettled(link.session()) > 0;
        self.queued_bytes == 0 && self.dirty.is_empty() && !self.links.keys().any(is_unsettled)
    }

    fn handle(&mut self, event: EngineEvent) {
        match event {
            EngineEvent::SaslInit(init) => self.authenticate(&init),
            EngineEvent::Open(open) => self.client = ClientNames::of(&open),
            EngineEvent::Begin { .. } => {}
            EngineEvent::Attach(request) => self.attach(*request),
            EngineEvent::Credit { link, credit, drain } => self.credit(link, credit, drain),
            EngineEvent::Incoming(incoming) => self.incoming(*incoming),
            EngineEvent::Disposition(settle) => self.settle(*settle),
            EngineEvent::Detach { link, .. } => self.detached(link),
            EngineEvent::LinkFailed { link, .. } => self.remove(link),
            EngineEvent::End { session, .. } => {
                self.remove_all_of(session);
                self.engine.end(session, None);
            }
            EngineEvent::SessionFailed { session, .. } => self.remove_all_of(session),
            EngineEvent::Close { .. } => {
                self.remove_all();
                let now = self.now();
                self.engine.close(None, now);
            }
            EngineEvent::Failed(fault) => {
                self.peer.log_failed(fault.condition.as_str());
                self.remove_all();
            }
        }
    }

    fn incoming(&mut self, incoming: IncomingDelivery) {
        let Some(link) = self.links.get_mut(&incoming.link) else {
            return;
        };
        link.used_at = Instant::now();
        link.messages += 1;
        match &mut link.kind {
            LinkKind::Send(send_link) => {
                self.message_counts.0 += 1;
                self.queued_bytes += incoming.message.len();
                if send_link.queued.is_empty() {
                    self.dirty.push(incoming.link);
                }
                send_link.queued.push(incoming);
            }
            LinkKind::Request { node } => {
                let node = node.clone();
                self.request(&node, incoming);
            }
            LinkKind::Coordinator => self.coordinate(incoming),
            LinkKind::Attaching(_) | LinkKind::Receive(_) | LinkKind::Reply(_) => {}
        }
    }

    fn credit(&mut self, id: LinkId, credit: u32, drain: bool) {
        let Some(link) = self.links.get_mut(&id) else { return };
        link.used_at = Instant::now();
        match &mut link.kind {
            LinkKind::Receive(receive_link) => {
                receive_link.is_draining = drain;
                if credit == 0 {
                    receive_link.waiting = None;
                }
                self.resume(id);
            }
            LinkKind::Reply(_) => {
                self.send_replies(id);
                if drain {
                    self.engine.drained(id);
                }
            }
            _ => {}
        }
    }

    /// Handles the result of a call.
    pub(super) fn finish(&mut self, done: JobResult) {
        match done {
            JobResult::Opened(link, opened) => self.opened(link, opened),
            JobResult::Sent(link, answers, bytes) => self.sent(link, answers, bytes),
            JobResult::ReceiveStep(link, look) => self.on_receive_step(link, look),
            JobResult::AcceptStep(link, look) => self.on_accept_step(link, look),
            JobResult::Settled(link, answers) => self.settled(link, answers),
            JobResult::Answered(answered) => self.answered(*answered),
            JobResult::Coordinated(id, state, bytes) => {
                self.queued_bytes -= bytes;
                self.engine.answer(id, state);
            }
            JobResult::Released(link) => self.engine.detach(link, None),
            JobResult::Nothing => {}
            JobResult::Panicked => {
                let text = "the server panicked during a call; see its error output";
                let now = self.now();
                self.engine
                    .close(Some(AmqpError::new(condition::INTERNAL_ERROR, text)), now);
            }
        }
    }

    /// Starts calls for the queued messages and settlements. Returns false if there are none.
    fn start_queued(&mut self) -> bool {
        let links = std::mem::take(&mut self.dirty);
        let mut is_any_started = false;
        for link in links {
            is_any_started |= self.start_sends(link);
            is_any_started |= self.start_settles(link);
        }
        is_any_started
    }

    /// Detaches a link with an error.
    pub(super) fn detach(&mut self, link: LinkId, fault: AmqpError) {
        self.remove(link);
        self.engine.detach(link, Some(fault));
    }

    fn remove_all_of(&mut self, session: oxbus_amqp::engine::SessionId) {
        let removed: Vec<LinkId> = self
            .links
            .keys()
            .filter(|link| link.session() == session)
            .copied()
            .collect();
        for link in removed {
            self.remove(link);
        }
    }

    /// Handles a detach by the client. Messages that it sent before are stored and answered first. The session of a
    /// receiver is free once the client has the answer.
    fn detached(&mut self, id: LinkId) {
        if let Some(LinkKind::Send(send_link)) = self.links.get_mut(&id).map(|link| &mut link.kind)
            && (send_link.is_busy || !send_link.queued.is_empty())
        {
            send_link.is_detaching = true;
            return;
        }
        if !self.remove_then(id, Some(JobResult::Released(id))) {
            self.engine.detach(id, None);
        }
    }

    /// Resumes a link that was stalled.
    fn continue_sending(&mut self, id: LinkId) {
        match self.links.get(&id).map(|link| &link.kind) {
            Some(LinkKind::Reply(_)) => self.send_replies(id),
            _ => self.resume(id),
        }
    }

    fn remove_all(&mut self) {
        let removed: Vec<LinkId> = self.links.keys().copied().collect();
        for link in removed {
            self.remove(link);
        }
    }

    /// Removes all links, rolls back open transactions, and waits for the calls in progress.
    async fn end(mut self) {
        self.remove_all();
        let coordinator = Arc::clone(&self.coordinator);
        self.jobs.start(move |_| {
            coordinator.close();
            JobResult::Nothing
        });
        self.jobs.finish().await;
    }
}
