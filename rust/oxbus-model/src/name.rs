// SPDX-License-Identifier: Apache-2.0
//! Entity names: validated once, compared without case, shown as given (B-016 … B-018).

use crate::caps::{ENTITY_PATH_CHARS_MAX, SUBSCRIPTION_CHARS_MAX};
use crate::{Error, ErrorKind, Result};

/// Separates the path of a topic from the name of a subscription (B-020).
const SUBSCRIPTIONS: &str = "/Subscriptions/";
/// Suffix of the path of a dead-letter queue (B-259).
const DEAD_LETTER_QUEUE: &str = "/$deadletterqueue";

/// A valid entity path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityName {
    path: String,
    key: String,
}

impl EntityName {
    /// Validates a path: segments of letters, digits, `.`, `-`, `_`, joined by single `/`.
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
            return wrong("has a segment `Subscriptions`, which is reserved for the subscriptions of a topic");
        }
        Ok(Self {
            path: path.to_owned(),
            key: Self::key_of(path),
        })
    }

    /// The path of a topic's subscription (B-020), whose name is one segment (B-017).
    pub fn subscription(topic: &Self, name: &str) -> Result<Self> {
        Self::check_segment(name)?;
        let path = format!("{}{SUBSCRIPTIONS}{name}", topic.path);
        Ok(Self {
            key: Self::key_of(&path),
            path,
        })
    }

    /// Validates the name of a subscription or a rule: one segment.
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

    /// Reads a path from the catalog.
    pub fn from_catalog(path: &str) -> Result<Self> {
        match path.rsplit_once(SUBSCRIPTIONS) {
            Some((topic, name)) => Self::subscription(&Self::parse(topic)?, name),
            None => Self::parse(path),
        }
    }

    /// The topic's path and the subscription's name, or the whole path and `None` if it is not a subscription.
    pub fn parts(&self) -> (&str, Option<&str>) {
        self.path
            .rsplit_once(SUBSCRIPTIONS)
            .map_or((&self.path, None), |(topic, name)| (topic, Some(name)))
    }

    /// The form in which paths that differ only in case are equal.
    pub fn key_of(path: &str) -> String {
        path.to_ascii_lowercase()
    }

    /// Splits a path into the entity's path and the sub-queue.
    pub fn split_sub_queue(path: &str) -> (&str, SubQueue) {
        let at = path.len().saturating_sub(DEAD_LETTER_QUEUE.len());
        match path.split_at_checked(at) {
            Some((entity, last)) if last.eq_ignore_ascii_case(DEAD_LETTER_QUEUE) => (entity, SubQueue::DeadLetter),
            _ => (path, SubQueue::Main),
        }
    }

    /// The path as given.
    pub fn as_str(&self) -> &str {
        &self.path
    }

    /// The form in which paths that differ only in case are equal.
    pub fn key(&self) -> &str {
        &self.key
    }
}

/// A message stream of an entity (B-259).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SubQueue {
    /// The entity itself.
    Main,
    /// `$DeadLetterQueue`.
    DeadLetter,
}
