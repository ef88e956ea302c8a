// SPDX-License-Identifier: Apache-2.0
//! Names of entities: validated once, compared without case, shown as they were given (B-016 … B-018).

use crate::caps::{ENTITY_PATH_CHARS_MAX, SUBSCRIPTION_CHARS_MAX};
use crate::{Error, ErrorKind, Result};

/// Between the path of a topic and the name of a subscription (B-020).
const SUBSCRIPTIONS: &str = "/Subscriptions/";
/// Behind the path of an entity whose dead-letter queue is meant (B-259).
const DEAD_LETTER_QUEUE: &str = "/$deadletterqueue";

/// A valid entity path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityName {
    shown: String,
    key: String,
}

impl EntityName {
    /// Checks a path: segments of letters, digits, `.`, `-`, `_`, joined by single `/`.
    pub fn parse(path: &str) -> Result<Self> {
        let wrong = |why: &str| {
            let detail = format!(
                "an entity name {why}; use 1 to {ENTITY_PATH_CHARS_MAX} of A-Z a-z 0-9 . _ - and / between segments: `{path}`"
            );
            Err(Error::new(ErrorKind::InvalidArgument, detail))
        };
        if path.is_empty() {
            return wrong("cannot be empty");
        }
        if path.len() > ENTITY_PATH_CHARS_MAX {
            return wrong("is too long");
        }
        if !path
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte))
        {
            return wrong("has a character that is not allowed");
        }
        if path.split('/').any(str::is_empty) {
            return wrong("has an empty segment");
        }
        if path
            .split('/')
            .any(|segment| segment.eq_ignore_ascii_case("subscriptions"))
        {
            return wrong("has a segment `Subscriptions`, which leads to the subscriptions of a topic");
        }
        Ok(Self {
            shown: path.to_owned(),
            key: Self::key_of(path),
        })
    }

    /// The path of a subscription of a topic (B-020). Its own name has no segments (B-017).
    pub fn subscription(topic: &Self, name: &str) -> Result<Self> {
        Self::check_segment(name)?;
        let shown = format!("{}{SUBSCRIPTIONS}{name}", topic.shown);
        Ok(Self {
            key: Self::key_of(&shown),
            shown,
        })
    }

    /// Checks the name of a subscription or of a rule: one segment.
    pub fn check_segment(name: &str) -> Result<()> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if !name.is_empty() && name.len() <= SUBSCRIPTION_CHARS_MAX && name.bytes().all(allowed) {
            return Ok(());
        }
        let detail = format!(
            "not a name of a subscription or rule; use 1 to {SUBSCRIPTION_CHARS_MAX} of A-Z a-z 0-9 . _ -: `{name}`"
        );
        Err(Error::new(ErrorKind::InvalidArgument, detail))
    }

    /// The path again, as it stands in a catalog.
    pub fn from_catalog(path: &str) -> Result<Self> {
        match path.rsplit_once(SUBSCRIPTIONS) {
            Some((topic, name)) => Self::subscription(&Self::parse(topic)?, name),
            None => Self::parse(path),
        }
    }

    /// The topic and the subscription of a subscription's path.
    pub fn parts(&self) -> (&str, Option<&str>) {
        self.shown
            .rsplit_once(SUBSCRIPTIONS)
            .map_or((&self.shown, None), |(topic, name)| (topic, Some(name)))
    }

    /// The form under which names are equal.
    pub fn key_of(path: &str) -> String {
        path.to_ascii_lowercase()
    }

    /// The path of an entity, and which of its streams a path names.
    pub fn split_sub_queue(path: &str) -> (&str, SubQueue) {
        let at = path.len().saturating_sub(DEAD_LETTER_QUEUE.len());
        match path.split_at_checked(at) {
            Some((entity, last)) if last.eq_ignore_ascii_case(DEAD_LETTER_QUEUE) => (entity, SubQueue::DeadLetter),
            _ => (path, SubQueue::Main),
        }
    }

    /// As it was given.
    pub fn as_str(&self) -> &str {
        &self.shown
    }

    /// The form under which names are equal.
    pub fn key(&self) -> &str {
        &self.key
    }
}

/// Which message stream of an entity (B-259).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SubQueue {
    /// The entity itself.
    Main,
    /// `$DeadLetterQueue`.
    DeadLetter,
}
