// SPDX-License-Identifier: Apache-2.0
//! Who moves the messages of an entity, and for how long.
//!
//! One thread at a time has the turn, so that messages arrive in order. Who finds it taken notes what is to be moved and goes
//! on: the one who has the turn looks at it. After [`BUDGET`] messages that one is tired: the next who comes waits for the
//! turn, a moment, and goes on with the work. So no call moves the messages of all others, and none is left behind.
//!
//! A destination that forwards in turn is served under the call that brought the message. Such a nested call never waits for
//! a turn, because it holds one: entities may forward to each other.

use oxbus_store::Wait;
use std::cell::Cell as Flag;
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
use crate::shard::{Cell, ReadyCounts};

/// Messages looked at together.
const RUN: usize = 128;
/// Messages after which somebody else may go on.
const BUDGET: usize = 1024;

thread_local! {
    /// This thread has the turn of some entity.
    static IS_FORWARDING: Flag<bool> = const { Flag::new(false) };
}

/// What an entity has to move, and whose turn it is.
#[derive(Default)]
pub(in crate::entity) struct Forwarding {
    /// The cells that were asked for, one bit each; of the entity and of its dead-letter queue.
    requested: [AtomicU64; 2],
    /// The cells of which messages were put aside, likewise.
    blocked_cells: [AtomicU64; 2],
    /// Locked by who has the turn. Whole after a panic: what a panic left out of it stays held where it is, and goes on after the next
    /// open.
    blocked: Mutex<BlockedMessages>,
    /// Who has the turn has done enough.
    budget_spent: AtomicBool,
    /// Threads that wait for the turn.
    waiters: AtomicUsize,
    /// Entities that move their messages here.
    pub(super) sources: RwLock<Vec<Weak<Entity>>>,
    /// Those were looked at already, further up the stack.
    pub(in crate::entity) is_ticking: AtomicBool,
}

