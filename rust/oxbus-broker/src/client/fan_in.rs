// SPDX-License-Identifier: Apache-2.0
//! Claims messages from the cache, then from all ready cells in rotation, then from the caches of other receivers.
//!
//! A round starts at the ready cell after the one where the last round started, so a hot partition does not starve the
//! others. A second round claims what is still missing (docs/architecture.md, "Fan-in receive").
//!
//! A call for one message claims a few messages of each ready cell: the first goes to the caller, the others to the
//! cache (B-125). A call for several messages, or a prefetch, claims up to `CLAIM_MAX` messages of a cell, or its
//! share of the requested ones, before it visits the next cell: the fewer cells a list comes from, the fewer journals
//! its settlement must sync. The faithful policy claims one message of each cell each time.

use oxbus_model::caps::PARTITIONS_MAX;
use oxbus_model::options::{LockPolicy, ReceiveMode};
use oxbus_model::{Counter, Moment, Result, Ticks};
use oxbus_store::Wait;
use oxbus_store::{ClaimMode, ClaimedMessage};

use super::delivery_journal::DeliveryFailure;
use super::receiver::{Deliveries, Delivery, Receiver};
use crate::entity::receive_cache::{CachedMessage, return_cached};
use crate::shard::REMOVAL_LOCK;

/// Maximum number of messages claimed from one cell at once.
const CLAIM_MAX: usize = 128;
/// Messages claimed from each cell for a call for one message. Claiming several costs little more than claiming one.
const SINGLE_CLAIM_MAX: usize = 4;

/// Sorts deliveries if the numbers of a partition are not ascending: a message may have returned to its cell while
/// later ones were cached (B-145).
fn sort_by_number(out: &mut [Delivery]) {
    let mut last = [Counter(0); PARTITIONS_MAX as usize];
    let is_ascending = out
        .iter()
        .map(|it| (it.index, it.claimed.key.counter))
        .all(|(index, counter)| std::mem::replace(&mut last[index], counter) < counter);
    if !is_ascending {
        out.sort_unstable_by_key(|it| (it.index, it.claimed.key.counter));
    }
}

impl Receiver {
    pub(super) fn moment(&self) -> Moment {
        self.entity.core().clock().moment()
    }

    /// Receives up to `max` messages without waiting, in memory, where each can be delivered.
    #[inline]
    pub(super) fn take_in_memory(&self, max: usize, out: &mut Deliveries, wait: &Wait<'_>) {
        let moment = self.moment();
        self.sweep(moment, wait);
        self.take_except(0, max, moment, out, wait);
        if !out.is_empty() {
            self.notify_next();
        }
    }

    /// Receives up to `max` messages without waiting. Fails if messages are ready but none can be delivered.
    pub(super) async fn take_messages(&self, max: usize, out: &mut Deliveries, wait: &Wait<'_>) -> Result<()> {
        if !self.entity.core().is_durable() {
            self.take_in_memory(max, out, wait);
            return Ok(());
        }
        self.report_earlier_failure()?;
        let moment = self.moment();
        self.sweep(moment, wait);
        let mut failure: Option<DeliveryFailure> = None;
        loop {
            let skipped = failure.as_ref().map_or(0, |it| it.cells);
            self.take_except(skipped, max, moment, out, wait);
            if out.is_empty() {
                break;
            }
            let this = self.journal_deliveries(out, moment.ticks, wait).await;
            self.notify_next();
            let Some(this) = this else { break };
            failure = Some(match failure {
                Some(before) => before.merge(this),
                None => this,
            });
            if !out.is_empty() {
                break;
            }
        }
        self.report_failure(failure, !out.is_empty())
    }

    /// Claims up to `max` messages of the cells that are not skipped.
    fn take_except(&self, skipped: u64, max: usize, moment: Moment, out: &mut Deliveries, wait: &Wait<'_>) {
        self.take_cached(skipped, max, moment, out, wait);
        if out.len() < max {
            self.take_from_cells(skipped, max - out.len(), moment, out, wait);
        }
        if out.is_empty() && self.recall(max, moment, wait) {
            self.take_from_cells(skipped, max, moment, out, wait);
        }
        if out.len() > 1 {
            sort_by_number(out);
        }
    }

