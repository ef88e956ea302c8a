// SPDX-License-Identifier: Apache-2.0
//! Moving messages into sessions, receiving from sessions, and ends of sessions.

use std::sync::Arc;

use oxbus_log::event;
use oxbus_model::message::Fields;
use oxbus_model::name::SubQueue;
use oxbus_model::{Moment, Ticks, Timestamp};
use oxbus_store::{ClaimMode, ClaimedMessage, LockKey, MessageStore, Outcome, RemovedMessage, Wait};

use super::DeadLetterReason;
use crate::shard::sessions::SessionWakeUps;
use crate::shard::{
    AcceptedSession, Cell, DeliveryPolicy, ReadyCounts, SessionEnd, SessionLost, SessionReceive, SessionSearch,
    Sessions,
};

/// Maximum number of messages moved into sessions at once.
const FILL_BATCH: usize = 64;

impl Cell {
    /// Its sessions, if its entity requires them.
    #[inline]
    pub fn sessions(&self) -> Option<&Sessions> {
        self.sessions.as_ref()
    }

    /// Moves ready messages into their sessions and notifies the holders.
    pub fn fill_sessions(&self, now: Timestamp, policy: DeliveryPolicy, wait: &Wait<'_>) -> ReadyCounts {
        let Some(sessions) = &self.sessions else {
            return ReadyCounts::default();
        };
        let _intake = sessions.intake();
        self.fill_sessions_locked(sessions, now, policy, wait)
    }

    /// Returns the ready messages of all sessions to the store, when the entity no longer delivers them by session.
    pub fn empty_sessions(&self) {
        let Some(sessions) = &self.sessions else { return };
        let _intake = sessions.intake();
        let keys = sessions.index().take_ready();
        self.main.release_cached(&keys);
    }

    /// `fill_sessions` for a caller that has locked `intake`.
    pub(super) fn fill_sessions_locked(
        &self,
        sessions: &Sessions,
        now: Timestamp,
        policy: DeliveryPolicy,
        wait: &Wait<'_>,
    ) -> ReadyCounts {
        let mut ended = ReadyCounts::default();
        let mut claims = Vec::new();
        loop {
            let (taken, dead_lettered) = self.claim_or_expire(
                SubQueue::Main,
                FILL_BATCH,
                ClaimMode::Cache,
                (now, policy.dead_letter_expired),
                &mut claims,
                wait,
            );
            ended.dead_letters += dead_lettered;
            if taken == 0 {
                return ended;
            }
            // Loaded before the index is locked, because records may be on disk.
            let read = |claimed: &ClaimedMessage| self.load(&claimed.record);
            let Ok(records) = claims.iter().map(read).collect::<Result<Vec<_>, _>>() else {
                // The shard is out of service. The messages are moved once it is healed.
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
                // All waiters are notified: several threads may use one receiver, and the first to wake may not take
                // all messages.
                holder.wait_queue().notify_all();
            }
            let reason = DeadLetterReason::SessionIdNull;
            ended.dead_letters += self.dead_letter_removed(self.remove_claimed(without), reason, wait);
        }
    }

    /// Removes ready messages from their sessions after the caller claimed them.
    pub(crate) fn withdraw_from_sessions(&self, keys: impl Iterator<Item = LockKey>) {
        if let Some(sessions) = &self.sessions {
            sessions.index().withdraw(&keys.collect());
        }
    }

