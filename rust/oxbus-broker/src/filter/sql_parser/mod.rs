// SPDX-License-Identifier: Apache-2.0
//! The grammar of filters (B-361 … B-363), read top down: `condition` for what is true or false, `value` for the rest.
//!
//! Conditions and values share their parentheses, so a group is read first and its sort is asked for afterwards.

mod condition;
mod value;

use std::fmt;

use oxbus_model::Result;
use oxbus_model::caps::EXPRESSION_DEPTH_MAX;
use oxbus_model::rules::OwnedValue;

use super::sql_lexer::{Keyword, Lexer, SqlToken, syntax_error};
use super::sql_tree::{Expression, Negation, Predicate, Property};

/// What was read, before anybody asked for one of the two.
enum Parsed {
    Condition(Predicate),
    Value(Expression),
}

/// Reads a text, one token ahead.
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

    /// A whole filter.
    pub(super) fn filter(mut self) -> Result<Predicate> {
        let predicate = self.condition(Self::any)?;
        if self.token == SqlToken::End {
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
            _ => Err(syntax_error(column, "expected the name of a property")),
        }
    }

    /// Takes that sign if it comes next.
    pub(super) fn accept_sign(&mut self, sign: &'static str) -> Result<bool> {
        self.accept(&SqlToken::Sign(sign))
    }

    /// Takes that word if it comes next; it is no keyword elsewhere.
    pub(super) fn accept_word(&mut self, word: &str) -> Result<bool> {
        let comes = matches!(&self.token, SqlToken::Name(name) if name.eq_ignore_ascii_case(word));
        if comes {
            self.advance()?;
        }
        Ok(comes)
    }

    /// True when all is read.
    pub(super) fn is_at_end(&self) -> bool {
        self.token == SqlToken::End
    }

    /// Says what should stand here.
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

    /// The condition that was read at `column`.
    fn check_condition(&self, parsed: Parsed, column: usize) -> Result<Predicate> {
        match (parsed, &self.token) {
            (Parsed::Condition(predicate), _) => Ok(predicate),
            // A word that is none of ours, in the place of a comparison.
            (Parsed::Value(_), SqlToken::Name(_)) => Err(self.expected("a comparison")),
            (Parsed::Value(_), _) => Err(syntax_error(
                column,
                "expected a condition, found a value; compare it with another, for example `flag = TRUE`",
            )),
        }
    }

    /// Reads one level deeper.
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
        let comes = self.token == *token;
        if comes {
            self.advance()?;
        }
        Ok(comes)
    }

    /// The token that was next; the one behind it is next now.
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
