// SPDX-License-Identifier: Apache-2.0
//! Lock tokens on the wire: a delivery tag holds the token's bytes, and a uuid holds the same token in network order.
//!
//! Clients read the tag as a .NET GUID, whose first three groups are little-endian, and use that uuid in the
//! `lock-tokens` of `$management`.

use crate::codec::{Tag, Uuid};
use oxbus_model::LockToken;

/// Reverses the bytes of the first three groups of a GUID. It is its own inverse.
fn swap_guid_bytes(mut bytes: [u8; 16]) -> [u8; 16] {
    bytes[0..4].reverse();
    bytes[4..6].reverse();
    bytes[6..8].reverse();
    bytes
}

/// The delivery tag of a token.
pub fn tag(token: LockToken) -> Tag {
    Tag::from(token.0)
}

/// The uuid of a token.
pub fn to_guid(token: LockToken) -> Uuid {
    Uuid(swap_guid_bytes(token.0))
}

/// The token of a uuid.
pub fn from_guid(uuid: Uuid) -> LockToken {
    LockToken(swap_guid_bytes(uuid.0))
}
