// SPDX-License-Identifier: Apache-2.0
//! Selects the thread that moves the messages of an entity, and limits its work.
//!
//! One thread at a time holds the mutex `blocked` of an entity and moves its messages, so that they arrive in order.
//! Another call that finds it locked sets a request bit and returns; the holder serves the request. After [`BUDGET`]
//! messages the holder yields: the next call waits for the mutex and continues the work. Thus no call moves the
//! messages of all others, and no request is lost.
//!
//! A destination that itself forwards is served in the call that moved the message there. Such a nested call never
//! waits for a mutex, because its thread already holds one and entities may forward to each other.

use oxbus_store::Wait;
use std::cell::Cell as Flag;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, MutexGuard, RwLock, Weak};

use oxbus_log::event;
use oxbus_model::name::SubQueue;
use oxbus_model::sync::{ignore_poison, try_ignore_poison};
use oxbus_model::{Moment, Ticks};
use oxbus_store::{ClaimMode, ClaimedMessage, LockKey, Outcome};

use super::blocked::{BlockedMessage, BlockedMessages, Obstacle};
use super::outcome::ForwardOutcome;
use super::transfer::{ForwardSource, MovingMessage};
use super::{Entity, SUB_QUEUES};
use crate::shard::journal::EntityId;
use crate::shard::{Cell, ReadyCounts};

/// Messages claimed together.
const BATCH: usize = 128;
/// Messages after which the holder of the mutex yields.
const BUDGET: usize = 1024;

thread_local! {
    /// True if this thread forwards the messages of an entity.
    static IS_FORWARDING: Flag<bool> = const { Flag::new(false) };
}

/// Forwarding state of an entity.
#[derive(Default)]
pub(in crate::entity) struct Forwarding {
    /// Cells to be served, one bit each: of the main queue and of the dead-letter queue.
    requested: [AtomicU64; 2],
    /// Cells with blocked messages, one bit each: of the main queue and of the dead-letter queue.
    blocked_cells: [AtomicU64; 2],
    /// Locked by the thread that forwards. This is usable after a panic: a message missing here stays claimed in its
    /// cell until the next open.
    blocked: Mutex<BlockedMessages>,
    /// True if the thread that forwards has used its budget.
    budget_spent: AtomicBool,
    /// Threads that wait for the mutex.
    waiters: AtomicUsize,
    /// Entities that forward here.
    pub(super) sources: RwLock<BTreeMap<EntityId, Weak<Entity>>>,
    /// True if a call further up the stack already ticks the sources.
    pub(in crate::entity) is_ticking: AtomicBool,
}

/// Marks this thread as forwarding until it is dropped.
struct NestingGuard {
    was_forwarding: bool,
}

impl NestingGuard {
    fn begin() -> Self {
        Self {
            was_forwarding: IS_FORWARDING.replace(true),
        }
    }
}

impl Drop for NestingGuard {
    fn drop(&mut self) {
        IS_FORWARDING.set(self.was_forwarding);
    }
}

fn position(sub_queue: SubQueue) -> usize {
    usize::from(sub_queue == SubQueue::DeadLetter)
}

impl Forwarding {
    fn request(&self, sub_queue: SubQueue, index: usize) {
        self.requested[position(sub_queue)].fetch_or(1 << index, Ordering::SeqCst);
    }

    fn has_requests(&self) -> bool {
        self.requested
            .iter()
            .any(|requested| requested.load(Ordering::SeqCst) != 0)
    }

    /// Takes one requested cell.
    fn next_request(&self) -> Option<(SubQueue, usize)> {
        for (requested, sub_queue) in self.requested.iter().zip(SUB_QUEUES) {
            let cells = requested.load(Ordering::SeqCst);
            if cells != 0 {
                let index = cells.trailing_zeros();
                requested.fetch_and(!(1 << index), Ordering::SeqCst);
                return Some((sub_queue, index as usize));
            }
        }
        None
    }

