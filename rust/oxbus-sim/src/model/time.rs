// SPDX-License-Identifier: Apache-2.0
//! Time and restarts (B-112, B-157, B-206, B-235, B-102).

use oxbus_model::name::SubQueue;

use super::World;
use super::entity::{Entity, Kind};
use super::message::{Message, MessageLock, MessagePhase, NEVER};

/// Numbers that a kill may skip in each partition (docs/guarantees.md).
const GAP_MAX: i64 = 16_384;

impl World {
    /// Advances the time: locks expire, delays end, and scheduled messages are activated.
    pub fn advanced(&mut self, ms: u64) {
        self.now += ms;
        let now = self.now;
        for entity in self.alive_entities() {
            for sub_queue in [SubQueue::Main, SubQueue::DeadLetter] {
                for number in self.locked_numbers(entity, sub_queue, |lock| lock.until <= now) {
                    self.end_delivery((entity, sub_queue), number, true);
                }
            }
            for sub_queue in [SubQueue::Main, SubQueue::DeadLetter] {
                let messages = &mut self.entities[entity].stream_mut(sub_queue).messages;
                for message in messages.values_mut() {
                    message.delayed_until = message.delayed_until.filter(|until| *until > now);
                }
            }
            let sessions = self.entities[entity].sessions.iter();
            let lost = sessions.filter(|(_, known)| known.holder.is_some_and(|holder| holder.until <= now));
            for session in lost.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
                self.session_ended(entity, &session, true);
            }
        }
        for entity in self.alive_entities() {
            self.activate(entity);
        }
        self.forward_all();
    }

    fn locked_numbers(&self, entity: usize, sub_queue: SubQueue, is_one: impl Fn(MessageLock) -> bool) -> Vec<u64> {
        let messages = self.entities[entity].stream(sub_queue).messages.iter();
        let held = messages.filter(|(_, message)| message.lock.is_some_and(&is_one));
        held.map(|(number, _)| *number).collect()
    }

    /// Activates due messages as if they were sent when they were due.
    fn activate(&mut self, entity: usize) {
        let now = self.now;
        let due_of = |message: &Message| match message.phase {
            MessagePhase::Scheduled { due } => Some(due),
            _ => None,
        };
        let waiting = self.entities[entity].main.messages.iter();
        let mut due: Vec<(u64, u64)> = waiting
            .filter_map(|(number, message)| due_of(message).map(|due| (due, *number)))
            .filter(|(due, _)| *due <= now)
            .collect();
        due.sort_unstable();
        self.entities[entity].has_unseen_change |= !due.is_empty();
        for (due, number) in due {
            let it = &mut self.entities[entity];
            let message = it
                .main
                .messages
                .remove(&number)
                .expect("the search above found the message");
            let partition = Entity::partition_of_number(number);
            let life = message.expires_at.saturating_sub(message.enqueued_at);
            let life = if message.expires_at == NEVER { NEVER } else { life };
            self.arrive_for(entity, message.content, Some(partition), due, life);
        }
    }

    /// Restarts the process on the same directory. A kill may skip numbers.
    pub fn reopened(&mut self, is_clean: bool) {
        for entity in self.alive_entities() {
            for sub_queue in [SubQueue::Main, SubQueue::DeadLetter] {
                // A lock ends with its process as if it expired.
                for number in self.locked_numbers(entity, sub_queue, |_| true) {
                    self.end_delivery((entity, sub_queue), number, true);
                }
            }
            let partitions = i64::from(self.partitions);
            let it = &mut self.entities[entity];
            it.sessions.values_mut().for_each(|known| known.holder = None);
            it.sessions.retain(|_, known| known.state.is_some());
            if !is_clean {
                it.unseen_numbers += GAP_MAX * partitions;
            }
        }
        self.forward_all();
    }

    /// True if messages can be received from the entity.
    pub fn is_receivable(&self, entity: usize) -> bool {
        self.entities[entity].kind != Kind::Topic
    }
}
