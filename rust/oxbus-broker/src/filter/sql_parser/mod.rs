// SPDX-License-Identifier: Apache-2.0
//! A recursive descent parser of filters (B-361 … B-363): `condition` for conditions, `value` for expressions with a
//! value.
//!
//! Both can be in parentheses, so a group is parsed first and its kind is checked afterwards.

mod condition;
mod value;

use std::fmt;

use oxbus_model::Result;
use oxbus_model::caps::EXPRESSION_DEPTH_MAX;
use oxbus_model::rules::OwnedValue;

use super::sql_lexer::{Keyword, Lexer, SqlToken, syntax_error};
use super::sql_tree::{Expression, Negation, Predicate, Property};

/// A parsed condition or value.
enum Parsed {
    Condition(Predicate),
    Value(Expression),
}

/// The parser, with one token of lookahead.
pub(super) struct Parser<'t> {
    lexer: Lexer<'t>,
    token: SqlToken,
    column: usize,
    depth: usize,
    parameters: &'t [(String, OwnedValue)],
}

impl<'t> Parser<'t> {
    pub(super) fn new(text: &'t str, parameters: &'t [(String, OwnedValue)]) -> Result<Self> {
        let mut parser = Self {
            lexer: Lexer::new(text),
            token: SqlToken::End,
            column: 1,
            depth: 0,
            parameters,
        };
        parser.advance()?;
        Ok(parser)
    }

    /// Parses a whole filter.
    pub(super) fn filter(mut self) -> Result<Predicate> {
        let predicate = self.condition(Self::any)?;
        if self.token == SqlToken::End {
            Ok(predicate)
        } else {
            Err(self.expected("AND, OR or the end"))
        }
    }

    /// Parses a value.
    pub(super) fn expression(&mut self) -> Result<Expression> {
        self.value(Self::sum)
    }

    /// Parses a named property, not a computed one. Returns it with its column.
    pub(super) fn target(&mut self) -> Result<(usize, Property)> {
        let column = self.column;
        match self.primary()? {
            Parsed::Value(Expression::Property(property)) if !matches!(property, Property::Computed(_)) => {
                Ok((column, property))
            }
            _ => Err(syntax_error(column, "expected the name of a property")),
        }
    }

    /// Consumes the sign if it is next.
    pub(super) fn accept_sign(&mut self, sign: &'static str) -> Result<bool> {
        self.accept(&SqlToken::Sign(sign))
    }

    /// Consumes the word, which is not reserved, if it is next.
    pub(super) fn accept_word(&mut self, word: &str) -> Result<bool> {
        let is_next = matches!(&self.token, SqlToken::Name(name) if name.eq_ignore_ascii_case(word));
        if is_next {
            self.advance()?;
        }
        Ok(is_next)
    }

    /// True at the end of the text.
    pub(super) fn is_at_end(&self) -> bool {
        self.token == SqlToken::End
    }

    /// The error that `what` is expected at the current token.
    pub(super) fn expected(&self, what: impl fmt::Display) -> oxbus_model::Error {
        syntax_error(self.column, format_args!("expected {what}, found {}", self.token))
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

    /// Fails unless `parsed`, which began at `column`, is a condition.
    fn check_condition(&self, parsed: Parsed, column: usize) -> Result<Predicate> {
        match (parsed, &self.token) {
            (Parsed::Condition(predicate), _) => Ok(predicate),
            // There is an unknown word in the place of a comparison.
            (Parsed::Value(_), SqlToken::Name(_)) => Err(self.expected("a comparison")),
            (Parsed::Value(_), _) => Err(syntax_error(
                column,
                "expected a condition, found a value; compare it with another, for example `flag = TRUE`",
            )),
        }
    }

    /// Parses one level deeper, within the depth limit.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == EXPRESSION_DEPTH_MAX {
            return Err(syntax_error(
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
        let negates = self.accept(&SqlToken::Keyword(Keyword::Not))?;
        Ok(if negates { Negation::Negated } else { Negation::Plain })
    }

    fn keyword(&mut self, keyword: Keyword) -> Result<()> {
        let token = SqlToken::Keyword(keyword);
        if self.accept(&token)? {
            Ok(())
        } else {
            Err(self.expected(token))
        }
    }

    fn sign(&mut self, sign: &'static str) -> Result<()> {
        if self.accept_sign(sign)? {
            Ok(())
        } else {
            Err(self.expected(format_args!("`{sign}`")))
        }
    }

    fn accept(&mut self, token: &SqlToken) -> Result<bool> {
        let is_next = self.token == *token;
        if is_next {
            self.advance()?;
        }
        Ok(is_next)
    }

    /// Consumes and returns the next token.
    fn advance(&mut self) -> Result<SqlToken> {
        let (column, token) = self.lexer.next()?;
        self.column = column;
        Ok(std::mem::replace(&mut self.token, token))
    }
}

fn into_value(parsed: Parsed, column: usize) -> Result<Expression> {
    match parsed {
        Parsed::Value(expression) => Ok(expression),
        Parsed::Condition(_) => Err(syntax_error(column, "expected a value, found a condition")),
    }
}