    /// Locks the mutex. Returns `None` if its holder will serve the request.
    fn acquire(&self) -> Option<MutexGuard<'_, BlockedMessages>> {
        // This side sets the request bit, then tries to lock. The holder unlocks, then reads the request bits. With a
        // fence on both sides, one of them sees the other.
        fence(Ordering::SeqCst);
        let guard = match try_ignore_poison(self.blocked.try_lock()) {
            Some(guard) => guard,
            None if IS_FORWARDING.get() || !self.budget_spent.load(Ordering::SeqCst) => return None,
            None => self.wait_for_lock(),
        };
        self.budget_spent.store(false, Ordering::SeqCst);
        Some(guard)
    }

    fn wait_for_lock(&self) -> MutexGuard<'_, BlockedMessages> {
        self.waiters.fetch_add(1, Ordering::SeqCst);
        let guard = ignore_poison(self.blocked.lock());
        self.waiters.fetch_sub(1, Ordering::SeqCst);
        guard
    }

    fn update_blocked(&self, blocked: &BlockedMessages, from: (SubQueue, usize)) {
        let blocked_cells = &self.blocked_cells[position(from.0)];
        if blocked.contains(from) {
            blocked_cells.fetch_or(1 << from.1, Ordering::SeqCst);
        } else if blocked_cells.load(Ordering::SeqCst) & 1 << from.1 != 0 {
            blocked_cells.fetch_and(!(1 << from.1), Ordering::SeqCst);
        }
    }
}

impl Entity {
    /// Forwards ready messages of a cell.
    pub(in crate::entity) fn forward(&self, sub_queue: SubQueue, index: usize, wait: &Wait<'_>) {
        self.forwarding.request(sub_queue, index);
        self.serve_requests(BUDGET, wait);
    }

    /// Forwards ready messages of all cells, and tries blocked messages again.
    pub(crate) fn forward_ready(&self, wait: &Wait<'_>) {
        self.forward_all(BUDGET, wait);
    }

    /// Releases all blocked messages and forwards all ready ones, after the settings, the destination or a partition
    /// changed. If the entity no longer forwards, the messages can be received again.
    pub(crate) fn restart_forwarding(&self, wait: &Wait<'_>) {
        let ticks = self.core().clock().ticks();
        // The wait for the mutex ensures that no message is forwarded by the old settings after the change.
        let nesting = NestingGuard::begin();
        let mut blocked = self.forwarding.wait_for_lock();
        for sub_queue in SUB_QUEUES.into_iter().filter(|it| self.is_forwarding(*it)) {
            self.recall_all(sub_queue, wait);
        }
        if self.is_forwarding(SubQueue::Main) {
            for (index, _) in self.cells() {
                self.empty_sessions(index);
            }
        }
        for (index, cell) in self.cells() {
            for sub_queue in SUB_QUEUES {
                let from = (sub_queue, index);
                for (obstacle, _) in blocked.obstacles(from) {
                    blocked.release(from, obstacle, cell, ticks);
                }
                self.forwarding.update_blocked(&blocked, from);
            }
        }
        drop(blocked);
        drop(nesting);
        let forwarding = SUB_QUEUES.into_iter().filter(|it| self.is_forwarding(*it));
        let counted = forwarding.flat_map(|it| {
            self.cells()
                .map(move |(_, cell)| cell.store(it).counts().ready as usize)
        });
        self.forward_all(counted.sum::<usize>().max(BUDGET), wait);
    }

    fn forward_all(&self, budget: usize, wait: &Wait<'_>) {
        for sub_queue in SUB_QUEUES {
            if !self.is_forwarding(sub_queue) {
                continue;
            }
            // Nested calls skip blocked messages: entities that forward to each other would retry them endlessly.
            let blocked_cells = if IS_FORWARDING.get() {
                0
            } else {
                self.forwarding.blocked_cells[position(sub_queue)].load(Ordering::SeqCst)
            };
            for (index, cell) in self.cells() {
                let has_blocked = blocked_cells & 1 << index != 0;
                if self.shard(index).health().serves() && (has_blocked || cell.store(sub_queue).has_ready()) {
                    self.forwarding.request(sub_queue, index);
                }
            }
        }
        if self.forwarding.has_requests() {
            self.serve_requests(budget, wait);
        }
    }