/// Notes that this thread has a turn, until it is dropped.
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

    /// Takes one of the cells that were asked for.
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

    /// The turn; `None` when somebody has it who will look at what was asked for.
    fn acquire(&self) -> Option<MutexGuard<'_, BlockedMessages>> {
        // Asked before the turn is seen taken here; given back before what was asked is looked at there: one sees the other.
        fence(Ordering::SeqCst);
        let turn = match try_ignore_poison(self.blocked.try_lock()) {
            Some(turn) => turn,
            None if IS_FORWARDING.get() || !self.budget_spent.load(Ordering::SeqCst) => return None,
            None => self.wait_for_lock(),
        };
        self.budget_spent.store(false, Ordering::SeqCst);
        Some(turn)
    }

    fn wait_for_lock(&self) -> MutexGuard<'_, BlockedMessages> {
        self.waiters.fetch_add(1, Ordering::SeqCst);
        let turn = ignore_poison(self.blocked.lock());
        self.waiters.fetch_sub(1, Ordering::SeqCst);
        turn
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
    /// Moves what is ready in a cell to the destination.
    pub(in crate::entity) fn forward(&self, sub_queue: SubQueue, index: usize, wait: &Wait<'_>) {
        self.forwarding.request(sub_queue, index);
        self.serve_requests(BUDGET, wait);
    }

    /// Tries again to move what stayed.
    pub(crate) fn forward_ready(&self, wait: &Wait<'_>) {
        self.forward_all(BUDGET, wait);
    }

    /// The settings, the destination or a partition changed: moves everything that is there, or puts it back to be received.
    pub(crate) fn restart_forwarding(&self, wait: &Wait<'_>) {
        let ticks = self.core().clock().ticks();
        // Waited for: once the settings are changed, no message goes by the old ones.
        let turn = NestingGuard::begin();
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
        drop(turn);
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
            // A nested call finds nothing new about what was put aside, and its caller would look again and again.
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
            let turn = NestingGuard::begin();
            self.forward_requested(&mut blocked, budget, wait);
            drop(turn);
            drop(blocked);
            fence(Ordering::SeqCst);
            // Who waits goes on; what was asked for by those who did not is looked at here.
            if !self.forwarding.has_requests() || self.forwarding.waiters.load(Ordering::SeqCst) > 0 {
                return;
            }
        }
    }

    /// Moves all that is asked for, unless somebody waits to go on.
    fn forward_requested(&self, blocked: &mut BlockedMessages, budget: usize, wait: &Wait<'_>) {
        let mut moved = 0;
        while let Some(from) = self.forwarding.next_request() {
            let (sub_queue, index) = from;
            let Some(cell) = self.cell(index) else { continue };
            self.retry(blocked, from, cell, wait);
            loop {
                let run = self.forward_run(blocked, from, cell, wait);
                self.forwarding.update_blocked(blocked, from);
                if run == 0 {
                    break;
                }
                moved += run;
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

    /// Puts back what may be moved now.
    fn retry(&self, blocked: &mut BlockedMessages, from: (SubQueue, usize), cell: &Cell, wait: &Wait<'_>) {
        if !blocked.contains(from) {
            return;
        }
        let (sub_queue, index) = from;
        let destination = self.destination(sub_queue);
        let ticks = self.core().clock().ticks();
        for (obstacle, first) in blocked.obstacles(from) {
            let goes = match (obstacle, &destination) {
                (Obstacle::Cell(to), Some(destination)) => {
                    to >= usize::from(destination.partitions()) || destination.shard(to).health().fault().is_none()
                }
                (Obstacle::Cell(_), None) => true,
                (Obstacle::AllCells | Obstacle::Rejected(_), _) => {
                    let mut found = Vec::new();
                    cell.store(sub_queue).peek(first.key.counter, 1, &mut found);
                    found.first().is_none_or(|message| {
                        let source = ForwardSource { sub_queue, index, cell };
                        let forward_outcome = self.forward_outcome(
                            source,
                            first.key.counter,
                            &message.record,
                            destination.as_ref(),
                            |_| Some(0),
                            wait,
                        );
                        !matches!(forward_outcome, ForwardOutcome::Block(again) if again == obstacle)
                    })
                }
            };
            if goes {
                blocked.release(from, obstacle, cell, ticks);
            }
        }
    }

    /// The entity that its messages are moved to, if it is there.
    fn destination(&self, sub_queue: SubQueue) -> Option<std::sync::Arc<Self>> {
        let found = self.core().entity(&self.forwards_to(sub_queue)?);
        found.filter(|entity| entity.check_alive().is_ok())
    }

    /// Moves a run of messages, or puts them aside; how many there were.
    fn forward_run(
        &self,
        blocked: &mut BlockedMessages,
        from: (SubQueue, usize),
        cell: &Cell,
        wait: &Wait<'_>,
    ) -> usize {
        let (sub_queue, index) = from;
        // One that may not be received from keeps its messages. A setting may have changed on the way.
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
            RUN,
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
        let mut runs: Vec<(usize, Vec<MovingMessage>)> = Vec::new();
        for ClaimedMessage { key, record, .. } in claims {
            let on_the_way = |to: usize| {
                let run = runs.iter().find(|(its, _)| *its == to);
                let bytes = run.map_or(0, |(_, run)| run.iter().map(|moving| moving.record.len()).sum());
                (!blocked.waits_for(from, to)).then_some(bytes)
            };
            match self.forward_outcome(source, key.counter, &record, destination.as_ref(), on_the_way, wait) {
                ForwardOutcome::Move(to, record) => {
                    let moving = MovingMessage { key, record };
                    match runs.iter_mut().find(|(its, _)| *its == to) {
                        Some((_, run)) => run.push(moving),
                        None => runs.push((to, vec![moving])),
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
        for (to, mut run) in runs {
            run.retain_mut(|moving| {
                let locked = lock(cell, sub_queue, moving.key);
                moving.key = locked.unwrap_or(moving.key);
                locked.is_some()
            });
            let done = destination
                .as_ref()
                .is_some_and(|it| self.move_batch(source, (it, to), &run, moment, wait));
            if !done {
                self.log_blocked(from, Obstacle::Cell(to));
                // It may be on its way to that cell still: it goes there or nowhere.
                for moving in run {
                    let (key, is_locked) = (moving.key, true);
                    blocked.insert(from, Obstacle::Cell(to), BlockedMessage { key, is_locked });
                }
            }
        }
        self.announce(index, ended, wait);
        count
    }

    /// Says that messages stay where they are.
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

    /// Messages of a cell that were put aside: cached ones, and locked ones.
    pub(in crate::entity) fn count_blocked(&self, sub_queue: SubQueue, index: usize) -> (u64, u64) {
        if !self.is_forwarding(sub_queue) {
            return (0, 0);
        }
        let blocked = ignore_poison(self.forwarding.blocked.lock());
        blocked.count((sub_queue, index))
    }
}

/// Makes the hold on a message one that can end.
fn lock(cell: &Cell, sub_queue: SubQueue, key: LockKey) -> Option<LockKey> {
    let deadline = Ticks::NEVER;
    cell.store(sub_queue).deliver_cached(key, ClaimMode::Lock { deadline })
}

/// Ends the hold on a message that goes back to its place.
pub(super) fn unlock(cell: &Cell, sub_queue: SubQueue, key: LockKey, ticks: Ticks) {
    let _ = cell.store(sub_queue).settle(key, Outcome::Release, ticks);
}