    /// Notifies the next waiter if more messages may be ready. A sender that closes a gap notifies for its own messages
    /// only, although later messages of other senders become visible with them.
    fn notify_next(&self) {
        let receivable = self.entity.receivable(self.sub_queue);
        if receivable.wait_queue.waiters() > 0 && receivable.ready() != 0 {
            receivable.wait_queue.notify(1);
        }
    }

    /// Ends locks, activates scheduled messages, and returns messages of idle caches, once per tick and sub-queue.
    pub(super) fn sweep(&self, moment: Moment, wait: &Wait<'_>) {
        let receivable = self.entity.receivable(self.sub_queue);
        if !receivable.needs_sweep(moment.ticks) {
            return;
        }
        self.entity.tick(moment, wait);
        for cache in receivable.caches() {
            let idle_since = cache.lock().used_at;
            if moment.ticks >= idle_since.plus_ms(self.entity.settings().lock_duration_ms) {
                return_cached(&self.entity, self.sub_queue, cache.recall(usize::MAX), wait);
            }
        }
        receivable.note_sweep(moment.ticks);
    }

    /// How a message for the caller is claimed.
    fn mode_for_caller(&self, ticks: Ticks) -> ClaimMode {
        match self.mode {
            ReceiveMode::PeekLock => ClaimMode::Lock {
                deadline: ticks.plus_ms(self.lock_ms()),
            },
            ReceiveMode::ReceiveAndDelete => self.removal_mode(),
        }
    }

    /// How a message in receive-and-delete mode is claimed: if there is a journal, it is locked until its removal is
    /// journaled.
    pub(super) fn removal_mode(&self) -> ClaimMode {
        if self.entity.core().is_durable() {
            REMOVAL_LOCK
        } else {
            ClaimMode::Take
        }
    }

    /// How a message for the cache is claimed. Under the faithful policy it is locked or removed at once.
    fn mode_for_cache(&self, ticks: Ticks) -> ClaimMode {
        match (self.policy, self.mode) {
            (LockPolicy::Faithful, ReceiveMode::PeekLock) => self.mode_for_caller(ticks),
            (LockPolicy::Faithful, ReceiveMode::ReceiveAndDelete) => ClaimMode::Take,
            (LockPolicy::Fresh, _) => ClaimMode::Cache,
        }
    }

    fn deliver(index: usize, claimed: ClaimedMessage, moment: Moment, out: &mut Deliveries) {
        let locked_until = Self::locked_until(claimed.deadline, moment.now, moment.ticks);
        out.push(Delivery {
            index,
            claimed,
            locked_until,
        });
    }

    fn take_cached(&self, skipped: u64, max: usize, moment: Moment, out: &mut Deliveries, wait: &Wait<'_>) {
        let mut content = self.cache.lock();
        if content.messages.is_empty() {
            return;
        }
        content.used_at = moment.ticks;
        let mut unavailable = Vec::new();
        while out.len() < max
            && let Some(CachedMessage { index, mut claimed }) = content.messages.pop_front()
        {
            if skipped >> index & 1 == 1 || !self.entity.shard(index).health().serves() {
                // The caller could not settle it, so it stays cached until its partition is healed or it is recalled
                // (B-093).
                unavailable.push(CachedMessage { index, claimed });
                continue;
            }
            if self.policy == LockPolicy::Faithful {
                // It has been locked since it was cached. If the lock expired, another receiver may have the message
                // (B-142).
                if claimed.deadline > moment.ticks {
                    Self::deliver(index, claimed, moment, out);
                }
                continue;
            }
            let Some(cell) = self.entity.cell(index) else { continue };
            let store = cell.store(self.sub_queue);
            if claimed.expires_at <= moment.now && self.sub_queue == oxbus_model::name::SubQueue::Main {
                // It expired while cached, so it returns to its cell, where the next claim removes or dead-letters it
                // (B-138).
                store.release_cached(&[claimed.key]);
                self.entity.notify(self.sub_queue, index, 1, wait);
                continue;
            }
            let claim_mode = self.mode_for_caller(moment.ticks);
            if let Some(key) = store.deliver_cached(claimed.key, claim_mode) {
                claimed.key = key;
                if let ClaimMode::Lock { deadline } = claim_mode {
                    claimed.deadline = deadline;
                }
                Self::deliver(index, claimed, moment, out);
            }
        }
        for cached in unavailable.into_iter().rev() {
            content.messages.push_front(cached);
        }
    }

