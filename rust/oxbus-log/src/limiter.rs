// SPDX-License-Identifier: Apache-2.0
//! Limits repeated lines: each subject gets a few lines per time window. Further lines are counted, and the count is
//! reported.
//!
//! A subject is an event and what it is about, such as its entity and partition (`Line::subject`). Callers pass the
//! time.

use std::collections::BTreeMap;

use oxbus_model::Ticks;
use oxbus_model::caps::{LOG_LINES_MAX, LOG_SUBJECTS_MAX, LOG_WINDOW_MS};

use super::events::AUDIT;
use super::line::Line;

/// When an event has too many subjects, its further lines share this one. No line has an empty subject of its own.
const OTHERS: &str = "";

/// The time windows of all subjects.
#[derive(Debug, Default)]
pub(crate) struct RepeatLimiter {
    windows: BTreeMap<(&'static str, String), Window>,
}

#[derive(Debug)]
struct Window {
    ends: Ticks,
    admitted: u32,
    left_out: u64,
    /// The line that reports the count of suppressed lines.
    sample: Line,
}

impl RepeatLimiter {
    /// Returns true if the line may be written. Counts it otherwise.
    pub(crate) fn admit(&mut self, line: &mut Line, now: Ticks) -> bool {
        if AUDIT.iter().any(|event| event.name == line.event) {
            return true;
        }
        let key = self.window_key(line, now);
        let is_others = key.1 == OTHERS;
        let window = self
            .windows
            .entry(key)
            .or_insert_with(|| Window::of(line, is_others, now));
        if window.ends <= now {
            line.left_out = window.left_out;
            *window = Window::of(line, is_others, now);
        }
        if window.admitted < LOG_LINES_MAX {
            window.admitted += 1;
            return true;
        }
        window.left_out += 1;
        false
    }

    fn window_key(&mut self, line: &Line, now: Ticks) -> (&'static str, String) {
        let key = (line.event, line.subject());
        if self.windows.contains_key(&key) {
            return key;
        }
        // Removes windows that ended with nothing to report.
        self.windows
            .retain(|_, window| window.ends > now || window.left_out > 0);
        let of_event = (line.event, String::new())..;
        let subjects = self
            .windows
            .range(of_event)
            .take_while(|((event, _), _)| *event == line.event);
        if subjects.count() < LOG_SUBJECTS_MAX {
            key
        } else {
            (line.event, OTHERS.to_owned())
        }
    }

    /// The time at which the next count is due, unless a line of its subject comes first.
    pub(crate) fn due(&self) -> Option<Ticks> {
        let counting = self.windows.values().filter(|window| window.left_out > 0);
        counting.map(|window| window.ends).min()
    }

    /// Removes ended windows. Returns a line for each count.
    pub(crate) fn take_due(&mut self, now: Ticks) -> Vec<Line> {
        let is_due = |window: &Window| window.ends <= now && window.left_out > 0;
        let to_line = |window: &Window| Line {
            left_out: window.left_out,
            ..window.sample.clone()
        };
        let due = self.windows.values().filter(|it| is_due(it)).map(to_line).collect();
        self.windows.retain(|_, window| !is_due(window));
        due
    }
}

impl Window {
    fn of(line: &Line, is_others: bool, now: Ticks) -> Self {
        let mut sample = line.only_subject();
        sample.left_out = 0;
        if is_others {
            sample.fields.clear();
        }
        Self {
            ends: now.plus_ms(LOG_WINDOW_MS),
            admitted: 0,
            left_out: 0,
            sample,
        }
    }
}

#[cfg(test)]
mod tests {
    use oxbus_model::Ticks;
    use oxbus_model::caps::{LOG_LINES_MAX, LOG_SUBJECTS_MAX, LOG_WINDOW_MS};

    use super::RepeatLimiter;
    use crate::line::Line;
    use crate::line::tests::line;

    fn refused(entity: &str) -> Line {
        line("client.refused", &[("entity", entity), ("count", "1")])
    }

    fn let_through(limiter: &mut RepeatLimiter, lines: impl Iterator<Item = Line>, now: Ticks) -> usize {
        lines
            .filter_map(|mut line| limiter.admit(&mut line, now).then_some(()))
            .count()
    }

    #[test]
    fn a_few_of_a_thousand_lines_are_admitted_and_the_others_counted() {
        let mut limiter = RepeatLimiter::default();
        let now = Ticks(1_000);
        let written = let_through(&mut limiter, (0..1_000).map(|_| refused("orders")), now);
        assert_eq!(written, LOG_LINES_MAX as usize);
        assert_eq!(limiter.due(), Some(now.plus_ms(LOG_WINDOW_MS)));
        assert_eq!(limiter.take_due(now), []);
        let said = limiter.take_due(now.plus_ms(LOG_WINDOW_MS));
        let [line] = &said[..] else { panic!("{said:?}") };
        assert_eq!(line.to_string(), "client.refused entity=orders left_out=995");
        assert_eq!(limiter.due(), None);
    }

    #[test]
    fn the_first_line_of_the_next_window_reports_the_count() {
        let mut limiter = RepeatLimiter::default();
        let_through(&mut limiter, (0..7).map(|_| refused("orders")), Ticks(0));
        let mut next = refused("orders");
        assert!(limiter.admit(&mut next, Ticks(LOG_WINDOW_MS)));
        assert_eq!(next.left_out, 2);
        assert_eq!(limiter.take_due(Ticks(3 * LOG_WINDOW_MS)), [], "reported once");
    }

    #[test]
    fn subjects_and_events_are_counted_separately() {
        let mut limiter = RepeatLimiter::default();
        for entity in ["orders", "bills"] {
            assert_eq!(let_through(&mut limiter, (0..9).map(|_| refused(entity)), Ticks(0)), 5);
        }
        let other = (0..9).map(|_| line("quota.exceeded", &[("entity", "orders")]));
        assert_eq!(let_through(&mut limiter, other, Ticks(0)), 5);
        assert_eq!(limiter.take_due(Ticks(LOG_WINDOW_MS)).len(), 3);
    }

    #[test]
    fn many_invented_names_share_one_count() {
        let mut limiter = RepeatLimiter::default();
        let names = (0..10_000).map(|number| refused(&format!("entity-{number}")));
        let written = let_through(&mut limiter, names, Ticks(0));
        assert_eq!(written, LOG_SUBJECTS_MAX + LOG_LINES_MAX as usize);
        assert_eq!(limiter.windows.len(), LOG_SUBJECTS_MAX + 1);
        let said = limiter.take_due(Ticks(LOG_WINDOW_MS));
        let [line] = &said[..] else { panic!("{said:?}") };
        let left_out = 10_000 - LOG_SUBJECTS_MAX - LOG_LINES_MAX as usize;
        assert_eq!(line.to_string(), format!("client.refused left_out={left_out}"));
    }

    #[test]
    fn ended_windows_free_their_places() {
        let mut limiter = RepeatLimiter::default();
        for window in 0..3 {
            let names = (0..LOG_SUBJECTS_MAX).map(|number| refused(&format!("entity-{window}-{number}")));
            assert_eq!(
                let_through(&mut limiter, names, Ticks(window * LOG_WINDOW_MS)),
                LOG_SUBJECTS_MAX
            );
        }
        assert_eq!(limiter.windows.len(), LOG_SUBJECTS_MAX);
    }
}
