// SPDX-License-Identifier: Apache-2.0
//! Pages of lists (B-457).

use oxbus_model::caps::ATOM_PAGE_MAX;

use crate::http::error::HttpError;
use crate::http::query::QueryString;

/// `$skip` and `$top`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) skip: usize,
    pub(super) top: usize,
}

impl Page {
    pub(super) fn of(parameters: &QueryString) -> Result<Self, HttpError> {
        let number = |name: &str, default: usize| match parameters.get(name) {
            None => Ok(default),
            Some(text) => text.parse::<usize>().map_err(|_| {
                HttpError::bad_request(format!("{name} must be a whole number that is not negative: `{text}`"))
            }),
        };
        let top = number("$top", ATOM_PAGE_MAX)?;
        if top == 0 {
            return Err(HttpError::bad_request(format!(
                "$top must be 1 to {ATOM_PAGE_MAX}: `0`"
            )));
        }
        Ok(Self {
            skip: number("$skip", 0)?,
            // A larger value is not an error: clients follow the link to the next page.
            top: top.min(ATOM_PAGE_MAX),
        })
    }

    /// Returns this page of a list, and the next page if there is one.
    pub(super) fn cut<T>(self, mut all: Vec<T>) -> (Vec<T>, Option<Self>) {
        let is_last = self.skip.saturating_add(self.top) >= all.len();
        let next = Self {
            skip: self.skip.saturating_add(self.top),
            top: self.top,
        };
        let mut found = all.split_off(self.skip.min(all.len()));
        found.truncate(self.top);
        (found, (!is_last).then_some(next))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Page;

    proptest! {
        #[test]
        fn pages_cover_a_list_once_and_in_order(count in 0usize..500, top in 1usize..101) {
            let all: Vec<usize> = (0..count).collect();
            let mut seen = Vec::new();
            let mut page = Some(Page { skip: 0, top });
            while let Some(at) = page {
                let (found, next) = at.cut(all.clone());
                seen.extend(found);
                page = next;
            }
            prop_assert_eq!(seen, all);
        }
    }
}
