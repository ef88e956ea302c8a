// SPDX-License-Identifier: Apache-2.0
//! Session links: an attach waits for the next session as long as the client asks for, and the link ends with the
//! session's lock (B-183 … B-206).

use std::sync::Arc;
use std::time::Duration;

use oxbus_amqp::codec::{AmqpValue, Map};
use oxbus_amqp::engine::{AttachResponse, LinkId};
use oxbus_amqp::performative::Attach;
use oxbus_broker::Receiver;
use oxbus_broker::client::{Acceptor, WaitOptions, WaitSource, WaitStep, step};
use oxbus_broker::clock::Deadline;
use oxbus_model::caps::{AMQP_ACCEPT_MS_DEFAULT, AMQP_ACCEPT_MS_MAX, AMQP_SESSION_LOST_MS};
use oxbus_model::{Error, Result, Timestamp};
use oxbus_store::Wait;
use tokio::time::Instant;

use super::connection::AmqpConnection;
use super::fault;
use super::jobs::{JobResult, LinkEndpoint};
use super::links::{LinkKind, WaitingForSession};

/// The only supported filter (B-424).
pub(super) const SESSION_FILTER: &str = "com.microsoft:session-filter";

/// .NET ticks of 100 ns from the year 1 to 1970.
const TICKS_BEFORE_1970: i64 = 621_355_968_000_000_000;
const TICKS_PER_MS: i64 = 10_000;

fn dotnet_ticks(time: Timestamp) -> i64 {
    let ms = i64::try_from(time.0).unwrap_or(i64::MAX);
    ms.saturating_mul(TICKS_PER_MS).saturating_add(TICKS_BEFORE_1970)
}

/// Adds the session id and the end of its lock to the attach response.
pub(super) fn describe_session(receiver: &Receiver, accept: &mut AttachResponse) {
    let Some(id) = receiver.session_id() else { return };
    // The response has the form of the request: some clients accept only described values, others only strings.
    let requested = accept.source.filter.take();
    let id = match requested.as_ref().and_then(|filter| filter.get(SESSION_FILTER)) {
        Some(AmqpValue::Described(pair)) => AmqpValue::described(pair.0.clone(), id.into()),
        _ => id.into(),
    };
    accept.source.filter = Some(Map::new().with(SESSION_FILTER, id));
    if let Some(until) = receiver.session_locked_until() {
        accept.properties =
            std::mem::take(&mut accept.properties).with("com.microsoft:locked-until-utc", dotnet_ticks(until));
    }
}

/// The time that a client waits for a session (B-196).
fn wait_time(attach: &Attach) -> Duration {
    let requested = attach
        .properties
        .as_ref()
        .and_then(|map| map.get("com.microsoft:timeout"))
        .and_then(AmqpValue::as_i64)
        .and_then(|ms| u64::try_from(ms).ok());
    Duration::from_millis(requested.unwrap_or(AMQP_ACCEPT_MS_DEFAULT).min(AMQP_ACCEPT_MS_MAX))
}

impl AmqpConnection {
    /// Keeps an attach open until a session is available.
    pub(super) fn wait_for_session(&mut self, id: LinkId, acceptor: Acceptor) {
        if let Some(LinkKind::Attaching(pending)) = self.links.get_mut(&id).map(|link| &mut link.kind) {
            pending.waiting = Some(WaitingForSession {
                acceptor: Arc::new(acceptor),
                deadline: Deadline::after(Some(wait_time(&pending.attach))),
                waiting: None,
                is_attempting: false,
                retry: false,
            });
        }
        self.try_accept_session(id);
    }

