// SPDX-License-Identifier: Apache-2.0
//! The tokens of filters and actions (B-366, B-367).

use std::fmt;
use std::str::Chars;

use oxbus_model::{Error, ErrorKind, Result};

/// A keyword, a name, a constant or a sign.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SqlToken {
    Keyword(Keyword),
    /// A plain name of a property, a scope or a function.
    Name(String),
    /// A name of a property in brackets or double quotes.
    Delimited(String),
    /// A parameter, without its `@`.
    Parameter(String),
    Text(String),
    /// Digits without a sign. The parser checks the range, because the smallest integer needs its sign.
    Integer(u64),
    Double(f64),
    /// `= <> != < <= > >= + - * / % ( ) , ; .`; `!=` becomes `<>`.
    Sign(&'static str),
    End,
}

/// Reserved words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keyword {
    And,
    Or,
    Not,
    In,
    Is,
    Null,
    Like,
    Escape,
    Exists,
    True,
    False,
}

impl Keyword {
    const ALL: [(&'static str, Self); 11] = [
        ("AND", Self::And),
        ("OR", Self::Or),
        ("NOT", Self::Not),
        ("IN", Self::In),
        ("IS", Self::Is),
        ("NULL", Self::Null),
        ("LIKE", Self::Like),
        ("ESCAPE", Self::Escape),
        ("EXISTS", Self::Exists),
        ("TRUE", Self::True),
        ("FALSE", Self::False),
    ];

    fn from_name(word: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find_map(|(name, keyword)| name.eq_ignore_ascii_case(word).then_some(keyword))
    }
}

impl fmt::Display for SqlToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keyword(keyword) => f.write_str(Keyword::ALL[*keyword as usize].0),
            Self::Name(name) => write!(f, "`{name}`"),
            Self::Delimited(name) => write!(f, "`[{name}]`"),
            Self::Parameter(name) => write!(f, "`@{name}`"),
            Self::Text(text) => write!(f, "'{text}'"),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Double(number) => write!(f, "{number}"),
            Self::Sign(sign) => write!(f, "`{sign}`"),
            Self::End => f.write_str("the end"),
        }
    }
}

/// A syntax error at a column, counted in characters from 1.
pub(super) fn syntax_error(column: usize, detail: impl fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("column {column}: {detail}"))
}

/// Splits a text into tokens.
#[derive(Debug)]
pub(super) struct Lexer<'t> {
    rest: Chars<'t>,
    /// Column of the next character.
    column: usize,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self {
            rest: text.chars(),
            column: 1,
        }
    }

    /// The next token and its column.
    pub(super) fn next(&mut self) -> Result<(usize, SqlToken)> {
        self.take_while(char::is_whitespace);
        let column = self.column;
        let Some(first) = self.peek() else {
            return Ok((column, SqlToken::End));
        };
        let token = match first {
            '\'' => SqlToken::Text(self.enclosed('\'', "text")?),
            '"' => SqlToken::Delimited(self.name_within('"')?),
            '[' => SqlToken::Delimited(self.name_within(']')?),
            '@' => {
                self.bump();
                let name = self.take_while(is_name_part);
                if name.is_empty() {
                    return Err(syntax_error(self.column, "expected the name of a parameter after `@`"));
                }
                SqlToken::Parameter(name.to_owned())
            }
            _ if first.is_ascii_digit() => self.number()?,
            _ if first.is_alphabetic() => {
                let word = self.take_while(is_name_part);
                Keyword::from_name(word).map_or_else(|| SqlToken::Name(word.to_owned()), SqlToken::Keyword)
            }
            _ => self.sign()?,
        };
        Ok((column, token))
    }

    fn peek(&self) -> Option<char> {
        self.rest.clone().next()
    }

    fn bump(&mut self) -> Option<char> {
        let character = self.rest.next()?;
        self.column += 1;
        Some(character)
    }

    /// Consumes `expected` if it is the next character.
    fn accept(&mut self, expected: char) -> bool {
        let is_next = self.peek() == Some(expected);
        if is_next {
            self.bump();
        }
        is_next
    }

    fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> &'t str {
        let text = self.rest.as_str();
        while self.peek().is_some_and(&belongs) {
            self.bump();
        }
        &text[..text.len() - self.rest.as_str().len()]
    }

    /// Returns the text up to `end`. A doubled `end` is literal.
    fn enclosed(&mut self, end: char, what: &str) -> Result<String> {
        let column = self.column;
        self.bump();
        let mut text = String::new();
        loop {
            match self.bump() {
                Some(character) if character != end => text.push(character),
                Some(_) if self.accept(end) => text.push(end),
                Some(_) => return Ok(text),
                None => {
                    return Err(syntax_error(
                        column,
                        format_args!("expected `{end}` at the end of the {what}"),
                    ));
                }
            }
        }
    }

    fn name_within(&mut self, end: char) -> Result<String> {
        let column = self.column;
        let name = self.enclosed(end, "name")?;
        if name.is_empty() {
            return Err(syntax_error(column, "expected a name between the delimiters"));
        }
        Ok(name)
    }

    /// Reads a number. A fraction or an exponent makes it a double.
    fn number(&mut self) -> Result<SqlToken> {
        let column = self.column;
        let text = self.rest.as_str();
        self.digits()?;
        let mut is_double = self.accept('.');
        if is_double {
            self.digits()?;
        }
        if self.accept('e') || self.accept('E') {
            is_double = true;
            let _ = self.accept('+') || self.accept('-');
            self.digits()?;
        }
        if self.peek().is_some_and(is_name_part) {
            return Err(syntax_error(
                self.column,
                "expected the end of the number; put a name that begins with a digit in brackets, `[1st]`",
            ));
        }
        let text = &text[..text.len() - self.rest.as_str().len()];
        if is_double {
            match text.parse() {
                Ok(number) if f64::is_finite(number) => Ok(SqlToken::Double(number)),
                _ => Err(syntax_error(
                    column,
                    format_args!("expected a number within the range of a double: {text}"),
                )),
            }
        } else {
            text.parse()
                .map(SqlToken::Integer)
                .map_err(|_| syntax_error(column, too_large(text)))
        }
    }

    fn digits(&mut self) -> Result<()> {
        if self.take_while(|character| character.is_ascii_digit()).is_empty() {
            return Err(syntax_error(self.column, "expected a digit"));
        }
        Ok(())
    }

    fn sign(&mut self) -> Result<SqlToken> {
        const SIGNS: [&str; 16] = [
            "<>", "<=", ">=", "<", ">", "=", "+", "-", "*", "/", "%", "(", ")", ",", ";", ".",
        ];
        let text = self.rest.as_str();
        let found = if text.starts_with("!=") {
            Some("<>")
        } else {
            SIGNS.into_iter().find(|sign| text.starts_with(sign))
        };
        let Some(sign) = found else {
            let character = self.peek().unwrap_or_default();
            return Err(syntax_error(
                self.column,
                format_args!("expected a name, a constant or an operator, found `{character}`"),
            ));
        };
        for _ in 0..sign.len() {
            self.bump();
        }
        Ok(SqlToken::Sign(sign))
    }
}

/// The error text of an integer that does not fit 64 bits.
pub(super) fn too_large(digits: impl fmt::Display) -> String {
    format!("expected an integer of 64 bits; write a fraction, `1.0`, for a double: {digits}")
}

/// True if the character is a letter, a digit or the underscore (B-366).
fn is_name_part(character: char) -> bool {
    character == '_' || character.is_alphanumeric()
}
