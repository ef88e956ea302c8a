// SPDX-License-Identifier: Apache-2.0
//! Names of entities: validated once, compared without case, shown as they were given (B-016 … B-018).

use crate::caps::ENTITY_PATH_CHARS_MAX;
use crate::{Error, ErrorKind, Result};

/// A valid queue path.
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
        Ok(Self {
            shown: path.to_owned(),
            key: Self::key_of(path),
        })
    }

    /// The form under which names are equal.
    pub fn key_of(path: &str) -> String {
        path.to_ascii_lowercase()
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SubQueue {
    /// The entity itself.
    Main,
    /// `$DeadLetterQueue`.
    DeadLetter,
}
