// SPDX-License-Identifier: Apache-2.0
//! Pages of a long list: search, sort, and cut on the server.

use serde::{Deserialize, Serialize};

/// Rows of a page.
pub(super) const ROWS_MAX: usize = 100;

/// What a page of a list asks for. A `-` before the name of a column sorts downwards. Pages count from 1.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PageQuery {
    pub(super) search: String,
    pub(super) sort: String,
    pub(super) page: usize,
}

/// A page of rows.
#[derive(Debug, Serialize)]
#[expect(clippy::struct_field_names, reason = "the fields are those of the JSON")]
pub(super) struct Page<T> {
    pub(super) rows: Vec<T>,
    pub(super) found: usize,
    pub(super) page: usize,
    pub(super) pages: usize,
}

impl PageQuery {
    /// The column to sort by, and true for downwards.
    pub(super) fn order(&self) -> (&str, bool) {
        self.sort
            .strip_prefix('-')
            .map_or((self.sort.as_str(), false), |column| (column, true))
    }

    /// True if a text contains the search, whatever the case.
    pub(super) fn finds(&self, text: &str) -> bool {
        self.search.is_empty() || text.to_lowercase().contains(&self.search.to_lowercase())
    }

    /// The requested page, or the last one.
    pub(super) fn cut<T>(&self, rows: impl ExactSizeIterator<Item = T>) -> Page<T> {
        let found = rows.len();
        let pages = found.div_ceil(ROWS_MAX).max(1);
        let page = self.page.clamp(1, pages);
        Page {
            rows: rows.skip((page - 1) * ROWS_MAX).take(ROWS_MAX).collect(),
            found,
            page,
            pages,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PageQuery;

    #[test]
    fn a_page_beyond_the_last_is_the_last() {
        let of = |page| PageQuery {
            page,
            ..PageQuery::default()
        };
        let all: Vec<usize> = (0..250).collect();
        let third = of(9).cut(all.iter());
        assert_eq!(
            (third.rows.len(), third.page, third.pages, third.found),
            (50, 3, 3, 250)
        );
        assert_eq!(*of(0).cut(all.iter()).rows[0], 0);
        assert_eq!(of(1).cut(std::iter::empty::<u8>()).pages, 1);
    }
}