    fn take_from_cells(&self, skipped: u64, requested: usize, moment: Moment, out: &mut Deliveries, wait: &Wait<'_>) {
        let ready = self.ready_cells() & !skipped;
        if ready == 0 {
            return;
        }
        let cells = ready.count_ones() as usize;
        // Nothing is cached while another receiver waits.
        let has_waiters = self.entity.receivable(self.sub_queue).wait_queue.waiters() > 0;
        let (total, claim_max) = match (requested + self.prefetch, self.policy) {
            (_, LockPolicy::Faithful) if has_waiters => (requested, 1),
            (_, LockPolicy::Fresh) if has_waiters => (requested, CLAIM_MAX),
            // A queue without partitions keeps its order among competing receivers, so nothing is cached.
            (1, LockPolicy::Fresh) if self.entity.is_partitioned() => (SINGLE_CLAIM_MAX * cells, SINGLE_CLAIM_MAX),
            (total, LockPolicy::Faithful) => (total.max(cells), 1),
            (total, LockPolicy::Fresh) => (total, CLAIM_MAX),
        };
        let share = total.div_ceil(cells).max(claim_max.min(total));
        let mut for_caller = requested;
        let mut for_cache = total - requested;
        let mut cached = Vec::new();
        let first = self.next_first(ready);
        let mut left = ready;
        // The second round claims messages that cells of the first round did not have.
        for round_share in [share, total] {
            left = self.round(
                left,
                first,
                round_share,
                &mut for_caller,
                &mut for_cache,
                moment,
                out,
                &mut cached,
                wait,
            );
            if left == 0 || for_caller + for_cache == 0 {
                break;
            }
        }
        if !cached.is_empty() {
            self.cache_messages(cached, moment, wait);
        }
    }

    /// Claims messages of each of `cells` once. Returns the cells that may have more.
    #[expect(clippy::too_many_arguments, reason = "the state of one fan-in, used here only")]
    fn round(
        &self,
        cells: u64,
        first: u64,
        share: usize,
        for_caller: &mut usize,
        for_cache: &mut usize,
        moment: Moment,
        out: &mut Deliveries,
        cached: &mut Vec<CachedMessage>,
        wait: &Wait<'_>,
    ) -> u64 {
        let below_first = (1u64 << first) - 1;
        let mut more = 0;
        let mut claims = Vec::new();
        for mut part in [cells & !below_first, cells & below_first] {
            while part != 0 && *for_caller + *for_cache > 0 {
                let index = part.trailing_zeros() as usize;
                part &= part - 1;
                let direct = share.min(*for_caller);
                let mut is_empty = false;
                if direct > 1 {
                    claims.reserve(direct.min(CLAIM_MAX));
                    out.reserve(direct.min(CLAIM_MAX));
                }
                if direct > 0 {
                    is_empty = self.claim(
                        index,
                        direct,
                        self.mode_for_caller(moment.ticks),
                        moment,
                        &mut claims,
                        wait,
                    ) < direct;
                    *for_caller -= claims.len();
                    claims
                        .drain(..)
                        .for_each(|claimed| Self::deliver(index, claimed, moment, out));
                }
                let ahead = (share - direct).min(*for_cache);
                if ahead > 0 && !is_empty && direct > 0 {
                    // The message is often the only one, and a look is cheaper than a claim.
                    is_empty = self.note_if_empty(index);
                }
                if ahead > 0 && !is_empty {
                    is_empty = self.claim(
                        index,
                        ahead,
                        self.mode_for_cache(moment.ticks),
                        moment,
                        &mut claims,
                        wait,
                    ) < ahead;
                    *for_cache -= claims.len();
                    cached.extend(claims.drain(..).map(|claimed| CachedMessage { index, claimed }));
                }
                if !is_empty {
                    more |= 1 << index;
                }
            }
        }
        more
    }

    fn claim(
        &self,
        index: usize,
        max: usize,
        claim_mode: ClaimMode,
        moment: Moment,
        claims: &mut Vec<ClaimedMessage>,
        wait: &Wait<'_>,
    ) -> usize {
        let Some(cell) = self.entity.cell(index) else { return 0 };
        let (taken, dead_lettered) = cell.claim_or_expire(
            self.sub_queue,
            max,
            claim_mode,
            (moment.now, self.entity.settings().dead_lettering_on_message_expiration),
            claims,
            wait,
        );
        if dead_lettered > 0 {
            self.entity
                .receivable(oxbus_model::name::SubQueue::DeadLetter)
                .notify(index, dead_lettered);
        }
        if taken < max {
            self.entity
                .receivable(self.sub_queue)
                .note_empty(index, || cell.store(self.sub_queue).has_ready());
        }
        taken
    }

