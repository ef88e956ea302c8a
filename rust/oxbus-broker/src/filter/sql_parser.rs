// SPDX-License-Identifier: Apache-2.0
//! The grammar of filters (B-361 … B-363), read top down.
//!
//! Conditions and values share their parentheses, so a group is read first and its sort is asked for afterwards.

use std::fmt;

use oxbus_model::Result;
use oxbus_model::caps::EXPRESSION_DEPTH_MAX;
use oxbus_model::rules::OwnedValue;

use super::like::Pattern;
use super::operand::{Arithmetic, Comparison};
use super::property_name;
use super::sql_lexer::{Keyword, Lexer, Token, refused, too_large};
use super::sql_tree::{Expression, LikePattern, Negation, Predicate, Property};
use super::system_property::SystemProperty;

/// What was read, before anybody asked for one of the two.
enum Parsed {
    Condition(Predicate),
    Value(Expression),
}

/// Reads a text, one token ahead.
pub(super) struct Parser<'t> {
    lexer: Lexer<'t>,
    token: Token,
    column: usize,
    depth: usize,
    parameters: &'t [(String, OwnedValue)],
}

impl<'t> Parser<'t> {
    pub(super) fn new(text: &'t str, parameters: &'t [(String, OwnedValue)]) -> Result<Self> {
        let mut parser = Self {
            lexer: Lexer::new(text),
            token: Token::End,
            column: 1,
            depth: 0,
            parameters,
        };
        parser.advance()?;
        Ok(parser)
    }

    /// A whole filter.
    pub(super) fn filter(mut self) -> Result<Predicate> {
        let predicate = self.condition(Self::any)?;
        if self.token == Token::End {
            Ok(predicate)
        } else {
            Err(self.expected("AND, OR or the end"))
        }
    }

    /// A value.
    pub(super) fn expression(&mut self) -> Result<Expression> {
        self.value(Self::sum)
    }

    /// A property by its name, not a computed one; with its column.
    pub(super) fn target(&mut self) -> Result<(usize, Property)> {
        let column = self.column;
        match self.primary()? {
            Parsed::Value(Expression::Property(property)) if !matches!(property, Property::Computed(_)) => {
                Ok((column, property))
            }
            _ => Err(refused(column, "expected the name of a property")),
        }
    }

    /// Takes that sign if it comes next.
    pub(super) fn took_sign(&mut self, sign: &'static str) -> Result<bool> {
        self.took(&Token::Sign(sign))
    }

    /// Takes that word if it comes next; it is no keyword elsewhere.
    pub(super) fn took_word(&mut self, word: &str) -> Result<bool> {
        let comes = matches!(&self.token, Token::Name(name) if name.eq_ignore_ascii_case(word));
        if comes {
            self.advance()?;
        }
        Ok(comes)
    }

    /// True when all is read.
    pub(super) fn is_at_end(&self) -> bool {
        self.token == Token::End
    }

    /// Says what should stand here.
    pub(super) fn expected(&self, what: impl fmt::Display) -> oxbus_model::Error {
        refused(self.column, format_args!("expected {what}, found {}", self.token))
    }

    fn any(&mut self) -> Result<Parsed> {
        self.joined(Keyword::Or, Self::all, Predicate::Any)
    }

    fn all(&mut self) -> Result<Parsed> {
        self.joined(Keyword::And, Self::not, Predicate::All)
    }

    fn joined(
        &mut self,
        keyword: Keyword,
        part: fn(&mut Self) -> Result<Parsed>,
        join: fn(Vec<Predicate>) -> Predicate,
    ) -> Result<Parsed> {
        let column = self.column;
        let first = part(self)?;
        if self.token != Token::Keyword(keyword) {
            return Ok(first);
        }
        let mut parts = vec![self.check_condition(first, column)?];
        while self.took(&Token::Keyword(keyword))? {
            parts.push(self.condition(part)?);
        }
        Ok(Parsed::Condition(join(parts)))
    }

    fn not(&mut self) -> Result<Parsed> {
        if !self.took(&Token::Keyword(Keyword::Not))? {
            return self.comparison();
        }
        let inner = self.nested(|parser| parser.condition(Self::not))?;
        Ok(Parsed::Condition(Predicate::Not(Box::new(inner))))
    }

