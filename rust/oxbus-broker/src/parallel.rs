// SPDX-License-Identifier: Apache-2.0
//! Runs the same work for several items on scoped threads, so that waits for disks overlap.
//!
//! The calling thread only polls its own wait: the wait's callback may be bound to that thread (Python).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Builder};
use std::time::Duration;

use oxbus_model::Result;
use oxbus_store::Wait;

/// Interval between two checks of whether the caller's wait is over.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Runs `work` for each item on at most `threads` threads. A failure does not stop the other items. Returns the first
/// error in the order of the items.
pub(crate) fn for_each<T: Sync>(
    items: &[T],
    threads: usize,
    wait: &Wait<'_>,
    work: impl Fn(&T, &Wait<'_>) -> Result<()> + Sync,
) -> Result<()> {
    if items.len() < 2 || threads < 2 {
        return first_error(items.iter().map(|item| work(item, wait)));
    }
    let next = AtomicUsize::new(0);
    let take = |wait: &Wait<'_>| {
        let mut done = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(place) else { return done };
            done.push((place, work(item, wait)));
        }
    };
    let is_over = AtomicBool::new(false);
    let has_end = wait.has_end();
    let caller = thread::current();
    let mut done = thread::scope(|scope| {
        let run = || {
            let is_over = || is_over.load(Ordering::Relaxed);
            let wait = if has_end { Wait::until(&is_over) } else { Wait::FOREVER };
            let done = take(&wait);
            caller.unpark();
            done
        };
        let begun = (0..threads.min(items.len())).map(|_| Builder::new().spawn_scoped(scope, run));
        let running: Vec<_> = begun.flatten().collect();
        while running.iter().any(|thread| !thread.is_finished()) {
            thread::park_timeout(POLL_INTERVAL);
            if wait.is_over() {
                is_over.store(true, Ordering::Relaxed);
            }
        }
        let ended = running.into_iter();
        ended
            .flat_map(|thread| thread.join().expect("work for one item does not panic"))
            .collect::<Vec<_>>()
    });
    // The items that are left if no thread could be started.
    done.extend(take(wait));
    done.sort_unstable_by_key(|(place, _)| *place);
    first_error(done.into_iter().map(|(_, result)| result))
}

fn first_error(results: impl Iterator<Item = Result<()>>) -> Result<()> {
    // `fold` consumes every result; `collect` would stop at the first error.
    results.fold(Ok(()), Result::and)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use oxbus_model::{Error, ErrorKind};

    use super::*;
    use crate::clock::with_timeout;

    #[test]
    fn every_item_is_processed_and_the_first_error_is_returned() {
        for threads in [0, 1, 2, 9] {
            let items: Vec<usize> = (0..20).collect();
            let done = Mutex::new(Vec::new());
            let result = for_each(&items, threads, &Wait::FOREVER, |item, _| {
                done.lock().expect("no thread panicked").push(*item);
                if item % 7 == 3 {
                    return Err(Error::new(ErrorKind::Storage, item.to_string()));
                }
                Ok(())
            });
            assert_eq!(result.expect_err("some failed").detail(), "3", "{threads} threads");
            let mut done = done.into_inner().expect("no thread panicked");
            done.sort_unstable();
            assert_eq!(done, items, "{threads} threads");
        }
    }

    #[test]
    fn cancelling_the_caller_ends_the_waits_of_all_threads() {
        let work = |_: &u8, wait: &Wait<'_>| {
            while !wait.is_over() {
                thread::yield_now();
            }
            Ok(())
        };
        with_timeout(5, &Wait::FOREVER, |wait| for_each(&[1, 2, 3], 2, wait, work)).expect("each left");
    }
}