    /// Removes claimed messages from the store.
    fn remove_claimed(&self, messages: Vec<ClaimedMessage>) -> Vec<RemovedMessage> {
        let remove_claimed = |message: ClaimedMessage| {
            self.main.deliver_cached(message.key, ClaimMode::Take)?;
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

    /// Removes expired messages, or dead-letters them. Returns how many were dead-lettered.
    pub(crate) fn dispose_expired(
        &self,
        expired: Vec<ClaimedMessage>,
        policy: DeliveryPolicy,
        wait: &Wait<'_>,
    ) -> usize {
        if expired.is_empty() {
            return 0;
        }
        self.remove_expired(
            SubQueue::Main,
            self.remove_claimed(expired),
            policy.dead_letter_expired,
            wait,
        )
    }

    /// Locks the session that has waited longest, among those that the caller looks for.
    pub(crate) fn accept_next(
        &self,
        owner: &str,
        deadline: Ticks,
        now: Timestamp,
        policy: DeliveryPolicy,
        search: &mut SessionSearch,
        wait: &Wait<'_>,
    ) -> (Option<Arc<AcceptedSession>>, ReadyCounts) {
        let Some(sessions) = &self.sessions else {
            return (None, ReadyCounts::default());
        };
        let mut expired = Vec::new();
        let mut index = sessions.index();
        let accepted = index.accept_next(owner, deadline, now, search, &mut expired);
        sessions.note_deadline(&index);
        drop(index);
        let ended = ReadyCounts {
            dead_letters: self.dispose_expired(expired, policy, wait),
            ..ReadyCounts::default()
        };
        (accepted, ended)
    }

    /// Receives ready messages of a session that the caller holds, in order.
    pub fn receive_from_session(
        &self,
        accepted: &Arc<AcceptedSession>,
        take: SessionReceive,
        policy: DeliveryPolicy,
        out: &mut Vec<ClaimedMessage>,
        wait: &Wait<'_>,
    ) -> Result<ReadyCounts, SessionLost> {
        let sessions = self.sessions.as_ref().ok_or(SessionLost)?;
        let Moment { now, ticks } = take.moment;
        let mut expired = Vec::new();
        let mut index = sessions.index();
        while out.len() < take.max {
            let whole = policy.sessions_expire_whole;
            let Some(mut message) = index.pop(accepted, now, ticks, whole, &mut expired)? else {
                break;
            };
            // A purge may have removed it.
            let Some(key) = self.main.deliver_cached(message.key, take.mode) else {
                continue;
            };
            message.key = key;
            message.deadline = Ticks::OPEN_END;
            // A message that is received and deleted no longer belongs to the session.
            if matches!(take.mode, ClaimMode::Lock { deadline } if deadline < Ticks::NEVER) {
                index.lock(accepted, &message, ticks)?;
            }
            out.push(message);
        }
        drop(index);
        Ok(ReadyCounts {
            dead_letters: self.dispose_expired(expired, policy, wait),
            ..ReadyCounts::default()
        })
    }

    /// Ends a session for its holder and returns its messages. A close after the lock has expired counts as an expiry.
    pub fn end_session(
        &self,
        accepted: &Arc<AcceptedSession>,
        end: SessionEnd,
        moment: Moment,
        policy: DeliveryPolicy,
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
            self.return_messages(sessions, accepted, (end, keys), moment, policy, wait)
        })
    }

    /// Removes a pin from a session. If its holder has left, the last unpin returns the holder's messages.
    pub fn unpin(
        &self,
        accepted: &Arc<AcceptedSession>,
        moment: Moment,
        policy: DeliveryPolicy,
        wait: &Wait<'_>,
    ) -> ReadyCounts {
        let Some(sessions) = &self.sessions else {
            return ReadyCounts::default();
        };
        let _intake = sessions.intake();
        let left = sessions.index().unpin(accepted);
        left.map_or_else(ReadyCounts::default, |(end, keys)| {
            self.return_messages(sessions, accepted, (end, keys), moment, policy, wait)
        })
    }

    /// Returns the locked messages of a session, for a caller that has locked `intake`.
    fn return_messages(
        &self,
        sessions: &Sessions,
        accepted: &AcceptedSession,
        (end, keys): (SessionEnd, Vec<LockKey>),
        moment: Moment,
        policy: DeliveryPolicy,
        wait: &Wait<'_>,
    ) -> ReadyCounts {
        let mut ended = ReadyCounts::default();
        for key in keys {
            let outcome = match end {
                SessionEnd::Expired => Outcome::Abandon {
                    max_delivery_count: policy.max_delivery_count,
                    replacement: None,
                },
                SessionEnd::Closed => Outcome::Release,
            };
            // Not awaited: if the entry is lost, the delivery counts as one that ended with the process.
            if let Ok(one) = self.settle_unawaited(SubQueue::Main, key, outcome, moment, wait) {
                ended.dead_letters += one.dead_letters;
            }
        }
        let filled = self.fill_sessions_locked(sessions, moment.now, policy, wait);
        ended.dead_letters += filled.dead_letters;
        ended.sessions = filled.sessions + usize::from(sessions.index().finish_end(accepted));
        ended
    }

    /// Ends the sessions whose locks have expired.
    pub(super) fn expire_sessions(&self, moment: Moment, policy: DeliveryPolicy, wait: &Wait<'_>) -> ReadyCounts {
        let mut ended = ReadyCounts::default();
        let Some(sessions) = &self.sessions else { return ended };
        if sessions.next_deadline() > moment.ticks {
            return ended;
        }
        let expired = sessions.index().expired(moment.ticks);
        for accepted in expired {
            let one = self.end_session(&accepted, SessionEnd::Expired, moment, policy, wait);
            ended.dead_letters += one.dead_letters;
            ended.sessions += one.sessions;
        }
        ended
    }
}
