// SPDX-License-Identifier: Apache-2.0
//! Unsettled deliveries of a session, by number.

use std::collections::BTreeMap;

use crate::performative::Disposition;

/// Unsettled deliveries of a session in one direction. Their 64-bit numbers are never reused; the wire carries the lower
/// half.
#[derive(Debug)]
pub(crate) struct DeliveryTable<T> {
    next: u64,
    entries: BTreeMap<u64, T>,
}

/// A range of deliveries that a disposition names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeliveryRange {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl<T> DeliveryTable<T> {
    /// An empty table, whose first delivery has this number.
    pub(crate) fn starting_at(next: u64) -> Self {
        Self {
            next,
            entries: BTreeMap::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Numbers a delivery of this side.
    pub(crate) fn number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }

    /// The number of a delivery whose id the peer chose.
    pub(crate) fn number_of(&mut self, id: u32) -> u64 {
        let number = self.nearest(id).max(0) as u64;
        self.next = self.next.max(number + 1);
        number
    }

    pub(crate) fn insert(&mut self, number: u64, delivery: T) {
        self.entries.insert(number, delivery);
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<T> {
        self.entries.remove(&number)
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        self.entries.get_mut(&number)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.values()
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    pub(crate) fn retain(&mut self, keep: impl FnMut(&u64, &mut T) -> bool) {
        self.entries.retain(keep);
    }

    /// The range of a disposition. `None` if it is empty in the order of wrapping numbers.
    pub(crate) fn range_of(&self, disposition: &Disposition) -> Option<DeliveryRange> {
        let (first, last) = (disposition.first, disposition.last.unwrap_or(disposition.first));
        let length = last.wrapping_sub(first);
        if (length as i32) < 0 {
            return None;
        }
        let start = self.nearest(first);
        let end = start + i64::from(length);
        Some(DeliveryRange {
            first: start.max(0) as u64,
            last: end.max(0) as u64,
        })
    }

    /// The first delivery of a range.
    #[inline]
    pub(crate) fn first_in(&mut self, range: DeliveryRange) -> Option<(u64, &mut T)> {
        let (number, delivery) = self.entries.range_mut(range.first..=range.last).next()?;
        Some((*number, delivery))
    }

    /// A 32-bit id means the 64-bit number nearest to the next one.
    fn nearest(&self, id: u32) -> i64 {
        let distance = (self.next as u32).wrapping_sub(id) as i32;
        self.next as i64 - i64::from(distance)
    }
}
