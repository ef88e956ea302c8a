// SPDX-License-Identifier: Apache-2.0
//! Lock tokens on the wire: a delivery tag has the bytes of the token, a uuid the same token in network order.
//!
//! Clients read the tag as .NET writes a GUID, whose first three groups are little-endian, and name the lock by that uuid in
//! `lock-tokens` of `$management`.

use oxbus_amqp::codec::{Tag, Uuid};
use oxbus_model::LockToken;

/// Turns the first three groups of a GUID around; twice is the same again.
fn swap_guid_bytes(mut bytes: [u8; 16]) -> [u8; 16] {
    bytes[0..4].reverse();
    bytes[4..6].reverse();
    bytes[6..8].reverse();
    bytes
}

/// The delivery tag.
pub(super) fn tag(token: LockToken) -> Tag {
    Tag::from(token.0)
}

/// The uuid.
pub(super) fn to_guid(token: LockToken) -> Uuid {
    Uuid(swap_guid_bytes(token.0))
}

/// The token of a uuid.
pub(super) fn from_guid(uuid: Uuid) -> LockToken {
    LockToken(swap_guid_bytes(uuid.0))
}
