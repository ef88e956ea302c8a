// SPDX-License-Identifier: Apache-2.0
//! The partition of a key, and fingerprints.
//!
//! `partition_of(key, n) = (XXH64(key, seed 42) as i64).rem_euclid(n)` equals Spark SQL's
//! `pmod(xxhash64(cast(key as binary)), n)`. The remainder is of the *signed* hash: an unsigned modulo differs
//! where `n` is not a power of two (docs/decisions/0001-partition-hash.md).
//! XXH64 does not resist attacks, so no security may depend on it.

use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher24};
use xxhash_rust::xxh64::xxh64;

/// Seed of the partition hash: Spark's.
pub const SEED: u64 = 42;

/// The partition hash of a key.
#[inline]
pub fn hash(key: &[u8]) -> i64 {
    xxh64(key, SEED) as i64
}

/// The partition of `key` among `partitions`, which must be at least 1.
///
/// # Panics
/// When `partitions` is 0.
#[inline]
pub fn partition_of(key: &[u8], partitions: u32) -> u32 {
    let hash = hash(key);
    if partitions.is_power_of_two() {
        // The low bits of two's complement are the euclidean remainder.
        (hash as u64 & u64::from(partitions - 1)) as u32
    } else {
        hash.rem_euclid(i64::from(partitions)) as u32
    }
}

/// A 128-bit hash that tells files apart. Anybody can compute it.
pub fn fingerprint(bytes: &[u8]) -> u128 {
    let mut hasher = SipHasher24::new();
    hasher.write(bytes);
    hasher.finish128().as_u128()
}

#[cfg(test)]
mod tests {
    use super::{hash, partition_of};
    use proptest::prelude::*;

    #[test]
    fn hashes_match_the_vectors_of_the_decision() {
        assert_eq!(hash(b""), -7_444_071_767_201_028_348);
        assert_eq!(hash(b"a"), -8_582_455_328_737_087_284);
        assert_eq!(hash("日本語".as_bytes()), -619_341_062_884_681_239);
        assert_eq!(partition_of(b"", 16), 4);
        assert_eq!(partition_of(b"key-1", 16), 15);
    }

    proptest! {
        #[test]
        fn the_mask_for_powers_of_two_equals_the_remainder(key: Vec<u8>, shift in 0u32..31) {
            let partitions = 1u32 << shift;
            let remainder = hash(&key).rem_euclid(i64::from(partitions));
            prop_assert_eq!(i64::from(partition_of(&key, partitions)), remainder);
        }
    }
}
