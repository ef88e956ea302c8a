// SPDX-License-Identifier: Apache-2.0
//! A limit on the bytes that all unfinished requests hold in memory together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use oxbus_model::{Error, ErrorKind, Result};

/// The limit, and the bytes in use.
#[derive(Clone)]
pub(crate) struct Budget {
    in_use: Arc<AtomicUsize>,
    max: usize,
}

/// The bytes of one request. Dropping it returns them to the budget.
pub(crate) struct BudgetShare {
    budget: Budget,
    bytes: usize,
}

impl Budget {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            in_use: Arc::default(),
            max,
        }
    }

    pub(crate) fn share(&self) -> BudgetShare {
        BudgetShare {
            budget: self.clone(),
            bytes: 0,
        }
    }
}

impl BudgetShare {
    /// Adds `bytes` to the share. Fails with `ServerBusy` if that exceeds the budget.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<()> {
        let before = self.budget.in_use.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        if before + bytes > self.budget.max {
            let detail = "unfinished requests hold too much memory of the server; wait, then try again";
            return Err(Error::new(ErrorKind::ServerBusy, detail));
        }
        Ok(())
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.budget.in_use.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use oxbus_model::ErrorKind;

    use super::Budget;

    #[test]
    fn requests_share_the_budget_and_return_their_bytes() {
        // HTTP_BODIES_BYTES_MAX, with a smaller limit.
        let budget = Budget::new(10);
        let (mut one, mut other) = (budget.share(), budget.share());
        assert!(one.take(6).is_ok());
        let refused = other.take(5).expect_err("11 of 10 bytes");
        assert_eq!(refused.kind(), ErrorKind::ServerBusy);
        drop((one, other));
        assert!(budget.share().take(10).is_ok());
    }
}