    /// A value and what is said of it, or the value alone.
    fn comparison(&mut self) -> Result<Parsed> {
        let column = self.column;
        let left = self.sum()?;
        let comparison = match self.token {
            Token::Sign("=") => Some(Comparison::Equal),
            Token::Sign("<>") => Some(Comparison::NotEqual),
            Token::Sign("<") => Some(Comparison::Less),
            Token::Sign("<=") => Some(Comparison::LessOrEqual),
            Token::Sign(">") => Some(Comparison::Greater),
            Token::Sign(">=") => Some(Comparison::GreaterOrEqual),
            Token::Keyword(Keyword::Is | Keyword::Not | Keyword::In | Keyword::Like) => None,
            _ => return Ok(left),
        };
        let Parsed::Value(left) = left else {
            return Err(self.expected("AND, OR or the end after a condition"));
        };
        if let Some(comparison) = comparison {
            self.advance()?;
            let right = self.expression()?;
            return Ok(Parsed::Condition(Predicate::Compare(left, comparison, right)));
        }
        if self.took(&Token::Keyword(Keyword::Is))? {
            let negation = self.negation()?;
            self.keyword(Keyword::Null)?;
            let Expression::Property(property) = left else {
                return Err(refused(column, "expected a property before IS NULL"));
            };
            return Ok(Parsed::Condition(Predicate::Null(property, negation)));
        }
        let negation = self.negation()?;
        let condition = if self.took(&Token::Keyword(Keyword::In))? {
            Predicate::In(left, self.choices()?, negation)
        } else if self.took(&Token::Keyword(Keyword::Like))? {
            Predicate::Like(left, Box::new(self.like_pattern()?), negation)
        } else {
            return Err(self.expected("IN or LIKE"));
        };
        Ok(Parsed::Condition(condition))
    }

    fn choices(&mut self) -> Result<Vec<Expression>> {
        self.sign("(")?;
        let mut choices = vec![self.expression()?];
        while self.took_sign(",")? {
            choices.push(self.expression()?);
        }
        self.sign(")")?;
        Ok(choices)
    }

    fn like_pattern(&mut self) -> Result<LikePattern> {
        let pattern_column = self.column;
        let pattern = self.expression()?;
        let escapes = self.took(&Token::Keyword(Keyword::Escape))?;
        let escape_column = self.column;
        let escape = if escapes { Some(self.expression()?) } else { None };
        let character = match &escape {
            None => None,
            Some(Expression::Constant(OwnedValue::Text(text))) => {
                Some(Pattern::escape(text).map_err(|detail| refused(escape_column, detail))?)
            }
            Some(_) => return Ok(LikePattern::Computed(pattern, escape)),
        };
        match pattern {
            Expression::Constant(OwnedValue::Text(text)) => {
                let read = Pattern::read(&text, character).map_err(|detail| refused(pattern_column, detail))?;
                Ok(LikePattern::Fixed(read, text, character))
            }
            _ => Ok(LikePattern::Computed(pattern, escape)),
        }
    }

    fn sum(&mut self) -> Result<Parsed> {
        let operator = |token: &Token| match token {
            Token::Sign("+") => Some(Arithmetic::Add),
            Token::Sign("-") => Some(Arithmetic::Subtract),
            _ => None,
        };
        self.chain(Self::product, operator)
    }

    fn product(&mut self) -> Result<Parsed> {
        let operator = |token: &Token| match token {
            Token::Sign("*") => Some(Arithmetic::Multiply),
            Token::Sign("/") => Some(Arithmetic::Divide),
            Token::Sign("%") => Some(Arithmetic::Remainder),
            _ => None,
        };
        self.chain(Self::unary, operator)
    }

    fn chain(
        &mut self,
        part: fn(&mut Self) -> Result<Parsed>,
        operator: fn(&Token) -> Option<Arithmetic>,
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
        if self.took_sign("+")? {
            let inner = self.nested(|parser| parser.value(Self::unary))?;
            return Ok(Parsed::Value(Expression::Plus(Box::new(inner))));
        }
        if !self.took_sign("-")? {
            return self.primary();
        }
        // A sign before digits is part of the number: the smallest integer has no positive counterpart.
        let constant = match self.token {
            Token::Integer(digits) => 0i64
                .checked_sub_unsigned(digits)
                .map(OwnedValue::Int)
                .ok_or_else(|| refused(self.column, too_large(format_args!("-{digits}"))))?,
            Token::Double(number) => OwnedValue::Double(-number),
            _ => {
                let inner = self.nested(|parser| parser.value(Self::unary))?;
                return Ok(Parsed::Value(Expression::Minus(Box::new(inner))));
            }
        };
        self.advance()?;
        Ok(Parsed::Value(Expression::Constant(constant)))
    }

    fn primary(&mut self) -> Result<Parsed> {
        let column = self.column;
        let value = match self.token {
            Token::Integer(digits) => {
                OwnedValue::Int(i64::try_from(digits).map_err(|_| refused(column, too_large(digits)))?)
            }
            Token::Double(number) => OwnedValue::Double(number),
            Token::Keyword(Keyword::True) => OwnedValue::Bool(true),
            Token::Keyword(Keyword::False) => OwnedValue::Bool(false),
            Token::Keyword(Keyword::Null) => OwnedValue::Null,
            Token::Keyword(Keyword::Exists) => {
                self.advance()?;
                self.sign("(")?;
                let property_column = self.column;
                let Parsed::Value(Expression::Property(property)) = self.primary()? else {
                    return Err(refused(property_column, "expected a property in EXISTS( )"));
                };
                self.sign(")")?;
                return Ok(Parsed::Condition(Predicate::Exists(property)));
            }
            Token::Sign("(") => {
                self.advance()?;
                let inner = self.nested(Self::any)?;
                self.sign(")")?;
                return Ok(inner);
            }
            Token::Text(_) | Token::Parameter(_) | Token::Name(_) | Token::Delimited(_) => {
                return self.named().map(Parsed::Value);
            }
            _ => return Err(self.expected("a property, a constant or a parenthesis")),
        };
        self.advance()?;
        Ok(Parsed::Value(Expression::Constant(value)))
    }

