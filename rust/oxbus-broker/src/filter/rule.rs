// SPDX-License-Identifier: Apache-2.0
//! A compiled rule of a subscription.

use oxbus_model::caps::RULE_NAME_CHARS_MAX;
use oxbus_model::rules::{FilterSettings, RuleSettings};
use oxbus_model::{Error, ErrorKind, Result};

use super::RuleInput;
use super::correlation::CorrelationFilter;
use super::sql_action::SqlAction;
use super::sql_filter::SqlFilter;
use super::view::MessageView;

/// A compiled rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    name: String,
    pub(super) filter: RuleFilter,
    pub(super) action: Option<SqlAction>,
}

/// The filter of a rule.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum RuleFilter {
    All,
    Nothing,
    Sql(SqlFilter),
    Correlation(CorrelationFilter),
}

impl Rule {
    /// Compiles a rule.
    ///
    /// # Errors
    /// `InvalidArgument` if the filter or the action is invalid (B-359). A syntax error names the column, counted in
    /// characters from 1, and the expected token.
    pub fn compile(settings: &RuleSettings) -> Result<Self> {
        let name = &settings.name;
        let characters = name.chars().count();
        if !(1..=RULE_NAME_CHARS_MAX).contains(&characters) {
            let detail = format!(
                "the name of a rule must have 1 to {RULE_NAME_CHARS_MAX} characters; choose another: rule=`{name}`"
            );
            return Err(Error::new(ErrorKind::InvalidArgument, detail));
        }
        if name.contains(['/', '\\']) {
            let detail =
                format!("the name of a rule must not contain a slash or backslash; choose another: rule=`{name}`");
            return Err(Error::new(ErrorKind::InvalidArgument, detail));
        }
        let of_rule =
            |part: &str, error: &Error| Error::new(error.kind(), format!("invalid {part}: {error}; rule=`{name}`"));
        let filter = match &settings.filter {
            FilterSettings::True => Ok(RuleFilter::All),
            FilterSettings::False => Ok(RuleFilter::Nothing),
            FilterSettings::Sql { expression, parameters } => {
                // SDKs send a true filter as `1=1` (B-355).
                SqlFilter::parse(expression, parameters).map(|sql| match sql.constant() {
                    Some(true) => RuleFilter::All,
                    Some(false) => RuleFilter::Nothing,
                    None => RuleFilter::Sql(sql),
                })
            }
            FilterSettings::Correlation(correlation) => {
                CorrelationFilter::compile(correlation).map(RuleFilter::Correlation)
            }
        };
        let action = settings.action.as_ref().map(SqlAction::parse).transpose();
        Ok(Self {
            name: name.clone(),
            filter: filter.map_err(|error| of_rule("filter", &error))?,
            action: action.map_err(|error| of_rule("action", &error))?,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True if its filter selects the message.
    ///
    /// # Errors
    /// The reason why the filter cannot be evaluated for this message (B-358).
    pub fn selects(&self, input: &RuleInput<'_>) -> std::result::Result<bool, String> {
        match &self.filter {
            RuleFilter::All => Ok(true),
            RuleFilter::Nothing => Ok(false),
            RuleFilter::Sql(filter) => filter.selects(input),
            RuleFilter::Correlation(filter) => Ok(filter.selects(&MessageView::of(input))),
        }
    }
}
