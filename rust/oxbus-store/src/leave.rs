// SPDX-License-Identifier: Apache-2.0
//! When a caller leaves a wait for a store that does not answer.
//!
//! A store knows no clock and no signals. Whoever calls it says, for the thread it calls from, when to leave; a store that
//! waits for a disk which may hang asks now and then. Waits within waits add up: the first one that is over ends all.

use std::cell::RefCell;
use std::rc::Rc;

/// True when it is time to leave.
type Asked = Rc<dyn Fn() -> bool>;

thread_local! {
    static CALLS: RefCell<Vec<Asked>> = const { RefCell::new(Vec::new()) };
}

/// Takes the innermost call away again, also when it panics.
struct Call;

impl Drop for Call {
    fn drop(&mut self) {
        CALLS.with_borrow_mut(Vec::pop);
    }
}

/// Runs `work`, whose waits for a store end when `is_over` says so.
pub fn when<R>(is_over: impl Fn() -> bool + 'static, work: impl FnOnce() -> R) -> R {
    CALLS.with_borrow_mut(|calls| calls.push(Rc::new(is_over)));
    let _call = Call;
    work()
}

/// True when this thread has somebody to ask: without one a wait has no end of its own.
pub fn is_asked() -> bool {
    CALLS.with_borrow(|calls| !calls.is_empty())
}

/// True when this thread is to leave what it waits for.
pub fn is_due() -> bool {
    // Copied first: who is asked may call a store.
    let calls = CALLS.with_borrow(Clone::clone);
    calls.iter().any(|is_over| is_over())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_call_that_is_over_ends_those_within() {
        assert!(!is_asked() && !is_due());
        when(
            || true,
            || {
                assert!(is_asked());
                assert!(when(|| false, is_due));
            },
        );
        assert!(!when(|| false, is_due));
        assert!(!is_asked());
    }
}
