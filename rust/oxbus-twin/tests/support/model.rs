// SPDX-License-Identifier: Apache-2.0
//! A naive message store, written from the documentation of the trait: a list and loops.

use oxbus_model::{Counter, Ticks, Timestamp};
use oxbus_store::MessagePhase;

/// A message of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) counter: u64,
    pub(crate) body: Vec<u8>,
    pub(crate) phase: MessagePhase,
    pub(crate) count: u32,
    pub(crate) enqueued_at: Timestamp,
    pub(crate) expires_at: Timestamp,
    pub(crate) deadline: Option<Ticks>,
    /// The number of its current lock. Numbers are unique.
    pub(crate) hold: u64,
}

/// Key of a lock of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) counter: u64,
    pub(crate) hold: u64,
}

/// The trait's `ClaimMode`.
pub(crate) use oxbus_store::ClaimMode;

/// The trait's `Outcome` with plain bytes.
#[derive(Debug, Clone)]
pub(crate) enum SettleAction {
    Complete,
    Abandon { max: u32, replacement: Option<Vec<u8>> },
    Release,
    Defer { replacement: Option<Vec<u8>> },
    Remove,
}

/// The trait's `Settled` with plain messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ModelResult {
    Completed,
    Ready,
    Deferred,
    Removed(Message),
    Exhausted(Message),
}

#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) messages: Vec<Message>,
    last_counter: u64,
    last_hold: u64,
}

impl Model {
    pub(crate) fn append(
        &mut self,
        body: Vec<u8>,
        enqueued_at: Timestamp,
        expires_at: Timestamp,
        phase: MessagePhase,
    ) -> Counter {
        self.last_counter += 1;
        self.messages.push(Message {
            counter: self.last_counter,
            body,
            phase,
            count: 0,
            enqueued_at,
            expires_at,
            deadline: None,
            hold: 0,
        });
        Counter(self.last_counter)
    }

    pub(crate) fn last_counter(&self) -> u64 {
        self.last_counter
    }

    fn position(&self, counter: u64) -> Option<usize> {
        self.messages.iter().position(|message| message.counter == counter)
    }

    fn hold_at(&mut self, at: usize, phase: MessagePhase, deadline: Option<Ticks>) -> Key {
        self.last_hold += 1;
        let message = &mut self.messages[at];
        message.hold = self.last_hold;
        message.phase = phase;
        message.deadline = deadline;
        Key {
            counter: message.counter,
            hold: self.last_hold,
        }
    }

    pub(crate) fn take_scheduled(&mut self, counter: u64) -> Option<Message> {
        let at = self.position(counter)?;
        (self.messages[at].phase == MessagePhase::Scheduled).then(|| self.messages.remove(at))
    }

    pub(crate) fn claim(&mut self, max: usize, hold: ClaimMode, now: Timestamp) -> (Vec<(Key, Message)>, Vec<Message>) {
        let (mut claimed, mut expired) = (Vec::new(), Vec::new());
        let mut at = 0;
        while claimed.len() < max && at < self.messages.len() {
            if self.messages[at].phase != MessagePhase::Ready {
                at += 1;
            } else if self.messages[at].expires_at <= now {
                expired.push(self.messages.remove(at));
            } else {
                match hold {
                    ClaimMode::Take => {
                        let message = self.messages.remove(at);
                        claimed.push((
                            Key {
                                counter: message.counter,
                                hold: u64::MAX,
                            },
                            message,
                        ));
                    }
                    ClaimMode::Cache => {
                        let key = self.hold_at(at, MessagePhase::Cached, None);
                        claimed.push((key, self.messages[at].clone()));
                    }
                    ClaimMode::Lock { deadline } => {
                        let key = self.hold_at(at, MessagePhase::Locked, Some(deadline));
                        claimed.push((key, self.messages[at].clone()));
                    }
                }
            }
        }
        (claimed, expired)
    }

    pub(crate) fn has_ready(&self) -> bool {
        self.messages.iter().any(|message| message.phase == MessagePhase::Ready)
    }

    fn cached(&self, key: Key) -> Option<usize> {
        let at = self.position(key.counter)?;
        (self.messages[at].phase == MessagePhase::Cached && self.messages[at].hold == key.hold).then_some(at)
    }

    fn locked(&self, key: Key, ticks: Ticks) -> Option<usize> {
        let at = self.position(key.counter)?;
        let message = &self.messages[at];
        let locked = matches!(message.phase, MessagePhase::Locked | MessagePhase::DeferredLocked);
        (locked && message.hold == key.hold && message.deadline > Some(ticks)).then_some(at)
    }

    pub(crate) fn deliver_cached(&mut self, key: Key, hold: ClaimMode) -> Option<Key> {
        let at = self.cached(key)?;
        match hold {
            ClaimMode::Take => {
                self.messages.remove(at);
                Some(Key {
                    counter: key.counter,
                    hold: u64::MAX,
                })
            }
            ClaimMode::Cache => Some(self.hold_at(at, MessagePhase::Cached, None)),
            ClaimMode::Lock { deadline } => Some(self.hold_at(at, MessagePhase::Locked, Some(deadline))),
        }
    }

