// SPDX-License-Identifier: Apache-2.0
//! The identity that two copies of a message share (B-219 … B-222, B-231).

use siphasher::sip128::{Hasher128, SipHasher24};
use std::hash::Hasher;

/// A message id, and the key of the partition if there is one, as a keyed hash of 128 bits. Exact: neither case nor
/// spelling is folded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity(pub u128);

/// The key that identities are hashed with. A namespace uses one key for its whole life.
#[derive(Clone, Copy)]
pub struct IdentityKey(pub [u8; 16]);

impl std::fmt::Debug for IdentityKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("IdentityKey(…)")
    }
}

impl IdentityKey {
    /// The identity of a message: of its id alone, or under the key that chose its partition.
    pub fn identity(&self, key: Option<&str>, message_id: &str) -> Identity {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        // Lengths first: no two pairs of texts give the same bytes.
        hasher.write_u64(key.map_or(0, |key| key.len() as u64 + 1));
        hasher.write(key.unwrap_or_default().as_bytes());
        hasher.write(message_id.as_bytes());
        Identity(hasher.finish128().as_u128())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_and_id_are_told_apart() {
        let key = IdentityKey([7; 16]);
        let all = [
            key.identity(None, "ab"),
            key.identity(Some(""), "ab"),
            key.identity(Some("a"), "b"),
            key.identity(Some("ab"), ""),
            key.identity(None, "AB"),
            IdentityKey([8; 16]).identity(None, "ab"),
        ];
        for (index, one) in all.iter().enumerate() {
            assert!(all[index + 1..].iter().all(|other| other != one), "{index}");
        }
        assert_eq!(key.identity(Some("a"), "b"), all[2]);
    }
}
