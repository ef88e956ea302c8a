// SPDX-License-Identifier: Apache-2.0
//! The sessions of a cell at work: sorting messages in, handing them out, and ends of sessions.

use std::sync::Arc;

use oxbus_log::event;
use oxbus_model::message::Fields;
use oxbus_model::name::SubQueue;
use oxbus_model::{Moment, Ticks, Timestamp};
use oxbus_store::{ClaimMode, ClaimedMessage, LockKey, MessageStore, Outcome, RemovedMessage, Wait};

use super::DeadLetterReason;
use crate::shard::sessions::SessionWakeUps;
use crate::shard::{AcceptedSession, Cell, ReadyCounts, Rules, SessionEnd, SessionLost, SessionReceive, Sessions};

/// Messages sorted in at once.
const FILL_BATCH: usize = 64;

impl Cell {
    /// Its sessions, when its entity requires them.
    #[inline]
    pub fn sessions(&self) -> Option<&Sessions> {
        self.sessions.as_ref()
    }

    /// Sorts what became ready into its sessions and tells their holders.
    pub fn fill_sessions(&self, now: Timestamp, rules: Rules, wait: &Wait<'_>) -> ReadyCounts {
        let Some(sessions) = &self.sessions else {
            return ReadyCounts::default();
        };
        let _intake = sessions.intake();
        self.fill_sessions_locked(sessions, now, rules, wait)
    }

    /// Puts what is ready in all sessions back into the store's own order: it is not received by session any more.
    pub fn empty_sessions(&self) {
        let Some(sessions) = &self.sessions else { return };
        let _intake = sessions.intake();
        let keys = sessions.index().take_ready();
        self.main.release_cached(&keys);
    }

    /// The same for who has `intake`.
    fn fill_sessions_locked(&self, sessions: &Sessions, now: Timestamp, rules: Rules, wait: &Wait<'_>) -> ReadyCounts {
        let mut ended = ReadyCounts::default();
        let mut claims = Vec::new();
        loop {
            let (taken, dead_lettered) = self.claim_or_expire(
                SubQueue::Main,
                FILL_BATCH,
                ClaimMode::Cache,
                (now, rules.dead_letter_expired),
                &mut claims,
                wait,
            );
            ended.dead_letters += dead_lettered;
            if taken == 0 {
                return ended;
            }
            // Read before the index is locked: they may be on disk.
            let read = |claimed: &ClaimedMessage| self.load(&claimed.record);
            let Ok(records) = claims.iter().map(read).collect::<Result<Vec<_>, _>>() else {
                // The shard is out of service. They are sorted in when it is healed.
                let keys: Vec<LockKey> = claims.iter().map(|claimed| claimed.key).collect();
                self.main.release_cached(&keys);
                return ended;
            };
            let mut wake_ups = SessionWakeUps::default();
            let mut without = Vec::new();
            let mut index = sessions.index();
            for (claimed, record) in claims.drain(..).zip(&records) {
                match Fields::decode(record).ok().and_then(|fields| fields.session_id) {
                    Some(id) => index.insert(id, claimed, &mut wake_ups),
                    None => without.push(claimed),
                }
            }
            drop(index);
            ended.sessions += wake_ups.available;
            for holder in wake_ups.holders {
                // All: a receiver may be used by several threads, and who is rung does not know of the other messages.
                holder.wait_queue().notify_all();
            }
            let reason = DeadLetterReason::SessionIdNull;
            ended.dead_letters += self.dead_letter_removed(self.remove_claimed(without), reason, wait);
        }
    }

    /// Takes ready messages out of their sessions, for who has taken hold of them.
    pub(crate) fn withdraw_from_sessions(&self, keys: impl Iterator<Item = LockKey>) {
        if let Some(sessions) = &self.sessions {
            sessions.index().withdraw(&keys.collect());
        }
    }

    /// Takes messages that are put aside out of the store.
    fn remove_claimed(&self, messages: Vec<ClaimedMessage>) -> Vec<RemovedMessage> {
        let remove_claimed = |message: ClaimedMessage| {
            self.main.hand_out(message.key, ClaimMode::Take)?;
            Some(RemovedMessage {
                counter: message.key.counter,
                record: message.record,
                delivery_count: message.delivery_count,
                enqueued_at: message.enqueued_at,
                expires_at: message.expires_at,
            })
        };
        messages.into_iter().filter_map(remove_claimed).collect()
    }

    /// Drops messages whose time is over, or buries them. Returns how many were buried.
    pub(crate) fn dispose_expired(&self, expired: Vec<ClaimedMessage>, rules: Rules, wait: &Wait<'_>) -> usize {
        if expired.is_empty() {
            return 0;
        }
        self.remove_expired(
            SubQueue::Main,
            self.remove_claimed(expired),
            rules.dead_letter_expired,
            wait,
        )
    }

    /// Locks the session that waits longest.
    pub fn accept_next(
        &self,
        owner: &str,
        deadline: Ticks,
        now: Timestamp,
        rules: Rules,
        wait: &Wait<'_>,
    ) -> (Option<Arc<AcceptedSession>>, ReadyCounts) {
        let Some(sessions) = &self.sessions else {
            return (None, ReadyCounts::default());
        };
        let mut expired = Vec::new();
        let mut index = sessions.index();
        let accepted = index.accept_next(owner, deadline, now, &mut expired);
        sessions.note_deadline(&index);
        drop(index);
        let ended = ReadyCounts {
            dead_letters: self.dispose_expired(expired, rules, wait),
            ..ReadyCounts::default()
        };
        (accepted, ended)
    }