    fn serve_requests(&self, budget: usize, wait: &Wait<'_>) {
        loop {
            let Some(mut blocked) = self.forwarding.acquire() else {
                return;
            };
            let nesting = NestingGuard::begin();
            self.forward_requested(&mut blocked, budget, wait);
            drop(nesting);
            drop(blocked);
            fence(Ordering::SeqCst);
            // A waiting thread continues; otherwise this one serves requests of calls that did not wait.
            if !self.forwarding.has_requests() || self.forwarding.waiters.load(Ordering::SeqCst) > 0 {
                return;
            }
        }
    }

    /// Serves all requests. Once the budget is used, it stops as soon as another thread waits.
    fn forward_requested(&self, blocked: &mut BlockedMessages, budget: usize, wait: &Wait<'_>) {
        let mut moved = 0;
        while let Some(from) = self.forwarding.next_request() {
            let (sub_queue, index) = from;
            let Some(cell) = self.cell(index) else { continue };
            self.retry(blocked, from, cell, wait);
            loop {
                let batch = self.forward_batch(blocked, from, cell, wait);
                self.forwarding.update_blocked(blocked, from);
                if batch == 0 {
                    break;
                }
                moved += batch;
                if moved >= budget {
                    self.forwarding.budget_spent.store(true, Ordering::SeqCst);
                    if self.forwarding.waiters.load(Ordering::SeqCst) > 0 {
                        self.forwarding.request(sub_queue, index);
                        return;
                    }
                }
            }
        }
    }

    /// Releases blocked messages whose obstacle may be gone.
    fn retry(&self, blocked: &mut BlockedMessages, from: (SubQueue, usize), cell: &Cell, wait: &Wait<'_>) {
        if !blocked.contains(from) {
            return;
        }
        let (sub_queue, index) = from;
        let destination = self.destination(sub_queue);
        let ticks = self.core().clock().ticks();
        for (obstacle, first) in blocked.obstacles(from) {
            let may_be_gone = match (obstacle, &destination) {
                (Obstacle::Cell(to), Some(destination)) => {
                    to >= usize::from(destination.partitions()) || destination.shard(to).health().fault().is_none()
                }
                (Obstacle::Cell(_), None) => true,
                (Obstacle::AllCells | Obstacle::Rejected(_), _) => {
                    let mut peeked = Vec::new();
                    cell.store(sub_queue).peek(first.key.counter, 1, &mut peeked);
                    peeked.first().is_none_or(|message| {
                        let source = ForwardSource { sub_queue, index, cell };
                        let outcome = self.forward_outcome(
                            source,
                            first.key.counter,
                            &message.record,
                            destination.as_ref(),
                            |_| Some(0),
                            wait,
                        );
                        !matches!(outcome, ForwardOutcome::Block(same) if same == obstacle)
                    })
                }
            };
            if may_be_gone {
                blocked.release(from, obstacle, cell, ticks);
            }
        }
    }

    /// The entity to which a sub-queue is forwarded, if it exists.
    fn destination(&self, sub_queue: SubQueue) -> Option<std::sync::Arc<Self>> {
        let found = self.core().entity(&self.forwards_to(sub_queue)?);
        found.filter(|entity| entity.check_alive().is_ok())
    }

