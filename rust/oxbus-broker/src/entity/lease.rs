// SPDX-License-Identifier: Apache-2.0
//! Answers from memory of a namespace in a store, which another process may own by now.
//!
//! What is durable waits for the store, which knows the owner. A peek, a count or a renewal of a lock does not: it
//! counts only if the lease of this process lasts after the answer was made.

use std::time::Duration;

use oxbus_model::caps::STORE_ANSWER_MS_MAX;
use oxbus_model::{Effect, Error, ErrorKind, Result};
use oxbus_store::Wait;
use oxbus_store::disk::{Lease, TakenOver};

use super::Entity;

/// Interval between checks whether the caller still waits.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

impl Entity {
    /// Fails unless this process still owns the namespace, so that an answer that was made before is valid. Waits while
    /// the store does not answer.
    #[inline]
    pub(crate) fn check_owned(&self, wait: &Wait<'_>) -> Result<()> {
        match self.core().lease() {
            Some(lease) if !lease.lasts() => wait_for(lease, wait),
            _ => Ok(()),
        }
    }
}

#[cold]
fn wait_for(lease: &dyn Lease, wait: &Wait<'_>) -> Result<()> {
    let began = oxbus_system::instant();
    loop {
        match lease.wait(POLL_INTERVAL) {
            Ok(true) => return Ok(()),
            Err(error) => {
                let (kind, advice) = if TakenOver::is_cause_of(&error) {
                    (ErrorKind::PartitionUnavailable, "work there")
                } else {
                    (ErrorKind::Closed, "open it again and make new handles")
                };
                return Err(Error::new(kind, format!("{error}; {advice}")).with_effect(Effect::None));
            }
            Ok(false) => {}
        }
        let is_late = !wait.has_end() && began.elapsed() >= Duration::from_millis(STORE_ANSWER_MS_MAX);
        if wait.is_over() || is_late {
            let kind = if is_late {
                ErrorKind::PartitionUnavailable
            } else {
                ErrorKind::Timeout
            };
            let detail =
                "the store did not answer in time, so another process may own the namespace; make the call again";
            return Err(Error::new(kind, detail).with_effect(Effect::None));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// A lease that is over, and what becomes of it.
    #[derive(Debug)]
    struct Over(fn() -> io::Result<bool>);

    impl Lease for Over {
        fn lasts(&self) -> bool {
            false
        }

        fn wait(&self, _patience: Duration) -> io::Result<bool> {
            (self.0)()
        }
    }

    #[test]
    fn a_call_waits_for_a_lease_that_is_over_until_it_is_renewed_or_the_caller_gives_up() {
        wait_for(&Over(|| Ok(true)), &Wait::until(&|| true)).expect("renewed");
        let gave_up = wait_for(&Over(|| Ok(false)), &Wait::until(&|| true)).expect_err("nobody renews it");
        assert_eq!(gave_up.kind(), ErrorKind::Timeout);
    }

    #[test]
    fn an_owner_whose_lease_cannot_be_renewed_says_why() {
        let taken_over = || {
            let by = "process 7".to_owned();
            Err(io::Error::other(TakenOver { by }))
        };
        let taken = wait_for(&Over(taken_over), &Wait::FOREVER).expect_err("another process has it");
        assert_eq!(taken.kind(), ErrorKind::PartitionUnavailable);
        assert!(
            taken.to_string().contains("took the namespace over: process 7"),
            "{taken}"
        );
        let closed = wait_for(
            &Over(|| Err(io::Error::other("the namespace is closed"))),
            &Wait::FOREVER,
        );
        assert_eq!(closed.expect_err("closed").kind(), ErrorKind::Closed);
    }
}
