// SPDX-License-Identifier: Apache-2.0
//! Auto-forwarding (B-331 … B-342, B-268, B-269).

use oxbus_model::name::SubQueue;

use super::World;
use super::arrival::WITHOUT_SESSION;
use super::entity::Kind;
use super::message::{Content, FirstNumber, Message};

/// The result of forwarding a message.
enum ForwardResult {
    Moved(usize),
    DeadLettered(&'static str),
}

/// How many hops a message may take (B-334).
const HOPS_MAX: u8 = 4;

impl World {
    /// Forwards the messages of all entities until no message can move.
    pub(super) fn forward_all(&mut self) {
        let mut moved = true;
        while moved {
            moved = false;
            for entity in self.alive_entities() {
                moved |= self.forward_from(entity, SubQueue::Main);
                moved |= self.forward_from(entity, SubQueue::DeadLetter);
            }
        }
    }

    /// Forwards the messages of one sub-queue. Returns whether any moved or was dead-lettered.
    fn forward_from(&mut self, entity: usize, sub_queue: SubQueue) -> bool {
        let settings = &self.entities[entity].settings;
        let path = match sub_queue {
            SubQueue::Main => settings.forward_to.clone(),
            SubQueue::DeadLetter => settings.forward_dead_letters_to.clone(),
        };
        let Some(path) = path else { return false };
        // An entity with disabled receives keeps its messages (B-339).
        if !settings.status.allows_receive() {
            return false;
        }
        let mut moved = false;
        for number in self.entities[entity].ready(sub_queue, self.now) {
            let stream = self.entities[entity].stream_mut(sub_queue);
            let message = stream
                .messages
                .remove(&number)
                .expect("the search above found the message");
            let content = message.content.clone();
            moved |= match self.forward_result(&path, &content) {
                ForwardResult::Moved(to) => {
                    self.forward_to_entity((entity, to), content, Some(number));
                    true
                }
                ForwardResult::DeadLettered(reason) if sub_queue == SubQueue::Main => {
                    let content = Content {
                        reason: Some(reason.to_owned()),
                        ..content
                    };
                    let dead = &mut self.entities[entity].dead.messages;
                    // Dead letters are appended in the order of dead-lettering, but received by number (B-265).
                    let dead_lettered = Message {
                        content,
                        may_come_late: true,
                        ..message
                    };
                    dead.insert(number, dead_lettered);
                    true
                }
                ForwardResult::DeadLettered(_) => {
                    self.entities[entity].dead.messages.insert(number, message);
                    false
                }
            };
        }
        let is_dead = sub_queue == SubQueue::DeadLetter;
        for mut arrival in std::mem::take(&mut self.entities[entity].arrivals) {
            let can_forward = arrival.dead == is_dead && (is_dead || arrival.expires_at > self.now);
            match self.forward_result(&path, &arrival.content) {
                ForwardResult::Moved(to) if can_forward => {
                    self.entities[entity].unseen_numbers += 1;
                    self.forward_to_entity((entity, to), arrival.content, None);
                    moved = true;
                    continue;
                }
                ForwardResult::DeadLettered(reason) if can_forward && !is_dead => {
                    arrival.dead = true;
                    arrival.content.reason = Some(reason.to_owned());
                    moved = true;
                }
                _ => {}
            }
            self.entities[entity].arrivals.push(arrival);
        }
        moved
    }

    /// Where forwarding to `path` takes a message.
    fn forward_result(&self, path: &str, content: &Content) -> ForwardResult {
        let Some(to) = self.find(path) else {
            return ForwardResult::DeadLettered("MessagingEntityNotFoundException");
        };
        if content.hops >= HOPS_MAX {
            return ForwardResult::DeadLettered("MaxTransferHopCountExceeded");
        }
        let settings = &self.entities[to].settings;
        if !settings.status.allows_send() {
            return ForwardResult::DeadLettered("MessagingEntityDisabledException");
        }
        if settings.requires_session && content.session.is_none() {
            return ForwardResult::DeadLettered(WITHOUT_SESSION);
        }
        let needs_key = settings.enable_partitioning && settings.requires_duplicate_detection;
        if needs_key && self.key_of(to, content).is_none() {
            return ForwardResult::DeadLettered("InvalidOperationException");
        }
        ForwardResult::Moved(to)
    }

    /// The key that chooses the partition at the destination, by the rules of the destination, else of the source
    /// (B-086). The rules of a subscription are those of its topic.
    fn forward_key(&self, (from, to): (usize, usize), content: &Content) -> Option<String> {
        let from = match self.entities[from].kind {
            Kind::Subscription(topic) => topic,
            _ => from,
        };
        self.key_of(to, content).or_else(|| self.key_of(from, content))
    }

    /// Forwards a message to an entity, which applies its own rules (B-086, B-337, B-338).
    fn forward_to_entity(&mut self, (from, to): (usize, usize), content: Content, number: Option<u64>) {
        let first_number = match (content.first_number, number) {
            (FirstNumber::None, None) => FirstNumber::Unseen,
            (FirstNumber::None, Some(number)) => FirstNumber::Known(number),
            (known, _) => known,
        };
        let content = Content {
            hops: content.hops + 1,
            first_number,
            ..content
        };
        if !self.remember_if_new(to, &content) {
            self.entities[to].has_unseen_change = true;
            // The broker may receive the duplicates of one step in any order, so it may keep this one instead.
            if let Some(first) = self.first_seen(to, &content).filter(|first| first.step == self.step) {
                self.dropped.entry(first.body).or_default().push(content);
            }
            return;
        }
        let partition = match self.forward_key((from, to), &content) {
            _ if !self.entities[to].settings.enable_partitioning => Some(0),
            Some(key) => Some(self.partition_of(to, &key)),
            // The broker may choose any partition.
            None => None,
        };
        self.arrive(to, content, partition, self.now);
    }
}