    /// Forwards, blocks or dead-letters up to [`BATCH`] messages. Returns their number.
    fn forward_batch(
        &self,
        blocked: &mut BlockedMessages,
        from: (SubQueue, usize),
        cell: &Cell,
        wait: &Wait<'_>,
    ) -> usize {
        let (sub_queue, index) = from;
        // An entity that may not be received from keeps its messages. A setting may have changed since the request.
        if !self.is_forwarding(sub_queue) || self.check_receives().is_err() || !self.shard(index).health().serves() {
            return 0;
        }
        let destination = self.destination(sub_queue);
        let moment = Moment {
            now: self.now(),
            ..self.core().clock().moment()
        };
        let mut claims = Vec::new();
        let (_, dead_lettered) = cell.claim_or_expire(
            sub_queue,
            BATCH,
            ClaimMode::Cache,
            (moment.now, self.settings().dead_lettering_on_message_expiration),
            &mut claims,
            wait,
        );
        let mut ended = ReadyCounts {
            dead_letters: dead_lettered,
            ..ReadyCounts::default()
        };
        let source = ForwardSource { sub_queue, index, cell };
        let count = claims.len();
        let mut batches: Vec<(usize, Vec<MovingMessage>)> = Vec::new();
        for ClaimedMessage { key, record, .. } in claims {
            let pending_bytes = |to: usize| {
                let batch = batches.iter().find(|(cell, _)| *cell == to);
                let bytes = batch.map_or(0, |(_, batch)| batch.iter().map(|message| message.record.len()).sum());
                (!blocked.waits_for(from, to)).then_some(bytes)
            };
            match self.forward_outcome(source, key.counter, &record, destination.as_ref(), pending_bytes, wait) {
                ForwardOutcome::Move(to, record) => {
                    let message = MovingMessage { key, record };
                    match batches.iter_mut().find(|(cell, _)| *cell == to) {
                        Some((_, batch)) => batch.push(message),
                        None => batches.push((to, vec![message])),
                    }
                }
                ForwardOutcome::Block(obstacle) => {
                    self.log_blocked(from, obstacle);
                    let is_locked = false;
                    blocked.insert(from, obstacle, BlockedMessage { key, is_locked });
                }
                ForwardOutcome::DeadLetter(reason, description) => {
                    let locked = lock(cell, sub_queue, key);
                    let is_done =
                        locked.is_some_and(|key| source.dead_letter(key, &record, reason, &description, moment, wait));
                    if is_done {
                        event!(
                            MESSAGE_DEAD_LETTERED,
                            entity = self.name().as_str(),
                            partition = self.shard(index).id().0,
                            reason,
                            count = 1
                        );
                    }
                    ended.dead_letters += usize::from(is_done);
                }
            }
        }
        for (to, mut batch) in batches {
            batch.retain_mut(|message| {
                let locked = lock(cell, sub_queue, message.key);
                message.key = locked.unwrap_or(message.key);
                locked.is_some()
            });
            let done = destination
                .as_ref()
                .is_some_and(|it| self.move_batch(source, (it, to), &batch, moment, wait));
            if !done {
                self.log_blocked(from, Obstacle::Cell(to));
                // The failed write may still take effect, so these messages must not go to another cell.
                for message in batch {
                    let (key, is_locked) = (message.key, true);
                    blocked.insert(from, Obstacle::Cell(to), BlockedMessage { key, is_locked });
                }
            }
        }
        self.announce(index, ended, wait);
        count
    }

    /// Logs that messages are blocked.
    #[cold]
    fn log_blocked(&self, (sub_queue, index): (SubQueue, usize), obstacle: Obstacle) {
        event!(
            FORWARD_BLOCKED,
            entity = self.name().as_str(),
            partition = self.shard(index).id().0,
            destination = self.forwards_to(sub_queue).as_deref().unwrap_or_default(),
            reason = obstacle.name()
        );
    }

    /// Numbers of cached and of locked blocked messages of a cell.
    pub(in crate::entity) fn count_blocked(&self, sub_queue: SubQueue, index: usize) -> (u64, u64) {
        if !self.is_forwarding(sub_queue) {
            return (0, 0);
        }
        let blocked = ignore_poison(self.forwarding.blocked.lock());
        blocked.count((sub_queue, index))
    }
}

/// Turns a cached message into a locked one, which can be settled.
fn lock(cell: &Cell, sub_queue: SubQueue, key: LockKey) -> Option<LockKey> {
    let deadline = Ticks::NEVER;
    cell.store(sub_queue).deliver_cached(key, ClaimMode::Lock { deadline })
}

/// Releases a locked message.
pub(super) fn unlock(cell: &Cell, sub_queue: SubQueue, key: LockKey, ticks: Ticks) {
    let _ = cell.store(sub_queue).settle(key, Outcome::Release, ticks);
}
