// SPDX-License-Identifier: Apache-2.0
//! Conditions (B-361).

use oxbus_model::Result;
use oxbus_model::rules::OwnedValue;

use super::{Parsed, Parser};
use crate::filter::like::Pattern;
use crate::filter::operand::Comparison;
use crate::filter::sql_lexer::{Keyword, SqlToken, syntax_error};
use crate::filter::sql_tree::{Expression, LikePattern, Predicate};

impl Parser<'_> {
    pub(super) fn any(&mut self) -> Result<Parsed> {
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
        if self.token != SqlToken::Keyword(keyword) {
            return Ok(first);
        }
        let mut parts = vec![self.check_condition(first, column)?];
        while self.accept(&SqlToken::Keyword(keyword))? {
            parts.push(self.condition(part)?);
        }
        Ok(Parsed::Condition(join(parts)))
    }

    fn not(&mut self) -> Result<Parsed> {
        if !self.accept(&SqlToken::Keyword(Keyword::Not))? {
            return self.comparison();
        }
        let inner = self.nested(|parser| parser.condition(Self::not))?;
        Ok(Parsed::Condition(Predicate::Not(Box::new(inner))))
    }

    /// Parses a comparison, or a value alone.
    fn comparison(&mut self) -> Result<Parsed> {
        let column = self.column;
        let left = self.sum()?;
        let comparison = match self.token {
            SqlToken::Sign("=") => Some(Comparison::Equal),
            SqlToken::Sign("<>") => Some(Comparison::NotEqual),
            SqlToken::Sign("<") => Some(Comparison::Less),
            SqlToken::Sign("<=") => Some(Comparison::LessOrEqual),
            SqlToken::Sign(">") => Some(Comparison::Greater),
            SqlToken::Sign(">=") => Some(Comparison::GreaterOrEqual),
            SqlToken::Keyword(Keyword::Is | Keyword::Not | Keyword::In | Keyword::Like) => None,
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
        if self.accept(&SqlToken::Keyword(Keyword::Is))? {
            let negation = self.negation()?;
            self.keyword(Keyword::Null)?;
            let Expression::Property(property) = left else {
                return Err(syntax_error(column, "expected a property before IS NULL"));
            };
            return Ok(Parsed::Condition(Predicate::Null(property, negation)));
        }
        let negation = self.negation()?;
        let condition = if self.accept(&SqlToken::Keyword(Keyword::In))? {
            Predicate::In(left, self.choices()?, negation)
        } else if self.accept(&SqlToken::Keyword(Keyword::Like))? {
            Predicate::Like(left, Box::new(self.like_pattern()?), negation)
        } else {
            return Err(self.expected("IN or LIKE"));
        };
        Ok(Parsed::Condition(condition))
    }

    fn choices(&mut self) -> Result<Vec<Expression>> {
        self.sign("(")?;
        let mut choices = vec![self.expression()?];
        while self.accept_sign(",")? {
            choices.push(self.expression()?);
        }
        self.sign(")")?;
        Ok(choices)
    }

    fn like_pattern(&mut self) -> Result<LikePattern> {
        let pattern_column = self.column;
        let pattern = self.expression()?;
        let escapes = self.accept(&SqlToken::Keyword(Keyword::Escape))?;
        let escape_column = self.column;
        let escape = if escapes { Some(self.expression()?) } else { None };
        let character = match &escape {
            None => None,
            Some(Expression::Constant(OwnedValue::Text(text))) => {
                Some(Pattern::escape(text).map_err(|detail| syntax_error(escape_column, detail))?)
            }
            Some(_) => return Ok(LikePattern::Computed(pattern, escape)),
        };
        match pattern {
            Expression::Constant(OwnedValue::Text(text)) => {
                let read = Pattern::read(&text, character).map_err(|detail| syntax_error(pattern_column, detail))?;
                Ok(LikePattern::Fixed(read, text, character))
            }
            _ => Ok(LikePattern::Computed(pattern, escape)),
        }
    }
}
