// SPDX-License-Identifier: Apache-2.0
//! What ends by itself: connections without a token or a link, links without use, links whose token is over.

use std::time::Duration;

use oxbus_amqp::engine::LinkId;
use oxbus_amqp::performative::{Fault, condition};
use oxbus_model::caps::{AMQP_FIRST_LINK_MS_MAX, AMQP_LINK_IDLE_MS_MAX, AMQP_TOKEN_MS_MAX, AMQP_WITHOUT_LINK_MS_MAX};
use tokio::time::Instant;

use super::connection::Connection;
use super::fault;
use super::links::Kind;

const TOKEN: Duration = Duration::from_millis(AMQP_TOKEN_MS_MAX);
const FIRST_LINK: Duration = Duration::from_millis(AMQP_FIRST_LINK_MS_MAX);
const WITHOUT_LINK: Duration = Duration::from_millis(AMQP_WITHOUT_LINK_MS_MAX);
const LINK_IDLE: Duration = Duration::from_millis(AMQP_LINK_IDLE_MS_MAX);
/// The longest sleep; links are looked over so often.
const ROUND: Duration = Duration::from_secs(30);

impl Connection {
    /// Until when the connection may sleep.
    pub(super) fn deadline(&self) -> Instant {
        let now = Instant::now();
        let engine = self
            .engine
            .deadline()
            .map(|ms| self.started + Duration::from_millis(ms));
        if self.is_closing {
            return engine.unwrap_or(now + ROUND);
        }
        let token = (!self.is_known).then_some(self.started + TOKEN);
        let claims = self.shared.first_expiry().map(|end| {
            let left = end.0.saturating_sub(self.context.now().0);
            now + Duration::from_millis(left).min(ROUND)
        });
        let linkless = self.without_links_since.map(|since| since + self.linkless_max());
        [engine, token, claims, linkless, self.timers.first()]
            .into_iter()
            .flatten()
            .fold(now + ROUND, Instant::min)
    }

    fn linkless_max(&self) -> Duration {
        if self.had_links { WITHOUT_LINK } else { FIRST_LINK }
    }

    /// Does what is due.
    pub(super) fn on_time(&mut self) {
        let now_ms = self.now();
        self.engine.tick(now_ms);
        if self.is_closing {
            return;
        }
        let now = Instant::now();
        while let Some(link) = self.timers.take_due(now) {
            self.link_time(link, now);
        }
        if !self.is_known && now >= self.started + TOKEN {
            // B-409.
            self.peer.log_failed("no_token");
            let text = format!("no token was put to $cbs within {} ms", TOKEN.as_millis());
            return self.force_close(text);
        }
        if let Some(since) = self.without_links_since
            && now >= since + self.linkless_max()
        {
            // B-410.
            let text = format!(
                "The connection was inactive for more than the allowed {} milliseconds and is closed by container 'oxbus'.",
                self.linkless_max().as_millis()
            );
            return self.force_close(text);
        }
        self.drop_unused(now);
        self.drop_unauthorized();
    }

    pub(super) fn force_close(&mut self, text: String) {
        if std::mem::replace(&mut self.is_closing, true) {
            return;
        }
        let now = self.now();
        self.engine
            .close(Some(Fault::new(condition::CONNECTION_FORCED, text)), now);
    }

    fn link_time(&mut self, id: LinkId, now: Instant) {
        match self.links.get(&id).map(|link| &link.kind) {
            Some(Kind::Opening(_)) => self.look_for_session(id),
            Some(Kind::Receives(receives)) => {
                let grace = Duration::from_millis(oxbus_model::caps::AMQP_SESSION_LOST_MS);
                if receives.session_lost_at.is_some_and(|at| now >= at + grace) {
                    let error = oxbus_model::Error::new(
                        oxbus_model::ErrorKind::SessionLockLost,
                        "The session lock has expired on the MessageSession. Accept a new MessageSession.",
                    );
                    return self.detach(id, fault::of(&error));
                }
                if let Some(error) = self.session_check(id) {
                    return self.detach(id, error);
                }
                self.look(id);
                self.set_timer(id);
            }
            _ => {}
        }
    }

    /// The fault of a session whose lock ended a while ago.
    fn session_check(&self, id: LinkId) -> Option<Fault> {
        let Some(Kind::Receives(receives)) = self.links.get(&id).map(|link| &link.kind) else {
            return None;
        };
        receives.receiver.session_id()?;
        let until = receives.receiver.session_locked_until()?;
        let clock = self.context.namespace().clock();
        let is_over = clock.is_real_time() && until.0 + oxbus_model::caps::AMQP_SESSION_LOST_MS <= clock.now().0;
        is_over.then(|| {
            Fault::new(
                "com.microsoft:session-lock-lost",
                "The session lock has expired on the MessageSession. Accept a new MessageSession.",
            )
        })
    }

    /// Detaches links on which nothing has happened for long (B-411).
    fn drop_unused(&mut self, now: Instant) {
        let is_unused = |used_at: Instant| now >= used_at + LINK_IDLE;
        let unused: Vec<LinkId> = self
            .links
            .iter()
            .filter(|(_, link)| link.needs().is_some() && is_unused(link.used_at))
            .map(|(id, _)| *id)
            .collect();
        for id in unused {
            let text = "The link is force detached. Code: publisher(link). Details: Idle timeout: 00:10:00.";
            self.detach(id, Fault::new(condition::DETACH_FORCED, text));
        }
    }

    /// Detaches links that no token allows any more (B-417).
    fn drop_unauthorized(&mut self) {
        let now = self.context.now();
        if self.shared.first_expiry().is_none_or(|end| end > now) {
            return;
        }
        let refused: Vec<_> = self
            .links
            .iter()
            .filter_map(|(id, link)| {
                let (place, right) = link.needs()?;
                let refused = self.shared.allows(right, &place.scope()).err()?;
                Some((*id, refused))
            })
            .collect();
        self.shared.forget_expired();
        for (id, refused) in refused {
            self.detach(id, fault::refused(&refused));
        }
    }
}
