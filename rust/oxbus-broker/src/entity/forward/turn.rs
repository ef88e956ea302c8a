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
use oxbus_model::sync::{try_whole, whole};
use oxbus_model::{Moment, Ticks};
use oxbus_store::{ClaimMode, ClaimedMessage, LockKey, Outcome};

use super::aside::{Aside, Kept, Obstacle};
use super::fate::Fate;
use super::moving::{Moving, Source};
use super::{Entity, SUB_QUEUES};
use crate::shard::{Cell, ReadyCounts};

/// Messages looked at together.
const RUN: usize = 128;
/// Messages after which somebody else may go on.
const BUDGET: usize = 1024;

thread_local! {
    /// This thread has the turn of some entity.
    static IS_MOVING: Flag<bool> = const { Flag::new(false) };
}

/// What an entity has to move, and whose turn it is.
#[derive(Default)]
pub(in crate::entity) struct Forwarding {
    /// The cells that were asked for, one bit each; of the entity and of its dead-letter queue.
    asked: [AtomicU64; 2],
    /// The cells of which messages were put aside, likewise.
    kept: [AtomicU64; 2],
    /// Locked by who has the turn. Whole after a panic: what a panic left out of it stays held where it is, and goes on after the next
    /// open.
    aside: Mutex<Aside>,
    /// Who has the turn has done enough.
    is_tired: AtomicBool,
    /// Threads that wait for the turn.
    waiting: AtomicUsize,
    /// Entities that move their messages here.
    pub(super) sources: RwLock<Vec<Weak<Entity>>>,
    /// Those were looked at already, further up the stack.
    pub(in crate::entity) is_ticking: AtomicBool,
}

/// Notes that this thread has a turn, until it is dropped.
struct InTurn {
    was_moving: bool,
}

impl InTurn {
    fn begin() -> Self {
        Self {
            was_moving: IS_MOVING.replace(true),
        }
    }
}

impl Drop for InTurn {
    fn drop(&mut self) {
        IS_MOVING.set(self.was_moving);
    }
}

fn position(sub_queue: SubQueue) -> usize {
    usize::from(sub_queue == SubQueue::DeadLetter)
}

impl Forwarding {
    fn ask(&self, sub_queue: SubQueue, index: usize) {
        self.asked[position(sub_queue)].fetch_or(1 << index, Ordering::SeqCst);
    }

    fn is_asked(&self) -> bool {
        self.asked.iter().any(|asked| asked.load(Ordering::SeqCst) != 0)
    }

    /// Takes one of the cells that were asked for.
    fn next_asked(&self) -> Option<(SubQueue, usize)> {
        for (asked, sub_queue) in self.asked.iter().zip(SUB_QUEUES) {
            let cells = asked.load(Ordering::SeqCst);
            if cells != 0 {
                let index = cells.trailing_zeros();
                asked.fetch_and(!(1 << index), Ordering::SeqCst);
                return Some((sub_queue, index as usize));
            }
        }
        None
    }

    /// The turn; `None` when somebody has it who will look at what was asked for.
    fn take_turn(&self) -> Option<MutexGuard<'_, Aside>> {
        // Asked before the turn is seen taken here; given back before what was asked is looked at there: one sees the other.
        fence(Ordering::SeqCst);
        let turn = match try_whole(self.aside.try_lock()) {
            Some(turn) => turn,
            None if IS_MOVING.get() || !self.is_tired.load(Ordering::SeqCst) => return None,
            None => self.wait_for_turn(),
        };
        self.is_tired.store(false, Ordering::SeqCst);
        Some(turn)
    }

    fn wait_for_turn(&self) -> MutexGuard<'_, Aside> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let turn = whole(self.aside.lock());
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        turn
    }

    fn note_kept(&self, aside: &Aside, place: (SubQueue, usize)) {
        let kept = &self.kept[position(place.0)];
        if aside.has(place) {
            kept.fetch_or(1 << place.1, Ordering::SeqCst);
        } else if kept.load(Ordering::SeqCst) & 1 << place.1 != 0 {
            kept.fetch_and(!(1 << place.1), Ordering::SeqCst);
        }
    }
}

