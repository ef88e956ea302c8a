// SPDX-License-Identifier: Apache-2.0
//! Timeouts: of connections without a token or a link, of idle links, and of links whose token has expired.

use std::time::Duration;

use oxbus_amqp::engine::LinkId;
use oxbus_amqp::performative::{AmqpError, condition};
use oxbus_model::caps::{AMQP_FIRST_LINK_MS_MAX, AMQP_LINK_IDLE_MS_MAX, AMQP_TOKEN_MS_MAX, AMQP_WITHOUT_LINK_MS_MAX};
use tokio::time::Instant;

use super::connection::AmqpConnection;
use super::fault;
use super::links::LinkKind;

const TOKEN_TIMEOUT: Duration = Duration::from_millis(AMQP_TOKEN_MS_MAX);
const FIRST_LINK_TIMEOUT: Duration = Duration::from_millis(AMQP_FIRST_LINK_MS_MAX);
const WITHOUT_LINK_TIMEOUT: Duration = Duration::from_millis(AMQP_WITHOUT_LINK_MS_MAX);
const LINK_IDLE_TIMEOUT: Duration = Duration::from_millis(AMQP_LINK_IDLE_MS_MAX);
/// The maximum sleep, and so the interval at which links are checked.
const SLEEP_MAX: Duration = Duration::from_secs(30);

impl AmqpConnection {
    /// The time until which the connection may sleep.
    pub(super) fn deadline(&self) -> Instant {
        let now = Instant::now();
        let engine = self
            .engine
            .deadline()
            .map(|ms| self.started + Duration::from_millis(ms));
        if self.is_closing {
            return engine.unwrap_or(now + SLEEP_MAX);
        }
        let token = (!self.is_known).then_some(self.started + TOKEN_TIMEOUT);
        let claims_expiry = self.state.first_expiry().map(|end| {
            let left = end.0.saturating_sub(self.context.now().0);
            now + Duration::from_millis(left).min(SLEEP_MAX)
        });
        let linkless_end = self.linkless_since.map(|since| since + self.linkless_max());
        [engine, token, claims_expiry, linkless_end, self.timers.first()]
            .into_iter()
            .flatten()
            .fold(now + SLEEP_MAX, Instant::min)
    }

    fn linkless_max(&self) -> Duration {
        if self.had_links {
            WITHOUT_LINK_TIMEOUT
        } else {
            FIRST_LINK_TIMEOUT
        }
    }

    /// Handles all timeouts that are due.
    pub(super) fn on_timer(&mut self) {
        let now_ms = self.now();
        self.engine.tick(now_ms);
        if self.is_closing {
            return;
        }
        let now = Instant::now();
        while let Some(link) = self.timers.pop_due(now) {
            self.on_link_timer(link, now);
        }
        if !self.is_known && now >= self.started + TOKEN_TIMEOUT {
            // B-409.
            self.peer.log_failed("no_token");
            let text = format!("no token was put to $cbs within {} ms", TOKEN_TIMEOUT.as_millis());
            return self.force_close(text);
        }
        if let Some(since) = self.linkless_since
            && now >= since + self.linkless_max()
        {
            // B-410.
            let text = format!(
                "The connection was inactive for more than the allowed {} milliseconds and is closed by container 'oxbus'.",
                self.linkless_max().as_millis()
            );
            return self.force_close(text);
        }
        self.detach_idle_links(now);
        self.detach_unauthorized_links();
    }

    pub(super) fn force_close(&mut self, text: String) {
        if std::mem::replace(&mut self.is_closing, true) {
            return;
        }
        let now = self.now();
        self.engine
            .close(Some(AmqpError::new(condition::CONNECTION_FORCED, text)), now);
    }

    fn on_link_timer(&mut self, id: LinkId, now: Instant) {
        match self.links.get(&id).map(|link| &link.kind) {
            Some(LinkKind::Attaching(_)) => self.try_accept_session(id),
            Some(LinkKind::Receive(receive_link)) => {
                let grace = Duration::from_millis(oxbus_model::caps::AMQP_SESSION_LOST_MS);
                if receive_link.session_lost_at.is_some_and(|at| now >= at + grace) {
                    let error = oxbus_model::Error::new(
                        oxbus_model::ErrorKind::SessionLockLost,
                        "The session lock has expired on the MessageSession. Accept a new MessageSession.",
                    );
                    return self.detach(id, fault::of(&error));
                }
                if let Some(error) = self.session_lock_fault(id) {
                    return self.detach(id, error);
                }
                self.resume(id);
                self.set_timer(id);
            }
            _ => {}
        }
    }

    /// The fault of a session whose lock ended longer than the grace period ago.
    fn session_lock_fault(&self, id: LinkId) -> Option<AmqpError> {
        let Some(LinkKind::Receive(receive_link)) = self.links.get(&id).map(|link| &link.kind) else {
            return None;
        };
        receive_link.receiver.session_id()?;
        let until = receive_link.receiver.session_locked_until()?;
        let clock = self.context.namespace().clock();
        let is_over = clock.is_real_time() && until.0 + oxbus_model::caps::AMQP_SESSION_LOST_MS <= clock.now().0;
        is_over.then(|| {
            AmqpError::new(
                "com.microsoft:session-lock-lost",
                "The session lock has expired on the MessageSession. Accept a new MessageSession.",
            )
        })
    }

    /// Detaches idle links (B-411).
    fn detach_idle_links(&mut self, now: Instant) {
        let is_unused = |used_at: Instant| now >= used_at + LINK_IDLE_TIMEOUT;
        let unused: Vec<LinkId> = self
            .links
            .iter()
            .filter(|(_, link)| link.required_access().is_some() && is_unused(link.used_at))
            .map(|(id, _)| *id)
            .collect();
        for id in unused {
            let text = "The link is force detached. Code: publisher(link). Details: Idle timeout: 00:10:00.";
            self.detach(id, AmqpError::new(condition::DETACH_FORCED, text));
        }
    }

    /// Detaches links that no unexpired token allows (B-417).
    fn detach_unauthorized_links(&mut self) {
        let now = self.context.now();
        if self.state.first_expiry().is_none_or(|end| end > now) {
            return;
        }
        let refused: Vec<_> = self
            .links
            .iter()
            .filter_map(|(id, link)| {
                let (address, right) = link.required_access()?;
                let refused = self.state.check(right, &address.scope()).err()?;
                Some((*id, refused))
            })
            .collect();
        self.state.forget_expired();
        for (id, refused) in refused {
            self.detach(id, fault::access_denied(&refused));
        }
    }
}
