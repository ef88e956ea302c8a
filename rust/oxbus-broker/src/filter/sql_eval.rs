// SPDX-License-Identifier: Apache-2.0
//! Evaluates a tree for a message: true, false or unknown (B-370). `None` is unknown.
//!
//! As in C#, AND and OR evaluate their parts from left to right and stop once the result is known. A part that is not
//! evaluated cannot fail.

use std::borrow::Cow;

use super::like::Pattern;
use super::operand::{Comparison, Operand};
use super::sql_tree::{Expression, LikePattern, Negation, Predicate, Property};
use super::view::MessageView;
use crate::clock::random_bytes;

impl Predicate {
    /// Evaluates the predicate. The errors are those of B-358.
    pub(super) fn evaluate(&self, view: &MessageView<'_>) -> Result<Option<bool>, String> {
        match self {
            Self::All(parts) => decide(parts, view, false),
            Self::Any(parts) => decide(parts, view, true),
            Self::Not(inner) => Ok(inner.evaluate(view)?.map(|holds| !holds)),
            Self::Compare(left, comparison, right) => {
                let left = left.evaluate(view)?;
                Ok(left.compare(*comparison, &right.evaluate(view)?))
            }
            Self::Null(property, negation) => {
                let is_null = property.evaluate(view)? == Operand::Null;
                Ok(Some(negation.apply(is_null)))
            }
            Self::In(left, choices, negation) => evaluate_in(left, choices, *negation, view),
            Self::Like(left, pattern, negation) => {
                let left = left.evaluate(view)?;
                Ok(pattern.matches(&left, view)?.map(|matches| negation.apply(matches)))
            }
            Self::Exists(property) => property.exists(view).map(Some),
        }
    }

    /// True if the result is the same for every message.
    pub(super) fn is_constant(&self) -> bool {
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().all(Self::is_constant),
            Self::Not(inner) => inner.is_constant(),
            Self::Compare(left, _, right) => left.is_constant() && right.is_constant(),
            Self::In(left, choices, _) => left.is_constant() && choices.iter().all(Expression::is_constant),
            Self::Like(left, pattern, _) => left.is_constant() && matches!(**pattern, LikePattern::Fixed(..)),
            Self::Null(..) | Self::Exists(_) => false,
        }
    }
}

impl Negation {
    fn apply(self, holds: bool) -> bool {
        holds ^ (self == Self::Negated)
    }
}

/// The result is `decisive` if one part is, its opposite if all parts are the opposite, else unknown.
fn decide(parts: &[Predicate], view: &MessageView<'_>, decisive: bool) -> Result<Option<bool>, String> {
    let mut all_known = true;
    for part in parts {
        match part.evaluate(view)? {
            Some(holds) if holds == decisive => return Ok(Some(decisive)),
            Some(_) => {}
            None => all_known = false,
        }
    }
    Ok(all_known.then_some(!decisive))
}

/// The result is unknown only if the left side is null (B-370). A choice that is null or of another type is not equal.
fn evaluate_in(
    left: &Expression,
    choices: &[Expression],
    negation: Negation,
    view: &MessageView<'_>,
) -> Result<Option<bool>, String> {
    let left = left.evaluate(view)?;
    if left == Operand::Null {
        return Ok(None);
    }
    for choice in choices {
        if left.compare(Comparison::Equal, &choice.evaluate(view)?) == Some(true) {
            return Ok(Some(negation.apply(true)));
        }
    }
    Ok(Some(negation.apply(false)))
}

impl LikePattern {
    fn matches(&self, left: &Operand<'_>, view: &MessageView<'_>) -> Result<Option<bool>, String> {
        let Operand::Text(text) = left else { return Ok(None) };
        match self {
            Self::Fixed(pattern, ..) => Ok(Some(pattern.matches(text))),
            Self::Computed(pattern, escape) => {
                let escape = match escape.as_ref().map(|escape| escape.evaluate(view)).transpose()? {
                    None => None,
                    Some(Operand::Null) => return Ok(None),
                    Some(Operand::Text(text)) => Some(Pattern::escape(&text)?),
                    Some(_) => return Err("ESCAPE takes a string of one character".to_owned()),
                };
                match pattern.evaluate(view)? {
                    Operand::Text(pattern) => Ok(Some(Pattern::read(&pattern, escape)?.matches(text))),
                    _ => Ok(None),
                }
            }
        }
    }
}

impl Expression {
    /// Its value for a message.
    #[inline]
    pub(super) fn evaluate<'v>(&'v self, view: &'v MessageView<'_>) -> Result<Operand<'v>, String> {
        match self {
            Self::Constant(value) => Ok(value.as_value().into()),
            Self::Property(property) => property.evaluate(view),
            Self::NewId => new_id(),
            Self::Plus(inner) => Ok(inner.evaluate(view)?.number()),
            Self::Minus(inner) => Ok(inner.evaluate(view)?.negate()),
            Self::Chain(first, rest) => {
                let mut value = first.evaluate(view)?;
                for (operator, operand) in rest {
                    value = value.calculate(*operator, operand.evaluate(view)?)?;
                }
                Ok(value)
            }
        }
    }

    fn is_constant(&self) -> bool {
        match self {
            Self::Constant(_) => true,
            Self::Property(_) | Self::NewId => false,
            Self::Plus(inner) | Self::Minus(inner) => inner.is_constant(),
            Self::Chain(first, rest) => first.is_constant() && rest.iter().all(|(_, operand)| operand.is_constant()),
        }
    }
}

impl Property {
    #[inline]
    fn evaluate<'v>(&'v self, view: &'v MessageView<'_>) -> Result<Operand<'v>, String> {
        match self {
            Self::User(name) => Ok(view.user(name).map_or(Operand::Null, Operand::from)),
            Self::System(property) => Ok(view.system(*property)),
            Self::UnknownSystem(name) => Err(unknown_property(name)),
            Self::Computed(name) => {
                let name = computed_name(name, view)?;
                Ok(name
                    .and_then(|name| view.user(&name))
                    .map_or(Operand::Null, Operand::from))
            }
        }
    }

    /// True if the property exists (B-371). An application property with a null value exists. A system property exists
    /// if it is set.
    fn exists(&self, view: &MessageView<'_>) -> Result<bool, String> {
        match self {
            Self::User(name) => Ok(view.user(name).is_some()),
            Self::System(property) => Ok(view.system(*property) != Operand::Null),
            Self::UnknownSystem(name) => Err(unknown_property(name)),
            Self::Computed(name) => Ok(computed_name(name, view)?.is_some_and(|name| view.user(&name).is_some())),
        }
    }
}

/// Returns the name in `property(…)`, or `None` if it is unknown or not a string.
fn computed_name<'v>(name: &'v Expression, view: &'v MessageView<'_>) -> Result<Option<Cow<'v, str>>, String> {
    match name.evaluate(view)? {
        Operand::Text(name) => Ok(Some(name)),
        _ => Ok(None),
    }
}

/// The error text of B-372.
pub(super) fn unknown_property(name: &str) -> String {
    format!("the broker has no property `sys.{name}`")
}

/// A random UUID: version 4, variant 1.
fn new_id<'v>() -> Result<Operand<'v>, String> {
    let mut bytes = random_bytes::<16>().map_err(|error| error.to_string())?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Ok(Operand::Uuid(bytes))
}
