// SPDX-License-Identifier: Apache-2.0
//! The limit of a caller's wait for an unresponsive store, and whether the caller's thread waits.
//!
//! A store has no clock and handles no signals. The caller supplies a predicate that ends the wait, and a store that
//! waits for a hung disk evaluates it from time to time. A nested wait ends when either predicate is true.

/// How long a caller waits, and when the wait is cancelled.
#[derive(Clone, Copy)]
pub struct Wait<'a> {
    is_over: Option<&'a (dyn Fn() -> bool + Sync)>,
    outer: Option<&'a Wait<'a>>,
    suspends: bool,
}

impl std::fmt::Debug for Wait<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wait").field("has_end", &self.has_end()).finish()
    }
}

impl<'a> Wait<'a> {
    /// Waits until the store answers, without a limit.
    pub const FOREVER: Wait<'static> = Wait {
        is_over: None,
        outer: None,
        suspends: false,
    };

    /// Waits until `is_over` returns true.
    pub fn until(is_over: &'a (dyn Fn() -> bool + Sync)) -> Self {
        Self {
            is_over: Some(is_over),
            outer: None,
            suspends: false,
        }
    }

    /// The wait of a call that holds no thread while a store takes its time: its future is pending until then, and is
    /// polled from time to time, too, to see whether the wait is over. See [`crate::suspended`].
    #[must_use]
    pub fn suspending(self) -> Self {
        Self { suspends: true, ..self }
    }

    /// Waits until this wait is over or `is_over` returns true.
    #[must_use]
    pub fn or_until(&'a self, is_over: &'a (dyn Fn() -> bool + Sync)) -> Self {
        Self {
            is_over: Some(is_over),
            outer: Some(self),
            suspends: self.suspends,
        }
    }

    /// True if the wait can be cancelled.
    pub fn has_end(&self) -> bool {
        self.is_over.is_some()
    }

    /// True if the call is suspended instead of its thread waiting.
    pub fn suspends(&self) -> bool {
        self.suspends
    }

    /// True if the wait is over.
    pub fn is_over(&self) -> bool {
        self.is_over.is_some_and(|is_over| is_over()) || self.outer.is_some_and(Self::is_over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_of_two_waits_ends_both() {
        assert!(!Wait::FOREVER.has_end() && !Wait::FOREVER.is_over());
        for (outer, inner) in [(false, false), (true, false), (false, true), (true, true)] {
            let (outer_is_over, inner_is_over) = (|| outer, || inner);
            let wait = Wait::until(&outer_is_over);
            let both = wait.or_until(&inner_is_over);
            assert!(wait.has_end() && both.has_end());
            assert_eq!(wait.is_over(), outer);
            assert_eq!(both.is_over(), outer || inner);
        }
        let inner_is_over = || true;
        assert!(Wait::FOREVER.or_until(&inner_is_over).is_over());
    }
}