impl Entity {
    /// Moves what is ready in a cell to the destination.
    pub(in crate::entity) fn forward(&self, sub_queue: SubQueue, index: usize, wait: &Wait<'_>) {
        self.forwarding.ask(sub_queue, index);
        self.move_asked(BUDGET, wait);
    }

    /// Tries again to move what stayed.
    pub(crate) fn forward_ready(&self, wait: &Wait<'_>) {
        self.forward_all(BUDGET, wait);
    }

    /// The settings, the destination or a partition changed: moves everything that is there, or puts it back to be received.
    pub(crate) fn forward_anew(&self, wait: &Wait<'_>) {
        let ticks = self.core().clock().ticks();
        // Waited for: once the settings are changed, no message goes by the old ones.
        let turn = InTurn::begin();
        let mut aside = self.forwarding.wait_for_turn();
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
                let place = (sub_queue, index);
                for (obstacle, _) in aside.of(place) {
                    aside.release(place, obstacle, cell, ticks);
                }
                self.forwarding.note_kept(&aside, place);
            }
        }
        drop(aside);
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
            let kept = if IS_MOVING.get() {
                0
            } else {
                self.forwarding.kept[position(sub_queue)].load(Ordering::SeqCst)
            };
            for (index, cell) in self.cells() {
                let is_kept = kept & 1 << index != 0;
                if self.shard(index).health().serves() && (is_kept || cell.store(sub_queue).has_ready()) {
                    self.forwarding.ask(sub_queue, index);
                }
            }
        }
        if self.forwarding.is_asked() {
            self.move_asked(budget, wait);
        }
    }

    fn move_asked(&self, budget: usize, wait: &Wait<'_>) {
        loop {
            let Some(mut aside) = self.forwarding.take_turn() else {
                return;
            };
            let turn = InTurn::begin();
            self.move_all(&mut aside, budget, wait);
            drop(turn);
            drop(aside);
            fence(Ordering::SeqCst);
            // Who waits goes on; what was asked for by those who did not is looked at here.
            if !self.forwarding.is_asked() || self.forwarding.waiting.load(Ordering::SeqCst) > 0 {
                return;
            }
        }
    }

    /// Moves all that is asked for, unless somebody waits to go on.
    fn move_all(&self, aside: &mut Aside, budget: usize, wait: &Wait<'_>) {
        let mut moved = 0;
        while let Some(place) = self.forwarding.next_asked() {
            let (sub_queue, index) = place;
            let Some(cell) = self.cell(index) else { continue };
            self.retry(aside, place, cell, wait);
            loop {
                let run = self.forward_run(aside, place, cell, wait);
                self.forwarding.note_kept(aside, place);
                if run == 0 {
                    break;
                }
                moved += run;
                if moved >= budget {
                    self.forwarding.is_tired.store(true, Ordering::SeqCst);
                    if self.forwarding.waiting.load(Ordering::SeqCst) > 0 {
                        self.forwarding.ask(sub_queue, index);
                        return;
                    }
                }
            }
        }
    }

    /// Puts back what may be moved now.
    fn retry(&self, aside: &mut Aside, place: (SubQueue, usize), cell: &Cell, wait: &Wait<'_>) {
        if !aside.has(place) {
            return;
        }
        let (sub_queue, index) = place;
        let destination = self.destination(sub_queue);
        let ticks = self.core().clock().ticks();
        for (obstacle, first) in aside.of(place) {
            let goes = match (obstacle, &destination) {
                (Obstacle::Cell(to), Some(destination)) => {
                    to >= usize::from(destination.partitions()) || destination.shard(to).health().fault().is_none()
                }
                (Obstacle::Cell(_), None) => true,
                (Obstacle::Nowhere | Obstacle::Refused(_), _) => {
                    let mut found = Vec::new();
                    cell.store(sub_queue).peek(first.key.counter, 1, &mut found);
                    found.first().is_none_or(|message| {
                        let source = Source { sub_queue, index, cell };
                        let fate = self.fate(
                            source,
                            first.key.counter,
                            &message.record,
                            destination.as_ref(),
                            |_| Some(0),
                            wait,
                        );
                        !matches!(fate, Fate::Stays(again) if again == obstacle)
                    })
                }
            };
            if goes {
                aside.release(place, obstacle, cell, ticks);
            }
        }
    }

    /// The entity that its messages are moved to, if it is there.
    fn destination(&self, sub_queue: SubQueue) -> Option<std::sync::Arc<Self>> {
        let found = self.core().entity(&self.forwards_to(sub_queue)?);
        found.filter(|entity| entity.check_alive().is_ok())
    }

    /// Moves a run of messages, or puts them aside; how many there were.
    fn forward_run(&self, aside: &mut Aside, place: (SubQueue, usize), cell: &Cell, wait: &Wait<'_>) -> usize {
        let (sub_queue, index) = place;
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
        let (_, buried) = cell.claim_or_expire(
            sub_queue,
            RUN,
            ClaimMode::Cache,
            (moment.now, self.settings().dead_lettering_on_message_expiration),
            &mut claims,
            wait,
        );
        let mut ended = ReadyCounts {
            dead_letters: buried,
            ..ReadyCounts::default()
        };
        let source = Source { sub_queue, index, cell };
        let count = claims.len();
        let mut runs: Vec<(usize, Vec<Moving>)> = Vec::new();
        for ClaimedMessage { key, record, .. } in claims {
            let on_the_way = |to: usize| {
                let run = runs.iter().find(|(its, _)| *its == to);
                let bytes = run.map_or(0, |(_, run)| run.iter().map(|moving| moving.record.len()).sum());
                (!aside.waits_for(place, to)).then_some(bytes)
            };
            match self.fate(source, key.counter, &record, destination.as_ref(), on_the_way, wait) {
                Fate::Goes(to, record) => {
                    let moving = Moving { key, record };
                    match runs.iter_mut().find(|(its, _)| *its == to) {
                        Some((_, run)) => run.push(moving),
                        None => runs.push((to, vec![moving])),
                    }
                }
                Fate::Stays(obstacle) => {
                    self.tell_blocked(place, obstacle);
                    let is_locked = false;
                    aside.put(place, obstacle, Kept { key, is_locked });
                }
                Fate::Buried(reason, description) => {
                    let locked = lock(cell, sub_queue, key);
                    let is_done =
                        locked.is_some_and(|key| source.bury(key, &record, reason, &description, moment, wait));
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
                .is_some_and(|it| self.move_run(source, (it, to), &run, moment, wait));
            if !done {
                self.tell_blocked(place, Obstacle::Cell(to));
                // It may be on its way to that cell still: it goes there or nowhere.
                for moving in run {
                    let (key, is_locked) = (moving.key, true);
                    aside.put(place, Obstacle::Cell(to), Kept { key, is_locked });
                }
            }
        }
        self.announce(index, ended, wait);
        count
    }

    /// Says that messages stay where they are.
    #[cold]
    fn tell_blocked(&self, (sub_queue, index): (SubQueue, usize), obstacle: Obstacle) {
        event!(
            FORWARD_BLOCKED,
            entity = self.name().as_str(),
            partition = self.shard(index).id().0,
            destination = self.forwards_to(sub_queue).as_deref().unwrap_or_default(),
            reason = obstacle.name()
        );
    }

    /// Messages of a cell that were put aside: cached ones, and locked ones.
    pub(in crate::entity) fn kept_aside(&self, sub_queue: SubQueue, index: usize) -> (u64, u64) {
        if !self.is_forwarding(sub_queue) {
            return (0, 0);
        }
        let aside = whole(self.forwarding.aside.lock());
        aside.count((sub_queue, index))
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
