// SPDX-License-Identifier: Apache-2.0
//! The syntax trees of filters and actions, and their text.
//!
//! Invariant: only parentheses, signs, functions and NOT deepen a tree; chains of operators are flat.
//! [`EXPRESSION_DEPTH_MAX`](oxbus_model::caps::EXPRESSION_DEPTH_MAX) thus bounds the stack of every walk and of the
//! drop.

use std::fmt;

use oxbus_model::rules::OwnedValue;

use super::like::Pattern;
use super::operand::{Arithmetic, Comparison};
use super::system_property::SystemProperty;

/// A condition: true, false or unknown for a message (B-361).
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Predicate {
    /// AND of two or more.
    All(Vec<Predicate>),
    /// OR of two or more.
    Any(Vec<Predicate>),
    Not(Box<Predicate>),
    Compare(Expression, Comparison, Expression),
    Null(Property, Negation),
    In(Expression, Vec<Expression>, Negation),
    Like(Expression, Box<LikePattern>, Negation),
    Exists(Property),
}

/// The negation of an operator: `IS NOT NULL`, `NOT IN`, `NOT LIKE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Negation {
    Plain,
    Negated,
}

/// The right side of a LIKE.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum LikePattern {
    /// A constant pattern, parsed with the filter, and the texts of the pattern and the ESCAPE.
    Fixed(Pattern, String, Option<char>),
    /// A pattern that is computed for each message, with the ESCAPE.
    Computed(Expression, Option<Expression>),
}

/// An expression with a value (B-362).
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expression {
    Constant(OwnedValue),
    Property(Property),
    /// `newid()`
    NewId,
    Plus(Box<Expression>),
    Minus(Box<Expression>),
    /// Operators of the same precedence: the first operand, then each operator with its right operand.
    Chain(Box<Expression>, Vec<(Arithmetic, Expression)>),
}

/// A property of the message (B-363).
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Property {
    System(SystemProperty),
    /// An unknown name in the scope `sys`, which is an error on evaluation (B-372).
    UnknownSystem(String),
    User(String),
    /// `property(name)`: an application property whose name is computed.
    Computed(Box<Expression>),
}

impl Expression {
    /// Returns true for a chain of products, false for a chain of sums, and `None` for other expressions.
    fn rank(&self) -> Option<bool> {
        match self {
            Self::Chain(_, rest) => rest.first().map(|(operator, _)| operator.is_product()),
            _ => None,
        }
    }
}

impl Arithmetic {
    /// True if it is `*`, `/` or `%`, which take precedence over `+` and `-`.
    pub(super) fn is_product(self) -> bool {
        matches!(self, Self::Multiply | Self::Divide | Self::Remainder)
    }

    fn sign(self) -> char {
        match self {
            Self::Add => '+',
            Self::Subtract => '-',
            Self::Multiply => '*',
            Self::Divide => '/',
            Self::Remainder => '%',
        }
    }
}

impl Comparison {
    fn sign(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "<>",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }
}

impl fmt::Display for Negation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Negated { "NOT " } else { "" })
    }
}

impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |f: &mut fmt::Formatter<'_>, parts: &[Self], word: &str| {
            let binds_closer = |part: &Self| word == "OR" && matches!(part, Self::All(_));
            for (index, part) in parts.iter().enumerate() {
                if index > 0 {
                    write!(f, " {word} ")?;
                }
                match part {
                    Self::All(_) | Self::Any(_) if !binds_closer(part) => write!(f, "({part})")?,
                    _ => write!(f, "{part}")?,
                }
            }
            Ok(())
        };
        match self {
            Self::All(parts) => joined(f, parts, "AND"),
            Self::Any(parts) => joined(f, parts, "OR"),
            Self::Not(inner) => match **inner {
                Self::All(_) | Self::Any(_) => write!(f, "NOT ({inner})"),
                _ => write!(f, "NOT {inner}"),
            },
            Self::Compare(left, operator, right) => write!(f, "{left} {} {right}", operator.sign()),
            Self::Null(property, negation) => write!(f, "{property} IS {negation}NULL"),
            Self::In(left, choices, negation) => {
                write!(f, "{left} {negation}IN (")?;
                for (index, choice) in choices.iter().enumerate() {
                    write!(f, "{}{choice}", if index > 0 { ", " } else { "" })?;
                }
                f.write_str(")")
            }
            Self::Like(left, pattern, negation) => write!(f, "{left} {negation}LIKE {pattern}"),
            Self::Exists(property) => write!(f, "EXISTS({property})"),
        }
    }
}

impl fmt::Display for LikePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(_, text, None) => f.write_str(&quoted(text)),
            Self::Fixed(_, text, Some(escape)) => {
                write!(f, "{} ESCAPE {}", quoted(text), quoted(&escape.to_string()))
            }
            Self::Computed(pattern, None) => write!(f, "{pattern}"),
            Self::Computed(pattern, Some(escape)) => write!(f, "{pattern} ESCAPE {escape}"),
        }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operand = |f: &mut fmt::Formatter<'_>, inner: &Self, needs_parentheses: bool| {
            if needs_parentheses {
                write!(f, "({inner})")
            } else {
                write!(f, "{inner}")
            }
        };
        match self {
            Self::Constant(value) => constant(f, value),
            Self::Property(property) => write!(f, "{property}"),
            Self::NewId => f.write_str("newid()"),
            Self::Plus(inner) | Self::Minus(inner) => {
                let negates = matches!(self, Self::Minus(_));
                f.write_str(if negates { "-" } else { "+" })?;
                // A minus before digits would be parsed as part of the number.
                let digits = matches!(**inner, Self::Constant(OwnedValue::Int(_) | OwnedValue::Double(_)));
                operand(f, inner, inner.rank().is_some() || digits)
            }
            Self::Chain(first, rest) => {
                let products = self.rank() == Some(true);
                let nested = |inner: &Self| inner.rank().is_some_and(|inner_products| products || !inner_products);
                operand(f, first, nested(first))?;
                for (operator, inner) in rest {
                    write!(f, " {} ", operator.sign())?;
                    operand(f, inner, nested(inner))?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let delimited = |name: &str| format!("[{}]", name.replace(']', "]]"));
        match self {
            Self::System(property) => write!(f, "sys.{}", property.name()),
            Self::UnknownSystem(name) => write!(f, "sys.{}", delimited(name)),
            Self::User(name) => f.write_str(&delimited(name)),
            Self::Computed(name) => write!(f, "property({name})"),
        }
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Formats a constant. A parameter of a type without a literal gets a form that does not parse.
fn constant(f: &mut fmt::Formatter<'_>, value: &OwnedValue) -> fmt::Result {
    match value {
        OwnedValue::Null => f.write_str("NULL"),
        OwnedValue::Bool(it) => f.write_str(if *it { "TRUE" } else { "FALSE" }),
        OwnedValue::Int(it) => write!(f, "{it}"),
        OwnedValue::Double(it) => write!(f, "{it:E}"),
        OwnedValue::Text(it) => f.write_str(&quoted(it)),
        OwnedValue::Bytes(_)
        | OwnedValue::Uuid(_)
        | OwnedValue::Time(_)
        | OwnedValue::TimeWithoutZone(_)
        | OwnedValue::Timespan(_) => write!(f, "@<{value:?}>"),
    }
}
