// SPDX-License-Identifier: Apache-2.0
//! The source of a namespace's ids, salts and secrets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use oxbus_model::Result;

use super::system::random_bytes;

/// Increment of `SplitMix64`.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// A source of random bytes. Clones share one sequence.
#[derive(Debug, Clone, Default)]
pub enum Randomness {
    /// The operating system.
    #[default]
    System,
    /// `SplitMix64` from a seed, for tests only: the bytes are predictable.
    Seeded(Arc<AtomicU64>),
}

impl Randomness {
    /// The sequence of a seed.
    pub fn seeded(seed: u64) -> Self {
        Self::Seeded(Arc::new(AtomicU64::new(seed)))
    }

    /// The next bytes.
    pub fn bytes<const N: usize>(&self) -> Result<[u8; N]> {
        let state = match self {
            Self::System => return random_bytes(),
            Self::Seeded(state) => state,
        };
        let mut bytes = [0; N];
        for eight in bytes.chunks_mut(8) {
            let number = mixed(state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP));
            eight.copy_from_slice(&number.to_le_bytes()[..eight.len()]);
        }
        Ok(bytes)
    }
}

/// The output function of `SplitMix64`.
fn mixed(state: u64) -> u64 {
    let state = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let state = (state ^ state >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    state ^ state >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_bytes_of_splitmix64() {
        // The first numbers of the published generator for the seed 1234567.
        let expected = [6_457_827_717_110_365_317_u64, 3_203_168_211_198_807_973];
        let bytes: [u8; 16] = Randomness::seeded(1_234_567).bytes().expect("a seed never fails");
        assert_eq!(bytes[..8], expected[0].to_le_bytes());
        assert_eq!(bytes[8..], expected[1].to_le_bytes());
    }

    #[test]
    fn clones_share_one_sequence() {
        let one = Randomness::seeded(7);
        let first: [u8; 8] = one.clone().bytes().expect("a seed never fails");
        let second: [u8; 8] = one.bytes().expect("a seed never fails");
        assert_ne!(first, second);
    }
}
