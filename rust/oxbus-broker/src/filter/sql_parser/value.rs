// SPDX-License-Identifier: Apache-2.0
//! Values: constants, properties, parameters, functions and calculations (B-362, B-363, B-367, B-368).

use oxbus_model::Result;
use oxbus_model::rules::OwnedValue;

use super::{Parsed, Parser, into_value};
use crate::filter::operand::Arithmetic;
use crate::filter::property_name;
use crate::filter::sql_lexer::{Keyword, SqlToken, syntax_error, too_large};
use crate::filter::sql_tree::{Expression, Predicate, Property};
use crate::filter::system_property::SystemProperty;

impl Parser<'_> {
    pub(super) fn sum(&mut self) -> Result<Parsed> {
        let operator = |token: &SqlToken| match token {
            SqlToken::Sign("+") => Some(Arithmetic::Add),
            SqlToken::Sign("-") => Some(Arithmetic::Subtract),
            _ => None,
        };
        self.chain(Self::product, operator)
    }

    fn product(&mut self) -> Result<Parsed> {
        let operator = |token: &SqlToken| match token {
            SqlToken::Sign("*") => Some(Arithmetic::Multiply),
            SqlToken::Sign("/") => Some(Arithmetic::Divide),
            SqlToken::Sign("%") => Some(Arithmetic::Remainder),
            _ => None,
        };
        self.chain(Self::unary, operator)
    }

    fn chain(
        &mut self,
        part: fn(&mut Self) -> Result<Parsed>,
        operator: fn(&SqlToken) -> Option<Arithmetic>,
    ) -> Result<Parsed> {
        let column = self.column;
        let first = part(self)?;
        if operator(&self.token).is_none() {
            return Ok(first);
        }
        let first = into_value(first, column)?;
        let mut rest = Vec::new();
        while let Some(operator) = operator(&self.token) {
            self.advance()?;
            rest.push((operator, self.value(part)?));
        }
        Ok(Parsed::Value(Expression::Chain(Box::new(first), rest)))
    }

    fn unary(&mut self) -> Result<Parsed> {
        if self.accept_sign("+")? {
            let inner = self.nested(|parser| parser.value(Self::unary))?;
            return Ok(Parsed::Value(Expression::Plus(Box::new(inner))));
        }
        if !self.accept_sign("-")? {
            return self.primary();
        }
        // A minus before digits is part of the number, because the smallest integer has no positive counterpart.
        let constant = match self.token {
            SqlToken::Integer(digits) => 0i64
                .checked_sub_unsigned(digits)
                .map(OwnedValue::Int)
                .ok_or_else(|| syntax_error(self.column, too_large(format_args!("-{digits}"))))?,
            SqlToken::Double(number) => OwnedValue::Double(-number),
            _ => {
                let inner = self.nested(|parser| parser.value(Self::unary))?;
                return Ok(Parsed::Value(Expression::Minus(Box::new(inner))));
            }
        };
        self.advance()?;
        Ok(Parsed::Value(Expression::Constant(constant)))
    }

    pub(super) fn primary(&mut self) -> Result<Parsed> {
        let column = self.column;
        let value = match self.token {
            SqlToken::Integer(digits) => {
                OwnedValue::Int(i64::try_from(digits).map_err(|_| syntax_error(column, too_large(digits)))?)
            }
            SqlToken::Double(number) => OwnedValue::Double(number),
            SqlToken::Keyword(Keyword::True) => OwnedValue::Bool(true),
            SqlToken::Keyword(Keyword::False) => OwnedValue::Bool(false),
            SqlToken::Keyword(Keyword::Null) => OwnedValue::Null,
            SqlToken::Keyword(Keyword::Exists) => {
                self.advance()?;
                self.sign("(")?;
                let property_column = self.column;
                let Parsed::Value(Expression::Property(property)) = self.primary()? else {
                    return Err(syntax_error(property_column, "expected a property in EXISTS( )"));
                };
                self.sign(")")?;
                return Ok(Parsed::Condition(Predicate::Exists(property)));
            }
            SqlToken::Sign("(") => {
                self.advance()?;
                let inner = self.nested(Self::any)?;
                self.sign(")")?;
                return Ok(inner);
            }
            SqlToken::Text(_) | SqlToken::Parameter(_) | SqlToken::Name(_) | SqlToken::Delimited(_) => {
                return self.name_or_text().map(Parsed::Value);
            }
            _ => return Err(self.expected("a property, a constant or a parenthesis")),
        };
        self.advance()?;
        Ok(Parsed::Value(Expression::Constant(value)))
    }

    /// Parses an expression that begins with a string, a parameter or a name.
    fn name_or_text(&mut self) -> Result<Expression> {
        let column = self.column;
        match self.advance()? {
            SqlToken::Text(text) => Ok(Expression::Constant(OwnedValue::Text(text))),
            SqlToken::Parameter(name) => self.parameter(&name, column).map(Expression::Constant),
            SqlToken::Name(name) if self.accept_sign("(")? => self.function(&name, column),
            SqlToken::Name(scope) if self.accept_sign(".")? => {
                let (SqlToken::Name(name) | SqlToken::Delimited(name)) = self.token.clone() else {
                    return Err(self.expected("the name of a property"));
                };
                self.advance()?;
                if scope.eq_ignore_ascii_case("user") {
                    Ok(Expression::Property(Property::User(name)))
                } else if scope.eq_ignore_ascii_case("sys") {
                    let known = SystemProperty::from_name(&name).map(Property::System);
                    Ok(Expression::Property(known.unwrap_or(Property::UnknownSystem(name))))
                } else {
                    Err(syntax_error(
                        column,
                        format_args!("expected the scope `sys` or `user`, found `{scope}`"),
                    ))
                }
            }
            SqlToken::Name(name) | SqlToken::Delimited(name) => Ok(Expression::Property(Property::User(name))),
            other => unreachable!("`primary` passes no other token: {other}"),
        }
    }

    fn parameter(&self, name: &str, column: usize) -> Result<OwnedValue> {
        let found = self
            .parameters
            .iter()
            .find(|(known, _)| property_name::same(known.strip_prefix('@').unwrap_or(known), name));
        match found {
            Some((_, value)) => Ok(value.clone()),
            None => Err(syntax_error(
                column,
                format_args!("expected a parameter that has a value, found `@{name}`"),
            )),
        }
    }

    /// Parses a function after its opening parenthesis (B-368).
    fn function(&mut self, name: &str, column: usize) -> Result<Expression> {
        let expression = if name.eq_ignore_ascii_case("newid") {
            Expression::NewId
        } else if name.eq_ignore_ascii_case("property") || name.eq_ignore_ascii_case("p") {
            let name = self.nested(Self::expression)?;
            Expression::Property(Property::Computed(Box::new(name)))
        } else {
            let expected = "expected one of the functions newid(), property(name) and p(name)";
            return Err(syntax_error(column, format_args!("{expected}, found `{name}`")));
        };
        self.sign(")")?;
        Ok(expression)
    }
}