    /// Tries to accept a session. Registers in the wait queue if none is available.
    pub(super) fn try_accept_session(&mut self, id: LinkId) {
        let Some(LinkKind::Attaching(pending)) = self.links.get_mut(&id).map(|link| &mut link.kind) else {
            return;
        };
        let Some(waiting) = &mut pending.waiting else { return };
        if waiting.is_attempting {
            waiting.retry = true;
            return;
        }
        waiting.is_attempting = true;
        waiting.retry = false;
        let acceptor = Arc::clone(&waiting.acceptor);
        let (deadline, registration) = (waiting.deadline, waiting.waiting.take());
        let callback = self.notified.callback(id);
        self.jobs.start(move |store| {
            let options = WaitOptions {
                deadline,
                cancellation: &Wait::FOREVER,
                poll_interval: None,
            };
            let accept = || Ok(acceptor.accept_now(store)?.map(Box::new));
            JobResult::AcceptStep(id, step(&*acceptor, registration, &options, Some(callback), accept))
        });
    }

    pub(super) fn on_accept_step(&mut self, id: LinkId, stepped: Result<WaitStep<Box<Receiver>>>) {
        let Some(LinkKind::Attaching(pending)) = self.links.get_mut(&id).map(|link| &mut link.kind) else {
            // The client has detached: dropping the step releases the session.
            return;
        };
        let Some(waiting) = &mut pending.waiting else { return };
        waiting.is_attempting = false;
        match stepped {
            Ok(WaitStep::Found(receiver)) => self.opened(id, Ok(LinkEndpoint::Receiver(receiver))),
            Ok(WaitStep::Over) => {
                let error = waiting.acceptor.timed_out();
                self.refuse_session(id, &error);
            }
            Ok(WaitStep::Waiting(registration)) => {
                let next = registration.sleep_max.map(|time| Instant::now() + time);
                waiting.waiting = Some(registration);
                if waiting.retry {
                    return self.try_accept_session(id);
                }
                self.timers.set(id, next);
            }
            Err(error) => self.refuse_session(id, &error),
        }
    }

    fn refuse_session(&mut self, id: LinkId, error: &Error) {
        self.detach(id, fault::of(error));
    }

    /// Sets the timer that detects a lost session, a grace period after its lock ends, as in the service (B-201).
    pub(super) fn set_timer(&mut self, id: LinkId) {
        let Some(LinkKind::Receive(receive_link)) = self.links.get(&id).map(|link| &link.kind) else {
            return;
        };
        let now = Instant::now();
        let grace = Duration::from_millis(AMQP_SESSION_LOST_MS);
        let clock = self.context.namespace().clock();
        let lost = receive_link.session_lost_at.map(|at| at + grace);
        let lock_end = receive_link
            .receiver
            .session_locked_until()
            .filter(|_| clock.is_real_time())
            .map(|until| now + Duration::from_millis(until.0.saturating_sub(clock.now().0)) + grace);
        let retry = receive_link
            .waiting
            .as_ref()
            .and_then(|_| receive_link.receiver.recheck_after())
            .map(|wait| now + wait);
        let next = [lost.or(lock_end), retry].into_iter().flatten().min();
        self.timers.set(id, next);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use oxbus_amqp::codec::Map;
    use oxbus_amqp::performative::{Attach, ReceiverSettleMode, Role, SenderSettleMode};
    use oxbus_model::caps::{AMQP_ACCEPT_MS_DEFAULT, AMQP_ACCEPT_MS_MAX};

    use super::wait_time;

    #[test]
    fn wait_for_a_session_is_limited() {
        // AMQP_ACCEPT_MS_MAX: a client that asks for weeks waits for an hour.
        let asks = |properties| Attach {
            name: "link".into(),
            handle: 0,
            role: Role::Receiver,
            snd_settle_mode: SenderSettleMode::Unsettled,
            rcv_settle_mode: ReceiverSettleMode::Second,
            source: None,
            target: None,
            unsettled: None,
            incomplete_unsettled: false,
            initial_delivery_count: None,
            max_message_size: None,
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
            properties: Some(properties),
        };
        let timeout = |ms: u32| wait_time(&asks(Map::new().with("com.microsoft:timeout", ms)));
        assert_eq!(timeout(u32::MAX), Duration::from_millis(AMQP_ACCEPT_MS_MAX));
        assert_eq!(timeout(1), Duration::from_millis(1));
        assert_eq!(
            wait_time(&asks(Map::new())),
            Duration::from_millis(AMQP_ACCEPT_MS_DEFAULT)
        );
    }
}
