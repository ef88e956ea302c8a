// SPDX-License-Identifier: Apache-2.0
//! The same work for several things at once, on threads that end with it: waits for a disk go on beside each other.
//!
//! Who calls does none of it, and sees whether to leave: a thread knows only of its own calls (`oxbus_store::leave`), and
//! who is asked may be bound to the thread that came.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Builder};
use std::time::Duration;

use oxbus_model::Result;
use oxbus_store::leave;

/// Between two questions whether to leave.
const ASK_EVERY: Duration = Duration::from_millis(10);

/// Does `work` for each of the things, on at most so many threads. One that fails keeps the others from nothing; the first
/// error by place is that of the call.
pub(crate) fn for_each<T: Sync>(things: &[T], threads: usize, work: impl Fn(&T) -> Result<()> + Sync) -> Result<()> {
    if things.len() < 2 || threads < 2 {
        return first_error(things.iter().map(work));
    }
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(thing) = things.get(place) else { return done };
            done.push((place, work(thing)));
        }
    };
    let is_over = Arc::new(AtomicBool::new(false));
    let is_asked = leave::is_asked();
    let caller = thread::current();
    let mut done = thread::scope(|scope| {
        let run = || {
            let is_over = Arc::clone(&is_over);
            let done = if is_asked {
                leave::when(move || is_over.load(Ordering::Relaxed), take)
            } else {
                take()
            };
            caller.unpark();
            done
        };
        let begun = (0..threads.min(things.len())).map(|_| Builder::new().spawn_scoped(scope, run));
        let running: Vec<_> = begun.flatten().collect();
        while running.iter().any(|thread| !thread.is_finished()) {
            thread::park_timeout(ASK_EVERY);
            if is_asked && leave::is_due() {
                is_over.store(true, Ordering::Relaxed);
            }
        }
        let ended = running.into_iter();
        ended
            .flat_map(|thread| thread.join().expect("work for one thing does not panic"))
            .collect::<Vec<_>>()
    });
    // What no thread could be had for.
    done.extend(take());
    done.sort_unstable_by_key(|(place, _)| *place);
    first_error(done.into_iter().map(|(_, result)| result))
}

fn first_error(results: impl Iterator<Item = Result<()>>) -> Result<()> {
    // All of them, not only until the first.
    results.fold(Ok(()), Result::and)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use oxbus_model::{Error, ErrorKind};

    use super::*;
    use crate::clock::leaving_after;

    #[test]
    fn everything_is_done_and_the_first_error_is_told() {
        for threads in [0, 1, 2, 9] {
            let things: Vec<usize> = (0..20).collect();
            let done = Mutex::new(Vec::new());
            let result = for_each(&things, threads, |thing| {
                done.lock().expect("whole").push(*thing);
                if thing % 7 == 3 {
                    return Err(Error::new(ErrorKind::Storage, thing.to_string()));
                }
                Ok(())
            });
            assert_eq!(result.expect_err("some failed").detail(), "3", "{threads} threads");
            let mut done = done.into_inner().expect("whole");
            done.sort_unstable();
            assert_eq!(done, things, "{threads} threads");
        }
    }

    #[test]
    fn who_wants_to_leave_ends_the_waits_of_all_threads() {
        let wait = |_: &u8| {
            while !leave::is_due() {
                thread::yield_now();
            }
            Ok(())
        };
        leaving_after(5, || for_each(&[1, 2, 3], 2, wait)).expect("each left");
    }
}
