// SPDX-License-Identifier: Apache-2.0
//! The part of a namespace that an address names: all of it, an entity, or a resource below one.
//!
//! Scheme, host and port are ignored: clients write them differently (`sb://`, `amqps://`, `https://`, with or without
//! a port), and a key of a namespace is valid under each of its host names.

use percent_encoding::percent_decode_str;

/// A part of a namespace, including everything below it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Scope(String);

/// The entity of an address as written, without a `/$management` suffix.
pub(super) fn entity_of(address: &str) -> String {
    const MANAGEMENT: &str = "/$management";
    let path = path_of(address);
    let at = path.len().saturating_sub(MANAGEMENT.len());
    match path.split_at_checked(at) {
        Some((entity, end)) if end.eq_ignore_ascii_case(MANAGEMENT) => entity.to_owned(),
        _ => path,
    }
}

/// The path of an address as written.
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

    /// The scope of an address: `sb://host:port/entity`, `entity`, `topic/Subscriptions/name`, escaped or not.
    pub fn of_address(address: &str) -> Self {
        Self::of_path(&path_of(address))
    }

    /// The scope of a fully escaped address, such as the `sr` of a token, and `None` if it is not valid UTF-8.
    pub(super) fn of_escaped(address: &str) -> Option<Self> {
        // A `+` may stand for a space (Python's `quote_plus`). It stays as it is: no path contains either.
        let address = percent_decode_str(address).decode_utf8().ok()?;
        let path = match address.split_once("://") {
            Some((_, rest)) => rest.split_once('/').map_or("", |(_, path)| path),
            // Some clients omit the scheme, but the host still comes first.
            None => address.split_once('/').map_or("", |(_, path)| path),
        };
        Some(Self::of_path(path))
    }

    fn of_path(path: &str) -> Self {
        let path = path.split(['?', '#']).next().unwrap_or_default();
        let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
        Self(segments.join("/").to_ascii_lowercase())
    }

    /// True if `other` is this scope or below it.
    pub fn covers(&self, other: &Self) -> bool {
        self.0.is_empty()
            || other
                .0
                .strip_prefix(&self.0)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// The path in lower case. Empty for the whole namespace.
    pub fn path(&self) -> &str {
        &self.0
    }

    /// This scope and its parents, without the whole namespace, the nearest first.
    pub(super) fn with_parents(&self) -> impl Iterator<Item = &str> {
        let mut rest = Some(self.0.as_str()).filter(|path| !path.is_empty());
        std::iter::from_fn(move || {
            let path = rest?;
            rest = path.rsplit_once('/').map(|(parent, _)| parent);
            Some(path)
        })
    }
}
