// SPDX-License-Identifier: Apache-2.0
//! The limit on failed attempts to sign in: a few a minute from each address.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Mutex;

use oxbus_model::Timestamp;
use oxbus_model::sync::ignore_poison;

/// Failed attempts of one address in a window.
const ATTEMPTS_MAX: u32 = 5;
const WINDOW_MS: u64 = 60_000;
/// Addresses that are counted alone; further ones share one count.
const ADDRESSES_MAX: usize = 1_024;

/// Failed attempts by address, each with the end of its window.
#[derive(Default)]
pub(super) struct Attempts(Mutex<BTreeMap<Option<IpAddr>, (u32, Timestamp)>>);

impl Attempts {
    /// Counts an attempt before it is known to fail. Returns the seconds to wait if there were too many.
    pub(super) fn begin(&self, address: Option<IpAddr>, now: Timestamp) -> std::result::Result<(), u64> {
        let mut known = ignore_poison(self.0.lock());
        known.retain(|_, (_, ends)| *ends > now);
        let key = if known.len() < ADDRESSES_MAX || known.contains_key(&address) {
            address
        } else {
            None
        };
        let (count, ends) = known.entry(key).or_insert((0, now.plus_ms(WINDOW_MS)));
        if *count >= ATTEMPTS_MAX {
            return Err(ends.0.saturating_sub(now.0).div_ceil(1_000));
        }
        *count += 1;
        Ok(())
    }

    /// Forgets the attempts of an address that knows a key.
    pub(super) fn succeeded(&self, address: Option<IpAddr>) {
        ignore_poison(self.0.lock()).remove(&address);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use oxbus_model::Timestamp;

    use super::{ADDRESSES_MAX, ATTEMPTS_MAX, Attempts, WINDOW_MS};

    #[test]
    fn an_address_has_few_attempts_in_a_minute() {
        let attempts = Attempts::default();
        let address = |at: u32| Some(IpAddr::V4(Ipv4Addr::from(at)));
        for _ in 0..ATTEMPTS_MAX {
            assert!(attempts.begin(address(1), Timestamp(0)).is_ok());
        }
        assert_eq!(attempts.begin(address(1), Timestamp(1_000)), Err(59));
        assert!(attempts.begin(address(2), Timestamp(1_000)).is_ok());
        assert!(attempts.begin(address(1), Timestamp(WINDOW_MS)).is_ok());
        for at in 0..2 * ADDRESSES_MAX as u32 {
            let _ = attempts.begin(address(at), Timestamp(WINDOW_MS));
        }
        assert!(attempts.0.lock().expect("no panic").len() <= ADDRESSES_MAX + 1);
    }
}