    /// Takes ready messages of a session that the caller holds, in order.
    pub fn receive_from_session(
        &self,
        accepted: &Arc<AcceptedSession>,
        take: SessionReceive,
        rules: Rules,
        out: &mut Vec<ClaimedMessage>,
        wait: &Wait<'_>,
    ) -> Result<ReadyCounts, SessionLost> {
        let sessions = self.sessions.as_ref().ok_or(SessionLost)?;
        let Moment { now, ticks } = take.moment;
        let mut expired = Vec::new();
        let mut index = sessions.index();
        while out.len() < take.max {
            let whole = rules.sessions_expire_whole;
            let Some(mut message) = index.pop(accepted, now, ticks, whole, &mut expired)? else {
                break;
            };
            // Gone when somebody purged it.
            let Some(key) = self.main.hand_out(message.key, take.hold) else {
                continue;
            };
            message.key = key;
            message.deadline = Ticks::OPEN_END;
            // What is on its way out for good is the session's no more.
            if matches!(take.hold, ClaimMode::Lock { deadline } if deadline < Ticks::NEVER) {
                index.lock(accepted, &message, ticks)?;
            }
            out.push(message);
        }
        drop(index);
        Ok(ReadyCounts {
            dead_letters: self.dispose_expired(expired, rules, wait),
            ..ReadyCounts::default()
        })
    }

    /// Takes a session from its holder. Its messages go back. What is closed after its lock has lapsed has lapsed.
    pub fn end_session(
        &self,
        accepted: &Arc<AcceptedSession>,
        end: SessionEnd,
        moment: Moment,
        rules: Rules,
        wait: &Wait<'_>,
    ) -> ReadyCounts {
        let Some(sessions) = &self.sessions else {
            return ReadyCounts::default();
        };
        let _intake = sessions.intake();
        let mut index = sessions.index();
        let has_expired = end == SessionEnd::Expired || accepted.deadline() <= moment.ticks;
        let end = if has_expired { SessionEnd::Expired } else { end };
        let keys = index.end(accepted, end);
        sessions.note_deadline(&index);
        drop(index);
        accepted.wait_queue().notify_all();
        if has_expired && keys.is_some() {
            event!(
                SESSION_LOST,
                entity = &*self.name,
                partition = self.shard.id().0,
                reason = "lock_expired"
            );
        }
        keys.map_or_else(ReadyCounts::default, |keys| {
            self.return_messages(sessions, accepted, (end, keys), moment, rules, wait)
        })
    }

    /// Notes the end of a unit of work in a session. What its holder had goes back if he left meanwhile.
    pub fn unpin(&self, accepted: &Arc<AcceptedSession>, moment: Moment, rules: Rules, wait: &Wait<'_>) -> ReadyCounts {
        let Some(sessions) = &self.sessions else {
            return ReadyCounts::default();
        };
        let _intake = sessions.intake();
        let left = sessions.index().unpin(accepted);
        left.map_or_else(ReadyCounts::default, |(end, keys)| {
            self.return_messages(sessions, accepted, (end, keys), moment, rules, wait)
        })
    }

    /// Gives back what the holder of a session had, for who has `intake`.
    fn return_messages(
        &self,
        sessions: &Sessions,
        accepted: &AcceptedSession,
        (end, keys): (SessionEnd, Vec<LockKey>),
        moment: Moment,
        rules: Rules,
        wait: &Wait<'_>,
    ) -> ReadyCounts {
        let mut ended = ReadyCounts::default();
        for key in keys {
            let outcome = match end {
                SessionEnd::Expired => Outcome::Abandon {
                    max_delivery_count: rules.max_delivery_count,
                    replacement: None,
                },
                SessionEnd::Closed => Outcome::Release,
            };
            // Not waited for: if it is lost, the delivery counts as one that ended with the process.
            if let Ok(one) = self.settle_unawaited(SubQueue::Main, key, outcome, moment, wait) {
                ended.dead_letters += one.dead_letters;
            }
        }
        let filled = self.fill_sessions_locked(sessions, moment.now, rules, wait);
        ended.dead_letters += filled.dead_letters;
        ended.sessions = filled.sessions + usize::from(sessions.index().finish_end(accepted));
        ended
    }

    /// Ends the sessions whose locks are over.
    pub(super) fn expire_sessions(&self, moment: Moment, rules: Rules, wait: &Wait<'_>) -> ReadyCounts {
        let mut ended = ReadyCounts::default();
        let Some(sessions) = &self.sessions else { return ended };
        if sessions.next_deadline() > moment.ticks {
            return ended;
        }
        let expired = sessions.index().expired(moment.ticks);
        for accepted in expired {
            let one = self.end_session(&accepted, SessionEnd::Expired, moment, rules, wait);
            ended.dead_letters += one.dead_letters;
            ended.sessions += one.sessions;
        }
        ended
    }
}