    /// Returns true if the cell has no ready messages, and then clears its ready bit.
    fn note_if_empty(&self, index: usize) -> bool {
        let Some(cell) = self.entity.cell(index) else {
            return true;
        };
        let store = cell.store(self.sub_queue);
        let is_empty = !store.has_ready();
        if is_empty {
            let receivable = self.entity.receivable(self.sub_queue);
            receivable.note_empty(index, || store.has_ready());
        }
        is_empty
    }

    fn cache_messages(&self, cached: Vec<CachedMessage>, moment: Moment, wait: &Wait<'_>) {
        let count = cached.len();
        let mut content = self.cache.lock();
        if content.closed {
            drop(content);
            return_cached(&self.entity, self.sub_queue, cached, wait);
            return;
        }
        content.used_at = moment.ticks;
        if self.mode_for_cache(moment.ticks) == ClaimMode::Take {
            self.journal_removed(&cached, wait);
        }
        content.messages.extend(cached);
        drop(content);
        // A receiver that began to wait in the meantime did not see these messages, so it must look again and recall
        // them.
        let receivable = self.entity.receivable(self.sub_queue);
        receivable.note_cached();
        if receivable.wait_queue.waiters() > 0 {
            receivable.wait_queue.notify(count);
        }
    }

    /// Returns cached messages of other receivers to their cells: half of a cache, but at least `requested` messages
    /// that have not expired. Returns true if a message was returned.
    fn recall(&self, requested: usize, moment: Moment, wait: &Wait<'_>) -> bool {
        let expires = self.sub_queue == oxbus_model::name::SubQueue::Main;
        let is_alive = |cached: &&CachedMessage| !expires || cached.claimed.expires_at > moment.now;
        let mut any = false;
        let mut returned = 0;
        for cache in self.entity.receivable(self.sub_queue).filled_caches() {
            if std::sync::Arc::ptr_eq(&cache, &self.cache) {
                continue;
            }
            let half = cache.lock().messages.len().div_ceil(2);
            let mut quota = half.max(requested);
            while quota > 0 {
                let recalled = cache.recall(quota);
                if recalled.is_empty() {
                    break;
                }
                let alive = recalled.iter().filter(is_alive).count();
                let count = return_cached(&self.entity, self.sub_queue, recalled, wait);
                any |= count > 0;
                returned += alive.min(count);
                quota = requested.saturating_sub(returned);
            }
            if returned >= requested {
                break;
            }
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use oxbus_model::message::{Body, Fields};
    use oxbus_store::Wait;

    use crate::{Namespace, NamespaceOptions, Receiver, ReceiverOptions};

    fn count_ready(receiver: &Receiver) -> usize {
        let receive = || receiver.receive_now(1, &Wait::FOREVER).expect("no fault");
        std::iter::from_fn(receive).map(|found| found.len()).sum()
    }

    #[test]
    fn cached_messages_are_found_again_after_a_look_that_found_none() {
        let namespace = Namespace::open(NamespaceOptions::default()).expect("a namespace in memory");
        let settings = oxbus_model::options::QueueSettings {
            enable_partitioning: true,
            ..Default::default()
        };
        let created = namespace.create_queue("q", settings, &Wait::FOREVER);
        created.expect("a partitioned queue");
        let [caching, recalling] = [(); 2].map(|()| {
            let receiver = namespace.receiver("q", ReceiverOptions::default());
            receiver.expect("a receiver")
        });
        let sender = namespace.sender("q").expect("a sender");
        let fields = Fields {
            body: Body::Data(b"x"),
            ..Fields::default()
        };
        for _ in 0..3 {
            for _ in 0..64 {
                sender.send(&fields, None, &Wait::FOREVER).expect("sent");
            }
            let first = caching.receive_now(1, &Wait::FOREVER).expect("no fault");
            assert_eq!(first.map(|found| found.len()), Some(1));
            assert!(
                !caching.cache.lock().messages.is_empty(),
                "it cached some of the others"
            );
            assert_eq!(count_ready(&recalling), 63);
            assert!(caching.cache.lock().messages.is_empty());
        }
    }
}
