// SPDX-License-Identifier: Apache-2.0
//! Bytes that unfinished requests hold together, so that many large ones do not take all memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use oxbus_model::{Error, ErrorKind, Result};

/// Bytes that may be held, and that are.
#[derive(Clone)]
pub(crate) struct Budget {
    in_use: Arc<AtomicUsize>,
    max: usize,
}

/// Bytes of one request; given back when it is dropped.
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
    /// Takes so many more, or asks the caller to come back.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<()> {
        let before = self.budget.in_use.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        if before + bytes > self.budget.max {
            let detail = "the server has too much of unfinished requests in memory; wait, then try again";
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
    fn requests_share_the_bytes_and_give_them_back() {
        // HTTP_BODIES_BYTES_MAX, with fewer bytes.
        let budget = Budget::new(10);
        let (mut one, mut other) = (budget.share(), budget.share());
        assert!(one.take(6).is_ok());
        let refused = other.take(5).expect_err("eleven");
        assert_eq!(refused.kind(), ErrorKind::ServerBusy);
        drop((one, other));
        assert!(budget.share().take(10).is_ok());
    }
}
