// SPDX-License-Identifier: Apache-2.0
//! Waiting for messages, for a session or for a reservation: the step that every wait takes, and the wait of a thread.
//!
//! A wait is a row of steps with sleeps between them (`oxbus_store::wait_queue`). A step is the same for all who wait; how
//! they sleep is theirs: a thread on the condition of its waiter, here; others in whatever way their callback ends.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use oxbus_model::Result;
use oxbus_model::name::SubQueue;
use oxbus_store::wait_queue::{self, Callback, Waiter, look_or_register};
use oxbus_store::{Wait, WaitQueue};

use crate::clock::Deadline;
use crate::entity::Entity;
use crate::shard::Accepted;

/// When a wait ends.
#[derive(Clone, Copy, Debug)]
pub struct WaitOptions<'a> {
    /// At this time.
    pub deadline: Deadline,
    /// When this is over. Who ends it notifies those who wait, or the wait asks now and then.
    pub cancellation: &'a Wait<'a>,
    /// How often to ask whether it is over; `None` when its end notifies.
    pub ask_every: Option<Duration>,
}

/// What brings work that may be waited for: messages, sessions.
pub trait WaitSource {
    /// Where those who wait for it queue.
    fn place(&self) -> WaitPlace;

    /// How long to wait for a notification at most; `None` when one is sure to come.
    fn look_again_after(&self) -> Option<Duration>;
}

/// A wait queue, kept alive.
pub struct WaitPlace(Place);

enum Place {
    Queue(Arc<Entity>, SubQueue),
    Session(Arc<Accepted>),
}

impl WaitPlace {
    /// With all who receive from a queue, or who accept its sessions.
    pub(super) fn at_queue(queue: &Arc<Entity>, sub_queue: SubQueue) -> Self {
        Self(Place::Queue(Arc::clone(queue), sub_queue))
    }

    /// With those who receive from a session.
    pub(super) fn at_session(accepted: &Arc<Accepted>) -> Self {
        Self(Place::Session(Arc::clone(accepted)))
    }
}

impl Deref for WaitPlace {
    type Target = WaitQueue;

    fn deref(&self) -> &WaitQueue {
        match &self.0 {
            Place::Queue(queue, sub_queue) => &queue.receivable(*sub_queue).wait_queue,
            Place::Session(accepted) => accepted.wait_queue(),
        }
    }
}

/// A place in a wait queue between two steps. Dropped, it hands a notification that was not taken to the next one.
pub struct Waiting {
    waiter: Waiter<WaitPlace>,
    /// How long to sleep at most; `None` until notified.
    pub at_most: Option<Duration>,
}

/// What a step brought.
pub type Step<T> = wait_queue::Step<T, Waiting>;

/// Takes one step of a wait: looks, joins those who wait, and looks again. `callback` is called once, by whichever thread
/// notifies; it must be short and must not receive. Without one a thread sleeps.
pub fn step<T>(
    source: &impl WaitSource,
    earlier: Option<Waiting>,
    options: &WaitOptions<'_>,
    callback: Option<Callback>,
    look: impl FnMut() -> Result<Option<T>>,
) -> Result<Step<T>> {
    let deadline = options.deadline;
    let is_late = || deadline.is_over();
    let stepped = look_or_register(
        earlier.map(|earlier| earlier.waiter),
        look,
        || Waiter::register(source.place(), callback),
        &options.cancellation.or_until(&is_late),
    )?;
    Ok(match stepped {
        wait_queue::Step::Found(found) => Step::Found(found),
        wait_queue::Step::Over => Step::Over,
        wait_queue::Step::Waiting(waiter) => {
            let times = [deadline.remaining(), source.look_again_after(), options.ask_every];
            let at_most = times.into_iter().flatten().min();
            Step::Waiting(Waiting { waiter, at_most })
        }
    })
}

/// Looks until there is something, and sleeps between two looks; `None` when the wait is over.
pub(super) fn until_found<T>(
    source: &impl WaitSource,
    options: &WaitOptions<'_>,
    mut look: impl FnMut() -> Result<Option<T>>,
) -> Result<Option<T>> {
    let mut earlier = None;
    loop {
        match step(source, earlier, options, None, &mut look)? {
            Step::Found(found) => return Ok(Some(found)),
            Step::Over => return Ok(None),
            Step::Waiting(mut waiting) => {
                waiting.waiter.wait(waiting.at_most);
                earlier = Some(waiting);
            }
        }
    }
}
