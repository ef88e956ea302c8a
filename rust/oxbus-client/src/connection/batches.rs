// SPDX-License-Identifier: Apache-2.0
//! Lists of messages whose results arrive one by one, and whose caller waits for all.

use std::collections::HashMap;

use tokio::sync::oneshot;

/// The place of a result in a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    batch: u64,
    index: usize,
}

/// The batches that wait.
pub(super) struct Batches<R> {
    next: u64,
    waiting: HashMap<u64, Batch<R>>,
}

struct Batch<R> {
    results: Vec<Option<R>>,
    left: usize,
    done: oneshot::Sender<Vec<R>>,
}

impl<R> Default for Batches<R> {
    fn default() -> Self {
        Self {
            next: 0,
            waiting: HashMap::new(),
        }
    }
}

impl<R> Batches<R> {
    /// Begins a batch. Its results arrive with `set`, in any order.
    pub(super) fn begin(&mut self, size: usize) -> (u64, oneshot::Receiver<Vec<R>>) {
        let (done, receiver) = oneshot::channel();
        let batch = self.next;
        self.next += 1;
        let results = std::iter::repeat_with(|| None).take(size).collect();
        if size > 0 {
            let left = size;
            self.waiting.insert(batch, Batch { results, left, done });
        } else {
            let _ = done.send(Vec::new());
        }
        (batch, receiver)
    }

    /// The place of a result.
    pub(super) fn place(batch: u64, index: usize) -> Place {
        Place { batch, index }
    }

    /// Sets a result. The last one completes the batch.
    pub(super) fn set(&mut self, place: Place, result: R) {
        let Some(batch) = self.waiting.get_mut(&place.batch) else {
            return;
        };
        if batch.results[place.index].replace(result).is_none() {
            batch.left -= 1;
        }
        if batch.left == 0
            && let Some(batch) = self.waiting.remove(&place.batch)
        {
            // The caller may have given up.
            let _ = batch.done.send(batch.results.into_iter().flatten().collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Batches;

    #[test]
    fn a_batch_is_done_with_its_last_result() {
        let mut batches = Batches::default();
        let (batch, mut done) = batches.begin(2);
        batches.set(Batches::<u8>::place(batch, 1), 7);
        assert!(done.try_recv().is_err());
        batches.set(Batches::<u8>::place(batch, 1), 8);
        assert!(done.try_recv().is_err(), "the same place");
        batches.set(Batches::<u8>::place(batch, 0), 5);
        assert_eq!(done.try_recv(), Ok(vec![5, 8]));
        let (_, mut empty) = batches.begin(0);
        assert_eq!(empty.try_recv(), Ok(vec![]));
        assert!(batches.waiting.is_empty());
    }
}
