// SPDX-License-Identifier: Apache-2.0
//! SQL filters (B-361 … B-375).

use std::fmt;

use oxbus_model::caps::FILTER_TEXT_CHARS_MAX;
use oxbus_model::message::Fields;
use oxbus_model::rules::OwnedValue;
use oxbus_model::{Error, ErrorKind, Result, Timestamp};

use super::RuleInput;
use super::sql_parser::Parser;
use super::sql_tree::Predicate;
use super::view::MessageView;

/// A predicate over the properties of a message.
#[derive(Debug, Clone, PartialEq)]
pub struct SqlFilter {
    predicate: Predicate,
}

impl SqlFilter {
    /// Parses a filter. `parameters` are the values of its `@names`, with or without the `@` in the name.
    ///
    /// # Errors
    /// `InvalidArgument` if the text is too long (B-043) or has a syntax error. A syntax error names the column,
    /// counted in characters from 1, and the expected token.
    pub fn parse(expression: &str, parameters: &[(String, OwnedValue)]) -> Result<Self> {
        check_length("filter", expression, FILTER_TEXT_CHARS_MAX)?;
        let predicate = Parser::new(expression, parameters)?.filter()?;
        Ok(Self { predicate })
    }

    /// True if the predicate is true for the message, not false or unknown (B-370).
    ///
    /// # Errors
    /// The reason why the filter cannot be evaluated for this message (B-358).
    pub fn selects(&self, input: &RuleInput<'_>) -> std::result::Result<bool, String> {
        self.selects_view(&MessageView::of(input))
    }

    /// [`Self::selects`] for a view of a message.
    #[inline]
    pub(super) fn selects_view(&self, view: &MessageView<'_>) -> std::result::Result<bool, String> {
        Ok(self.predicate.evaluate(view)? == Some(true))
    }

    /// The result if it is the same for every message. Returns `None` if it differs or is an error.
    pub(super) fn constant(&self) -> Option<bool> {
        if !self.predicate.is_constant() {
            return None;
        }
        let fields = Fields::default();
        let nothing = RuleInput {
            fields: &fields,
            enqueued_at: Timestamp(0),
            enqueued_number: None,
            expires_at: Timestamp::NEVER,
            size_bytes: 0,
            delivery_count: 0,
        };
        self.selects(&nothing).ok()
    }

    #[cfg(test)]
    pub(super) fn predicate(&self) -> &Predicate {
        &self.predicate
    }
}

/// The filter in a canonical form, with the values of its parameters.
impl fmt::Display for SqlFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.predicate.fmt(f)
    }
}

/// Fails if a text is too long (B-043).
pub(super) fn check_length(what: &str, text: &str, max: usize) -> Result<()> {
    let characters = text.chars().count();
    if characters > max {
        let detail = format!(
            "a {what} has at most {max} characters; shorten it, or pass long strings as parameters: {characters} characters"
        );
        return Err(Error::new(ErrorKind::InvalidArgument, detail));
    }
    Ok(())
}
