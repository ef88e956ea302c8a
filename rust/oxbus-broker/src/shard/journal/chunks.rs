// SPDX-License-Identifier: Apache-2.0
//! The state of a shard as the events of a snapshot.

use std::io;
use std::sync::Arc;

use oxbus_model::Counter;
use oxbus_model::name::SubQueue;
use oxbus_store::shard_log::Chunk;

use super::event::{EntityId, JournalEvent, KeptRecord, SEEN_MAX};
use super::message_state::MessageState;
use super::shard_state::ShardState;

impl ShardState {
    /// Chunks of events for a snapshot, each of about `chunk_bytes`, or of one longer message.
    pub fn chunks(&self, chunk_bytes: usize) -> impl Iterator<Item = io::Result<Chunk>> {
        let mut sinks = self.sinks().iter();
        let mut entities = self.entities();
        let mut pending: Vec<(EntityId, SubQueue, Counter, &MessageState)> = Vec::new();
        std::iter::from_fn(move || {
            let mut chunk = Vec::new();
            while chunk.len() < chunk_bytes {
                if let Some((entity, sub_queue, counter, message)) = pending.pop() {
                    match message.record.load() {
                        Ok(record) => message.as_event(sub_queue, counter, &record).encode(entity, &mut chunk),
                        Err(error) => return Some(Err(error)),
                    }
                    continue;
                }
                if let Some((sink, intent)) = sinks.next() {
                    let intent = intent.clone();
                    JournalEvent::Intent { sink, intent }.encode(EntityId(0), &mut chunk);
                    continue;
                }
                let Some((entity, queues)) = entities.next() else { break };
                JournalEvent::Number { next: queues.next }.encode(entity, &mut chunk);
                let seen: Vec<_> = queues.seen.iter().map(|(identity, at)| (*at, *identity)).collect();
                for identities in seen.chunks(SEEN_MAX) {
                    let identities = identities.to_vec();
                    JournalEvent::Seen { identities }.encode(entity, &mut chunk);
                }
                let attached: Vec<_> = queues.attached.iter().map(|(identity, at)| (*at, *identity)).collect();
                for identities in attached.chunks(SEEN_MAX) {
                    let identities = identities.to_vec();
                    JournalEvent::Attached { identities }.encode(entity, &mut chunk);
                }
                if !queues.origins.is_empty() {
                    let (forget, origins) = (false, queues.origins.iter().copied().collect());
                    JournalEvent::Arrived { forget, origins }.encode(entity, &mut chunk);
                }
                for ((sub_queue, name), record) in &queues.consumers {
                    let (sub_queue, record) = (*sub_queue, Arc::clone(record));
                    let event = JournalEvent::Consumer {
                        sub_queue,
                        name,
                        record,
                    };
                    event.encode(entity, &mut chunk);
                }
                for (id, (set_at, state)) in &queues.states {
                    let (set_at, state) = (*set_at, Some(&state[..]));
                    JournalEvent::SessionState { id, set_at, state }.encode(entity, &mut chunk);
                }
                let all = [
                    (SubQueue::Main, &queues.main),
                    (SubQueue::DeadLetter, &queues.dead_letters),
                ];
                for (sub_queue, messages) in all {
                    pending.extend(
                        messages
                            .iter()
                            .map(|(counter, message)| (entity, sub_queue, counter, message)),
                    );
                }
                // Reversed, because `pop` takes the last message.
                pending.reverse();
            }
            (!chunk.is_empty()).then(|| Ok(chunk.into()))
        })
    }
}

impl MessageState {
    fn as_event<'a>(&self, sub_queue: SubQueue, counter: Counter, bytes: &'a [u8]) -> JournalEvent<'a> {
        JournalEvent::Keep {
            sub_queue,
            counter,
            enqueued_at: self.enqueued_at,
            expires_at: self.expires_at,
            delivery_count: self.delivery_count,
            generation: self.generation,
            record_generation: self.record_generation,
            phase: self.phase,
            record: KeptRecord::Here(bytes),
        }
    }
}
