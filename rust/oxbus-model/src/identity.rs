// SPDX-License-Identifier: Apache-2.0
//! Identities, by which duplicate detection recognizes copies of a message (B-219 … B-222, B-231).

use siphasher::sip128::{Hasher128, SipHasher24};
use std::hash::Hasher;

/// Keyed 128-bit hash of a message id and the partition key, if there is one. Case matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity(pub u128);

/// The hash key of a namespace, which never changes.
#[derive(Clone, Copy)]
pub struct IdentityKey(pub [u8; 16]);

impl std::fmt::Debug for IdentityKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("IdentityKey(…)")
    }
}

impl IdentityKey {
    /// The identity of a message: of its id, and of the key that selected its partition, if there is one.
    pub fn identity(&self, key: Option<&str>, message_id: &str) -> Identity {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        // The length of the key goes first, so that no two pairs give the same bytes.
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
    fn different_keys_or_ids_give_different_identities() {
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
