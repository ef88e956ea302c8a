// SPDX-License-Identifier: Apache-2.0
//! Lock tokens: 16 bytes that name a message and prove its lock.
//!
//! ```text
//! partition 16 | counter 48 | generation 20 | owner epoch 16 | tag 28        (big-endian, 128 bits)
//! ```
//! The tag is a keyed hash of the scope (entity incarnation and sub-queue) and the other fields. A forged token, or one
//! of another entity or sub-queue, cannot be opened. So settling needs no table of tokens and works from any handle of
//! the entity.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use crate::{Counter, PartitionId};

/// Bits of a generation.
pub const GENERATION_BITS: u32 = 20;
const EPOCH_BITS: u32 = 16;
const TAG_BITS: u32 = 28;

/// The secret of a namespace, from the operating system's random numbers.
#[derive(Clone, Copy)]
pub struct TokenKey(pub [u8; 16]);

impl std::fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenKey(…)")
    }
}

/// Proof of a receiver's lock on a message. In AMQP it is the delivery tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LockToken(pub [u8; 16]);

/// The fields of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenFields {
    /// Partition of the message.
    pub partition: PartitionId,
    /// Counter of the message in its cell.
    pub counter: Counter,
    /// Number of the lock among the message's locks.
    pub generation: u32,
    /// Owner epoch of the shard when the lock was taken.
    pub epoch: u16,
}

impl LockToken {
    /// Makes the token of a lock in `scope`.
    #[inline]
    pub fn seal(key: &TokenKey, scope: u64, fields: TokenFields) -> Self {
        let head = head(fields);
        let token = head << TAG_BITS | u128::from(tag(key, scope, head));
        Self(token.to_be_bytes())
    }

    /// Reads a token. Returns `None` if this key did not make it for this scope.
    #[inline]
    pub fn open(self, key: &TokenKey, scope: u64) -> Option<TokenFields> {
        let token = u128::from_be_bytes(self.0);
        let head = token >> TAG_BITS;
        if (token & ((1 << TAG_BITS) - 1)) as u32 != tag(key, scope, head) {
            return None;
        }
        Some(TokenFields {
            epoch: (head & ((1 << EPOCH_BITS) - 1)) as u16,
            generation: (head >> EPOCH_BITS) as u32 & ((1 << GENERATION_BITS) - 1),
            counter: Counter((head >> (EPOCH_BITS + GENERATION_BITS)) as u64 & Counter::MAX.0),
            partition: PartitionId((head >> (EPOCH_BITS + GENERATION_BITS + Counter::BITS)) as u16),
        })
    }
}

fn head(fields: TokenFields) -> u128 {
    debug_assert!(fields.generation < 1 << GENERATION_BITS, "a generation has 20 bits");
    let partition = u128::from(fields.partition.0) << Counter::BITS;
    let message = (partition | u128::from(fields.counter.0)) << GENERATION_BITS;
    (message | u128::from(fields.generation)) << EPOCH_BITS | u128::from(fields.epoch)
}

#[inline]
fn tag(key: &TokenKey, scope: u64, head: u128) -> u32 {
    let key = u128::from_le_bytes(key.0);
    let mut hasher = SipHasher13::new_with_keys(key as u64, (key >> 64) as u64);
    // Whole words: bytes go through a buffer, which takes twice as long.
    hasher.write_u64(scope);
    hasher.write_u64((head >> 64) as u64);
    hasher.write_u64(head as u64);
    hasher.finish() as u32 & ((1 << TAG_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use super::{LockToken, TokenFields, TokenKey};
    use crate::{Counter, PartitionId};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_token_opens_only_in_its_scope(
            partition: u16, counter in 0..=Counter::MAX.0, generation in 0u32..1 << 20, epoch: u16, scope: u64,
        ) {
            let key = TokenKey([7; 16]);
            let fields = TokenFields { partition: PartitionId(partition), counter: Counter(counter), generation, epoch };
            let token = LockToken::seal(&key, scope, fields);
            prop_assert_eq!(token.open(&key, scope), Some(fields));
            prop_assert_eq!(token.open(&key, scope ^ 1), None);
            prop_assert_eq!(token.open(&TokenKey([8; 16]), scope), None);
            for byte in 0..16 {
                let mut forged = token;
                forged.0[byte] ^= 0x10;
                prop_assert_eq!(forged.open(&key, scope), None);
            }
        }
    }
}
