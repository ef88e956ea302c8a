// SPDX-License-Identifier: Apache-2.0
//! A value that many threads read on every call and that is rarely replaced.
//!
//! A read is one load and counts no readers. With counted versions (`arc_swap`), a send, a receive and a completion
//! together took 1,000 more instructions, a third of their total. Every version lives as long as the `Versions`, so
//! references to it stay valid. A value that equals an earlier version reuses it, so switching between a few values
//! needs no memory.

#![allow(
    unsafe_code,
    reason = "the current version is read through a pointer; the block names its invariant"
)]

// Owns the versions. Readers do not touch its reference counts, so loom has nothing to check there.
use std::sync::Arc;

use crate::sync::{AtomicPtr, Mutex, Ordering, lock};

/// The versions of a value, one of which is current.
#[derive(Debug)]
pub struct Versions<T> {
    current: AtomicPtr<T>,
    /// Every version so far. The list only grows.
    all: Mutex<Vec<Arc<T>>>,
}

impl<T: PartialEq> Versions<T> {
    /// A value with one version.
    pub fn new(first: T) -> Self {
        let first = Arc::new(first);
        Self {
            current: AtomicPtr::new(Arc::as_ptr(&first).cast_mut()),
            all: Mutex::new(vec![first]),
        }
    }

    /// The current version.
    #[inline]
    pub fn current(&self) -> &T {
        // SAFETY: the pointer is that of a version in `all`, which loses no version while `self` is borrowed. It was
        // stored with release after the version was built. Versions do not change.
        unsafe { &*self.current.load(Ordering::Acquire) }
    }

    /// Makes `next` the current version. A mutex serialises replacements.
    pub fn replace(&self, next: T) {
        let mut all = lock(&self.all);
        let known = all.iter().rposition(|version| **version == next);
        let at = known.unwrap_or_else(|| {
            all.push(Arc::new(next));
            all.len() - 1
        });
        self.current.store(Arc::as_ptr(&all[at]).cast_mut(), Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_reference_outlives_its_version() {
        let versions = Versions::new("first".to_owned());
        let first = versions.current();
        versions.replace("second".to_owned());
        assert_eq!((first.as_str(), versions.current().as_str()), ("first", "second"));
    }

    #[test]
    fn a_version_that_comes_again_is_not_kept_twice() {
        let versions = Versions::new(0);
        for number in 0..100 {
            versions.replace(number % 3);
            assert_eq!(*versions.current(), number % 3);
        }
        assert_eq!(lock(&versions.all).len(), 3);
    }

    #[test]
    fn versions_are_read_while_they_are_replaced() {
        let versions = Versions::new(vec![0_u64; 8]);
        std::thread::scope(|scope| {
            scope.spawn(|| (1..=200).for_each(|number| versions.replace(vec![number; 8])));
            scope.spawn(|| {
                for _ in 0..10_000 {
                    let read = versions.current();
                    assert!(read.iter().all(|it| *it == read[0]), "{read:?}");
                }
            });
        });
        assert_eq!(versions.current()[0], 200);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;

    #[test]
    fn a_reader_sees_a_whole_version() {
        loom::model(|| {
            let versions = loom::sync::Arc::new(Versions::new((1, 1)));
            let writer = {
                let versions = loom::sync::Arc::clone(&versions);
                loom::thread::spawn(move || {
                    versions.replace((2, 2));
                    versions.replace((3, 3));
                })
            };
            let first = *versions.current();
            let second = *versions.current();
            assert!(first.0 == first.1 && first.0 <= second.0, "{first:?}, then {second:?}");
            writer.join().expect("no panic");
            assert_eq!(*versions.current(), (3, 3));
        });
    }
}
