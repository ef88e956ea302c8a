// SPDX-License-Identifier: Apache-2.0
//! SQL actions: SET and REMOVE statements, applied in order to the copy that a rule selected (B-376 … B-380).
//!
//! A statement sees the results of the statements before it. If one fails, the whole action fails and changes nothing.

use oxbus_model::Result;
use oxbus_model::caps::{ACTION_EXPRESSIONS_MAX, ACTION_TEXT_CHARS_MAX};
use oxbus_model::message::Value;
use oxbus_model::rules::{ActionSettings, OwnedValue};
use oxbus_store::Record;

use super::copy_draft::CopyDraft;
use super::sql_eval::unknown_property;
use super::sql_filter::check_length;
use super::sql_lexer::syntax_error;
use super::sql_parser::Parser;
use super::sql_tree::{Expression, Property};
use super::view::MessageView;

/// Application property of a changed copy: the name of the rule (B-348).
pub(super) const RULE_NAME: &str = "RuleName";

/// A parsed action.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SqlAction(Vec<Statement>);

#[derive(Debug, Clone, PartialEq)]
enum Statement {
    Set(Property, Expression),
    Remove(Property),
}

impl SqlAction {
    /// Parses an action. Statements are separated by `;`, by `,`, or by nothing.
    pub(super) fn parse(settings: &ActionSettings) -> Result<Self> {
        check_length("action", &settings.expression, ACTION_TEXT_CHARS_MAX)?;
        let mut parser = Parser::new(&settings.expression, &settings.parameters)?;
        let mut statements = Vec::new();
        loop {
            if statements.len() == ACTION_EXPRESSIONS_MAX && !parser.is_at_end() {
                return Err(parser.expected(format_args!("at most {ACTION_EXPRESSIONS_MAX} expressions")));
            }
            statements.push(statement(&mut parser)?);
            let continues = parser.accept_sign(",")?;
            let ends = !continues && parser.accept_sign(";")?;
            if parser.is_at_end() && (ends || !continues) {
                return Ok(Self(statements));
            }
        }
    }

    /// Returns the copy that the action makes for the rule of that name.
    pub(super) fn apply(&self, view: &MessageView<'_>, rule_name: &str) -> std::result::Result<Record, String> {
        let mut draft = CopyDraft::of(view);
        for statement in &self.0 {
            match statement {
                Statement::Set(property, expression) => {
                    let value = draft.with_view(|view| expression.evaluate(view).map(OwnedValue::from))?;
                    match property {
                        Property::System(property) => draft.set_system(*property, &value)?,
                        Property::User(name) => draft.set_user(name, value),
                        other => return Err(not_writable(other)),
                    }
                }
                Statement::Remove(Property::System(property)) => draft.set_system(*property, &OwnedValue::Null)?,
                Statement::Remove(Property::User(name)) => draft.remove_user(name),
                Statement::Remove(other) => return Err(not_writable(other)),
            }
        }
        Ok(draft.record((RULE_NAME, Value::Text(rule_name))))
    }
}

fn statement(parser: &mut Parser<'_>) -> Result<Statement> {
    if parser.accept_word("REMOVE")? {
        return target(parser).map(Statement::Remove);
    }
    if !parser.accept_word("SET")? {
        return Err(parser.expected("SET or REMOVE"));
    }
    let property = target(parser)?;
    if !parser.accept_sign("=")? {
        return Err(parser.expected("`=`"));
    }
    Ok(Statement::Set(property, parser.expression()?))
}

/// Parses the target of a statement. An unknown system property is accepted, but fails when the action runs (B-378).
fn target(parser: &mut Parser<'_>) -> Result<Property> {
    match parser.target()? {
        (column, Property::System(property)) if !property.is_writable() => {
            let name = property.name();
            Err(syntax_error(
                column,
                format_args!("expected a property that an action may write, found `sys.{name}`"),
            ))
        }
        (_, property) => Ok(property),
    }
}

fn not_writable(property: &Property) -> String {
    match property {
        Property::UnknownSystem(name) => unknown_property(name),
        other => format!("an action cannot write {other}"),
    }
}
