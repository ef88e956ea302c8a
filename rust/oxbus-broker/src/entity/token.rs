// SPDX-License-Identifier: Apache-2.0
//! Lock tokens of an entity, which identify a lock and are valid only for this entity.

use oxbus_model::lock::TokenFields;
use oxbus_model::name::SubQueue;
use oxbus_model::{LockToken, PartitionId};
use oxbus_store::LockKey;

use super::Entity;

impl Entity {
    /// The token of a lock.
    #[inline]
    pub fn seal_token(&self, sub_queue: SubQueue, index: usize, key: LockKey) -> LockToken {
        let fields = TokenFields {
            partition: PartitionId(index as u16),
            counter: key.counter,
            generation: key.generation,
            epoch: 0,
        };
        LockToken::seal(self.core.token_key(), self.scope(sub_queue), fields)
    }

    /// Cell index and lock of a token, if this entity issued it.
    #[inline]
    pub fn open_token(&self, sub_queue: SubQueue, token: LockToken) -> Option<(usize, LockKey)> {
        let fields = token.open(self.core.token_key(), self.scope(sub_queue))?;
        let index = usize::from(fields.partition.0);
        (index < self.shards.len()).then_some((
            index,
            LockKey {
                counter: fields.counter,
                generation: fields.generation,
            },
        ))
    }

    fn scope(&self, sub_queue: SubQueue) -> u64 {
        self.id.0 << 1 | u64::from(sub_queue == SubQueue::DeadLetter)
    }
}
