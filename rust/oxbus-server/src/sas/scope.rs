// SPDX-License-Identifier: Apache-2.0
//! Which part of a namespace an address names: all of it, an entity, or something below one.
//!
//! Scheme, host and port are left out: clients write their own idea of them (`sb://`, `amqps://`, `https://`, with a port or
//! without), and whoever has the key of a namespace has it under each of its names.

use percent_encoding::percent_decode_str;

/// A part of a namespace. Covers what is below it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Scope(String);

/// The entity of an address, as it is written there: that of its management node, too.
pub(super) fn entity_of(address: &str) -> String {
    const MANAGEMENT: &str = "/$management";
    let path = path_of(address);
    let at = path.len().saturating_sub(MANAGEMENT.len());
    match path.split_at_checked(at) {
        Some((entity, end)) if end.eq_ignore_ascii_case(MANAGEMENT) => entity.to_owned(),
        _ => path,
    }
}

/// The path of an address, as it is written there.
fn path_of(address: &str) -> String {
    let path = match address.split_once("://") {
        Some((_, rest)) => rest.split_once('/').map_or("", |(_, path)| path),
        None => address,
    };
    let path = percent_decode_str(path).decode_utf8_lossy();
    path.trim_matches('/').to_owned()
}

impl Scope {
    /// The whole namespace.
    pub fn namespace() -> Self {
        Self(String::new())
    }

    /// Of an address: `sb://host:port/entity`, `entity`, `topic/Subscriptions/name`, with `%2F` or plainly.
    pub fn of_address(address: &str) -> Self {
        Self::of_path(&path_of(address))
    }

    /// Of an address in which every reserved character is escaped, as the `sr` of a token is; `None` when it is no text.
    pub(super) fn of_escaped(address: &str) -> Option<Self> {
        // Python's `quote_plus` writes a space as `+`; no path has either.
        let address = percent_decode_str(address).decode_utf8().ok()?;
        let path = match address.split_once("://") {
            Some((_, rest)) => rest.split_once('/').map_or("", |(_, path)| path),
            // Some clients leave the scheme out; what comes first is the host all the same.
            None => address.split_once('/').map_or("", |(_, path)| path),
        };
        Some(Self::of_path(path))
    }

    fn of_path(path: &str) -> Self {
        let path = path.split(['?', '#']).next().unwrap_or_default();
        let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
        Self(segments.join("/").to_ascii_lowercase())
    }

    /// True when `other` is the same or below it.
    pub fn covers(&self, other: &Self) -> bool {
        self.0.is_empty()
            || other
                .0
                .strip_prefix(&self.0)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Its path without case; empty for the whole namespace.
    pub fn path(&self) -> &str {
        &self.0
    }

    /// Itself and what it is below, without the whole namespace, the nearest first.
    pub(super) fn with_parents(&self) -> impl Iterator<Item = &str> {
        let mut rest = Some(self.0.as_str()).filter(|path| !path.is_empty());
        std::iter::from_fn(move || {
            let path = rest?;
            rest = path.rsplit_once('/').map(|(parent, _)| parent);
            Some(path)
        })
    }
}
