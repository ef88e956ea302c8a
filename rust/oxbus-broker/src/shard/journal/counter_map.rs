// SPDX-License-Identifier: Apache-2.0
//! Messages by number, for replaying a journal: most numbers arrive in order, and most messages are removed.
//!
//! Entries are in runs of a few hundred, each in order. A message with the highest number is appended. A removed
//! message leaves an empty entry until half of its run is empty. So an open touches little memory besides the
//! messages.
//!
//! Invariants
//! - numbers rise within a run and from run to run; no run is without a message;
//! - `len` is the number of messages; `empty` of a run is the number of its empty entries.

use std::collections::VecDeque;
use std::fmt;

use oxbus_model::Counter;

/// Entries of a full run. A run that took numbers out of order may have twice as many.
const RUN: usize = 256;

/// Messages by number.
#[derive(Clone)]
pub struct CounterMap<T> {
    runs: VecDeque<CounterRun<T>>,
    len: usize,
}

#[derive(Clone)]
struct CounterRun<T> {
    places: Vec<(Counter, Option<T>)>,
    empty: usize,
}

impl<T> CounterRun<T> {
    fn first(&self) -> Counter {
        self.places[0].0
    }

    fn last(&self) -> Counter {
        self.places[self.places.len() - 1].0
    }

    /// Index of a number, or where it would be inserted.
    fn find(&self, counter: Counter) -> Result<usize, usize> {
        // Without gaps the distance from the first number is the index.
        let guess = counter.0.wrapping_sub(self.first().0) as usize;
        if self.places.get(guess).is_some_and(|place| place.0 == counter) {
            return Ok(guess);
        }
        self.places.binary_search_by_key(&counter, |place| place.0)
    }
}

impl<T> CounterMap<T> {
    /// Number of messages.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are no messages.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Messages in the order of their numbers.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (Counter, &T)> {
        let places = self.runs.iter().flat_map(|run| &run.places);
        places.filter_map(|(counter, message)| Some((*counter, message.as_ref()?)))
    }

    /// Consumes the map and returns its messages in order. The memory of a run is freed when the next run begins.
    pub fn into_messages(self) -> impl Iterator<Item = (Counter, T)> {
        let places = self.runs.into_iter().flat_map(|run| run.places);
        places.filter_map(|(counter, message)| Some((counter, message?)))
    }

    /// The message with a number.
    pub fn get(&self, counter: Counter) -> Option<&T> {
        let run = &self.runs[self.run_of(counter)?];
        run.places[run.find(counter).ok()?].1.as_ref()
    }

    /// Mutable access to the message with a number.
    pub fn get_mut(&mut self, counter: Counter) -> Option<&mut T> {
        let at = self.run_of(counter)?;
        let run = &mut self.runs[at];
        let place = run.find(counter).ok()?;
        run.places[place].1.as_mut()
    }

    /// True if a message has that number.
    pub fn contains(&self, counter: Counter) -> bool {
        self.get(counter).is_some()
    }

    /// Inserts a message, or replaces the one with its number.
    pub fn insert(&mut self, counter: Counter, message: T) {
        let Some(last) = self.runs.back_mut().filter(|last| last.last() < counter) else {
            return self.insert_between(counter, message);
        };
        self.len += 1;
        if last.places.len() < RUN {
            last.places.push((counter, Some(message)));
        } else {
            self.runs.push_back(CounterRun::of(counter, message));
        }
    }

    fn insert_between(&mut self, counter: Counter, message: T) {
        let Some(at) = self.run_of(counter) else {
            self.len += 1;
            return self.runs.push_front(CounterRun::of(counter, message));
        };
        let run = &mut self.runs[at];
        match run.find(counter) {
            Ok(place) => {
                if run.places[place].1.replace(message).is_none() {
                    run.empty -= 1;
                    self.len += 1;
                }
            }
            Err(place) => {
                run.places.insert(place, (counter, Some(message)));
                self.len += 1;
                if run.places.len() >= RUN * 2 {
                    self.split(at);
                }
            }
        }
    }

    /// Removes and returns the message with a number.
    pub fn remove(&mut self, counter: Counter) -> Option<T> {
        let at = self.run_of(counter)?;
        let run = &mut self.runs[at];
        let place = run.find(counter).ok()?;
        let message = run.places[place].1.take()?;
        self.len -= 1;
        run.empty += 1;
        if run.empty == run.places.len() {
            self.runs.remove(at);
        } else if run.empty * 2 > run.places.len() {
            run.places.retain(|(_, message)| message.is_some());
            run.empty = 0;
        }
        Some(message)
    }

    /// Removes the messages with numbers from `first` to `last`. Takes time in proportion to the messages there.
    pub fn remove_run(&mut self, first: Counter, last: Counter) {
        if last.0 - first.0 < RUN as u64 {
            for counter in first.0..=last.0 {
                self.remove(Counter(counter));
            }
            return;
        }
        let from = self.run_of(first).unwrap_or(0);
        let runs = self.runs.range(from..).take_while(|run| run.first() <= last);
        let places = runs.flat_map(|run| &run.places).map(|place| place.0);
        let there: Vec<Counter> = places.filter(|counter| (first..=last).contains(counter)).collect();
        for counter in there {
            self.remove(counter);
        }
    }

    /// Index of the last run that begins at or before a number.
    fn run_of(&self, counter: Counter) -> Option<usize> {
        self.runs.partition_point(|run| run.first() <= counter).checked_sub(1)
    }

    /// Splits a run in two and drops its empty entries.
    fn split(&mut self, at: usize) {
        let run = &mut self.runs[at];
        run.places.retain(|(_, message)| message.is_some());
        run.empty = 0;
        let places = run.places.split_off(run.places.len() / 2);
        self.runs.insert(at + 1, CounterRun { places, empty: 0 });
    }
}