    pub(crate) fn release_cached(&mut self, keys: &[Key]) -> usize {
        let mut released = 0;
        for key in keys {
            if let Some(at) = self.cached(*key) {
                self.messages[at].phase = MessagePhase::Ready;
                released += 1;
            }
        }
        released
    }

    pub(crate) fn settle(&mut self, key: Key, end: SettleAction, ticks: Ticks) -> Option<ModelResult> {
        let at = self.locked(key, ticks)?;
        Some(self.settle_at(at, end))
    }

    fn settle_at(&mut self, at: usize, end: SettleAction) -> ModelResult {
        let message = &mut self.messages[at];
        let was_deferred = message.phase == MessagePhase::DeferredLocked;
        message.deadline = None;
        let back = if was_deferred {
            MessagePhase::Deferred
        } else {
            MessagePhase::Ready
        };
        let phase = match end {
            SettleAction::Complete => {
                self.messages.remove(at);
                return ModelResult::Completed;
            }
            SettleAction::Remove => return ModelResult::Removed(self.messages.remove(at)),
            SettleAction::Release => back,
            SettleAction::Defer { replacement } => {
                if let Some(body) = replacement {
                    message.body = body;
                }
                MessagePhase::Deferred
            }
            SettleAction::Abandon { max, replacement } => {
                if let Some(body) = replacement {
                    message.body = body;
                }
                if !was_deferred {
                    message.count += 1;
                }
                if message.count >= max {
                    return ModelResult::Exhausted(self.messages.remove(at));
                }
                back
            }
        };
        message.phase = phase;
        if phase == MessagePhase::Deferred {
            ModelResult::Deferred
        } else {
            ModelResult::Ready
        }
    }

    pub(crate) fn renew(&mut self, key: Key, deadline: Ticks, ticks: Ticks) -> bool {
        let at = self.locked(key, ticks);
        if let Some(at) = at {
            self.messages[at].deadline = Some(deadline);
        }
        at.is_some()
    }

    pub(crate) fn holds(&self, key: Key, ticks: Ticks) -> bool {
        self.locked(key, ticks).is_some() || self.cached(key).is_some()
    }

    pub(crate) fn lock_deferred(
        &mut self,
        counters: &[u64],
        hold: ClaimMode,
        now: Timestamp,
    ) -> Result<Vec<(Key, Message)>, u64> {
        for (index, counter) in counters.iter().enumerate() {
            let free = self.position(*counter).is_some_and(|at| {
                let message = &self.messages[at];
                message.phase == MessagePhase::Deferred && message.expires_at > now
            });
            if !free || counters[..index].contains(counter) {
                return Err(*counter);
            }
        }
        let mut locked = Vec::new();
        for counter in counters {
            let at = self.position(*counter).expect("checked above");
            if let ClaimMode::Lock { deadline } = hold {
                self.messages[at].count += 1;
                let key = self.hold_at(at, MessagePhase::DeferredLocked, Some(deadline));
                locked.push((key, self.messages[at].clone()));
            } else {
                locked.push((
                    Key {
                        counter: *counter,
                        hold: u64::MAX,
                    },
                    self.messages.remove(at),
                ));
            }
        }
        Ok(locked)
    }

    pub(crate) fn take_expired(&mut self, counters: &[u64], now: Timestamp) -> Vec<Message> {
        let take = |counter: &u64| {
            let at = self.position(*counter)?;
            let message = &self.messages[at];
            let is_over = message.phase == MessagePhase::Deferred && message.expires_at <= now;
            is_over.then(|| self.messages.remove(at))
        };
        counters.iter().filter_map(take).collect()
    }

    pub(crate) fn expire(&mut self, ticks: Ticks, max: u32) -> (usize, Vec<Message>) {
        let (mut ready, mut exhausted) = (0, Vec::new());
        let mut at = 0;
        while at < self.messages.len() {
            let message = &self.messages[at];
            let over = matches!(message.phase, MessagePhase::Locked | MessagePhase::DeferredLocked)
                && message.deadline <= Some(ticks);
            if !over {
                at += 1;
                continue;
            }
            match self.settle_at(at, SettleAction::Abandon { max, replacement: None }) {
                ModelResult::Exhausted(message) => exhausted.push(message),
                ModelResult::Ready => {
                    ready += 1;
                    at += 1;
                }
                _ => at += 1,
            }
        }
        (ready, exhausted)
    }

    pub(crate) fn next_expiry(&self) -> Ticks {
        self.messages
            .iter()
            .filter(|message| matches!(message.phase, MessagePhase::Locked | MessagePhase::DeferredLocked))
            .filter_map(|message| message.deadline)
            .min()
            .unwrap_or(Ticks::NEVER)
    }
}
