// SPDX-License-Identifier: Apache-2.0
//! Rules and fan-out (B-343 … B-375).

use super::World;
use super::arrival::Arrival;
use super::message::{Content, FirstNumber, NEVER};

/// The filter of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// Every message.
    True,
    /// No message.
    False,
    /// This subject.
    Subject(String),
    /// This value of `color`, as a correlation filter.
    Color(String),
    /// One of [`SQL`].
    Sql(usize),
}

/// A rule of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Its name.
    pub name: String,
    /// Its filter.
    pub filter: Filter,
    /// True if it has an action, and so makes its own copy (B-348).
    pub acts: bool,
}

/// True, false or unknown (B-370).
type Truth = Option<bool>;

/// A SQL filter and its meaning.
type Meaning = (&'static str, fn(&Content) -> Truth);

/// SQL filters with their meaning in three-valued logic, worked out by hand.
pub const SQL: [Meaning; 9] = [
    ("n > 2", |it| it.n.map(|n| n > 2)),
    ("NOT (n > 2)", |it| it.n.map(|n| n <= 2)),
    ("color = 'red' OR n = 1", |it| {
        or(it.color.as_ref().map(|color| color == "red"), it.n.map(|n| n == 1))
    }),
    ("color = 'red' AND n < 3", |it| {
        and(it.color.as_ref().map(|color| color == "red"), it.n.map(|n| n < 3))
    }),
    ("n IS NULL", |it| Some(it.n.is_none())),
    ("color IN ('red', 'blue')", |it| {
        it.color.as_ref().map(|color| color == "red" || color == "blue")
    }),
    ("color LIKE '%e%' AND NOT EXISTS(n)", |it| {
        and(it.color.as_ref().map(|color| color.contains('e')), Some(it.n.is_none()))
    }),
    ("sys.Label = 'x' OR n + 1 = 4", |it| {
        or(it.subject.as_ref().map(|subject| subject == "x"), it.n.map(|n| n == 3))
    }),
    ("n <> 0 AND color NOT LIKE 'r__'", |it| {
        and(it.n.map(|n| n != 0), it.color.as_ref().map(|color| color != "red"))
    }),
];

fn and(a: Truth, b: Truth) -> Truth {
    match (a, b) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

fn or(a: Truth, b: Truth) -> Truth {
    match (a, b) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ => None,
    }
}

impl Filter {
    /// True if it selects a message. An unknown result does not select (B-370).
    pub fn selects(&self, content: &Content) -> bool {
        match self {
            Self::True => true,
            Self::False => false,
            Self::Subject(wanted) => content.subject.as_ref() == Some(wanted),
            Self::Color(wanted) => content.color.as_ref() == Some(wanted),
            Self::Sql(which) => (SQL[*which].1)(content) == Some(true),
        }
    }
}

impl World {
    /// Adds the copies of each subscription (B-347 … B-349). `number` is the number in the topic, if it is known.
    pub(super) fn fan_out(
        &mut self,
        topic: usize,
        content: &Content,
        number: Option<u64>,
        partition: Option<u64>,
        at: u64,
        life: u64,
    ) {
        // The number of the message at its first entity.
        let first_number = match (content.first_number, number) {
            (FirstNumber::None, None) => FirstNumber::Unseen,
            (FirstNumber::None, Some(number)) => FirstNumber::Known(number),
            (known, _) => known,
        };
        for at_subscription in self.subscriptions(topic) {
            let subscription = &mut self.entities[at_subscription];
            let settings = &subscription.settings;
            let life = life.min(settings.default_time_to_live_ms.unwrap_or(NEVER));
            // An expired message expires, even if it would be dead-lettered for its missing session.
            let is_late = at.saturating_add(life) <= self.now;
            let dead = settings.requires_session && content.session.is_none() && !is_late;
            let selecting: Vec<&Rule> = subscription
                .rules
                .iter()
                .filter(|rule| rule.filter.selects(content))
                .collect();
            let shared = selecting.iter().any(|rule| !rule.acts).then_some(None);
            let own = selecting
                .iter()
                .filter(|rule| rule.acts)
                .map(|rule| Some(rule.name.clone()));
            let copies: Vec<Option<String>> = shared.into_iter().chain(own).collect();
            for rule in copies {
                let copy = Content {
                    first_number,
                    rule: rule.or_else(|| content.rule.clone()),
                    ..content.clone()
                };
                subscription.arrivals.push(Arrival {
                    content: copy.dead_lettered_without_session(dead),
                    partition,
                    enqueued_at: at,
                    expires_at: at.saturating_add(life),
                    dead,
                });
            }
        }
    }
}