impl<T> CounterRun<T> {
    fn of(counter: Counter, message: T) -> Self {
        Self {
            places: vec![(counter, Some(message))],
            empty: 0,
        }
    }
}

impl<T> Default for CounterMap<T> {
    fn default() -> Self {
        Self {
            runs: VecDeque::new(),
            len: 0,
        }
    }
}

impl<T: PartialEq> PartialEq for CounterMap<T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<T: Eq> Eq for CounterMap<T> {}

impl<T: fmt::Debug> fmt::Debug for CounterMap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use oxbus_model::Counter;
    use proptest::prelude::*;

    use super::CounterMap;

    #[derive(Debug, Clone)]
    enum MapStep {
        Next,
        Insert(u64),
        Remove(u64),
        RemoveFirst,
        RemoveRun(u64, u64),
    }

    fn step() -> impl Strategy<Value = MapStep> {
        prop_oneof![
            6 => Just(MapStep::Next),
            1 => (0..3000_u64).prop_map(MapStep::Insert),
            2 => (0..3000_u64).prop_map(MapStep::Remove),
            3 => Just(MapStep::RemoveFirst),
            1 => (0..3000_u64, 0..600_u64).prop_map(|(first, more)| MapStep::RemoveRun(first, first + more)),
        ]
    }

    proptest! {
        #[test]
        fn it_is_an_ordered_map(steps in prop::collection::vec(step(), 0..4000)) {
            let mut map = BTreeMap::new();
            let mut numbered = CounterMap::default();
            for (time, step) in steps.into_iter().enumerate() {
                match step {
                    MapStep::Next => {
                        let next = Counter(map.last_key_value().map_or(1, |(last, _): (&Counter, _)| last.0 + 1));
                        map.insert(next, time);
                        numbered.insert(next, time);
                    }
                    MapStep::Insert(counter) => {
                        map.insert(Counter(counter), time);
                        numbered.insert(Counter(counter), time);
                    }
                    MapStep::Remove(counter) => {
                        prop_assert_eq!(numbered.remove(Counter(counter)), map.remove(&Counter(counter)));
                        prop_assert!(!numbered.contains(Counter(counter)));
                    }
                    MapStep::RemoveRun(first, last) => {
                        numbered.remove_run(Counter(first), Counter(last));
                        map.retain(|counter, _| !(first..=last).contains(&counter.0));
                    }
                    MapStep::RemoveFirst => {
                        if let Some((first, time)) = map.pop_first() {
                            prop_assert_eq!(numbered.remove(first), Some(time));
                        }
                    }
                }
                prop_assert_eq!(numbered.len(), map.len());
            }
            prop_assert!(numbered.iter().eq(map.iter().map(|(counter, time)| (*counter, time))));
            for counter in (0..3000).map(Counter) {
                prop_assert_eq!(numbered.get(counter), map.get(&counter));
                prop_assert_eq!(numbered.get_mut(counter), map.get_mut(&counter));
            }
            prop_assert!(numbered.into_messages().eq(map));
        }
    }
}