    /// What begins with a text, a parameter or a name.
    fn named(&mut self) -> Result<Expression> {
        let column = self.column;
        match self.advance()? {
            Token::Text(text) => Ok(Expression::Constant(OwnedValue::Text(text))),
            Token::Parameter(name) => self.parameter(&name, column).map(Expression::Constant),
            Token::Name(name) if self.took_sign("(")? => self.function(&name, column),
            Token::Name(scope) if self.took_sign(".")? => {
                let (Token::Name(name) | Token::Delimited(name)) = self.token.clone() else {
                    return Err(self.expected("the name of a property"));
                };
                self.advance()?;
                if scope.eq_ignore_ascii_case("user") {
                    Ok(Expression::Property(Property::User(name)))
                } else if scope.eq_ignore_ascii_case("sys") {
                    let known = SystemProperty::named(&name).map(Property::System);
                    Ok(Expression::Property(known.unwrap_or(Property::UnknownSystem(name))))
                } else {
                    Err(refused(
                        column,
                        format_args!("expected the scope `sys` or `user`, found `{scope}`"),
                    ))
                }
            }
            Token::Name(name) | Token::Delimited(name) => Ok(Expression::Property(Property::User(name))),
            other => unreachable!("`primary` asks for no other token: {other}"),
        }
    }

    fn parameter(&self, name: &str, column: usize) -> Result<OwnedValue> {
        let found = self
            .parameters
            .iter()
            .find(|(known, _)| property_name::same(known.strip_prefix('@').unwrap_or(known), name));
        match found {
            Some((_, value)) => Ok(value.clone()),
            None => Err(refused(
                column,
                format_args!("expected a parameter that has a value, found `@{name}`"),
            )),
        }
    }

    /// A function behind whose name a parenthesis was opened (B-368).
    fn function(&mut self, name: &str, column: usize) -> Result<Expression> {
        let expression = if name.eq_ignore_ascii_case("newid") {
            Expression::NewId
        } else if name.eq_ignore_ascii_case("property") || name.eq_ignore_ascii_case("p") {
            let name = self.nested(Self::expression)?;
            Expression::Property(Property::Computed(Box::new(name)))
        } else {
            let expected = "expected one of the functions newid(), property(name) and p(name)";
            return Err(refused(column, format_args!("{expected}, found `{name}`")));
        };
        self.sign(")")?;
        Ok(expression)
    }

    fn condition(&mut self, read: fn(&mut Self) -> Result<Parsed>) -> Result<Predicate> {
        let column = self.column;
        let parsed = read(self)?;
        self.check_condition(parsed, column)
    }

    fn value(&mut self, read: fn(&mut Self) -> Result<Parsed>) -> Result<Expression> {
        let column = self.column;
        let parsed = read(self)?;
        into_value(parsed, column)
    }

    /// Reads one level deeper.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == EXPRESSION_DEPTH_MAX {
            return Err(refused(
                self.column,
                format_args!("expected at most {EXPRESSION_DEPTH_MAX} levels of parentheses, signs and NOT"),
            ));
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    fn negation(&mut self) -> Result<Negation> {
        let negates = self.took(&Token::Keyword(Keyword::Not))?;
        Ok(if negates { Negation::Negated } else { Negation::Plain })
    }

    fn keyword(&mut self, keyword: Keyword) -> Result<()> {
        let token = Token::Keyword(keyword);
        if self.took(&token)? {
            Ok(())
        } else {
            Err(self.expected(token))
        }
    }

    fn sign(&mut self, sign: &'static str) -> Result<()> {
        if self.took_sign(sign)? {
            Ok(())
        } else {
            Err(self.expected(format_args!("`{sign}`")))
        }
    }

    fn took(&mut self, token: &Token) -> Result<bool> {
        let comes = self.token == *token;
        if comes {
            self.advance()?;
        }
        Ok(comes)
    }

    /// The condition that was read at `column`.
    fn check_condition(&self, parsed: Parsed, column: usize) -> Result<Predicate> {
        match (parsed, &self.token) {
            (Parsed::Condition(predicate), _) => Ok(predicate),
            // A word that is none of ours, in the place of a comparison.
            (Parsed::Value(_), Token::Name(_)) => Err(self.expected("a comparison")),
            (Parsed::Value(_), _) => Err(refused(
                column,
                "expected a condition, found a value; compare it with another, for example `flag = TRUE`",
            )),
        }
    }

    /// The token that was next; the one behind it is next now.
    fn advance(&mut self) -> Result<Token> {
        let (column, token) = self.lexer.next()?;
        self.column = column;
        Ok(std::mem::replace(&mut self.token, token))
    }
}

fn into_value(parsed: Parsed, column: usize) -> Result<Expression> {
    match parsed {
        Parsed::Value(expression) => Ok(expression),
        Parsed::Condition(_) => Err(refused(column, "expected a value, found a condition")),
    }
}
