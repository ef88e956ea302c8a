// SPDX-License-Identifier: Apache-2.0
//! A log line: an emitted event with its fields as text.

use std::fmt::{self, Write as _};

use oxbus_model::caps::LOG_VALUE_CHARS_MAX;
use tracing::Level;
use tracing::field::{Field, Visit};

/// The fields that form the subject of a line, for counting repeated lines.
const SUBJECT: [&str; 6] = ["entity", "partition", "key_name", "reason", "path", "peer"];

/// An emitted event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The name of the event.
    pub event: &'static str,
    /// The part of oxbus that emitted it.
    pub target: &'static str,
    /// The level of the event.
    pub level: Level,
    /// Names and values, in source order.
    pub fields: Vec<(&'static str, String)>,
    /// The source file and the line in it.
    pub source: Option<(&'static str, u32)>,
    /// The number of suppressed lines of the same subject before this one.
    pub left_out: u64,
}

impl Line {
    /// The value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(its, _)| *its == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The subject of the line.
    pub(crate) fn subject(&self) -> String {
        let mut subject = String::new();
        for name in SUBJECT {
            let _ = write!(subject, "{}\0", self.field(name).unwrap_or_default());
        }
        subject
    }

    /// The line reduced to the fields of its subject.
    pub(crate) fn only_subject(&self) -> Self {
        let fields = self.fields.iter().filter(|(name, _)| SUBJECT.contains(name)).cloned();
        Self {
            fields: fields.collect(),
            ..*self
        }
    }
}

/// The name of the event and its fields: `partition.fault partition=2 cause="the store failed"`.
impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.event)?;
        for (name, value) in &self.fields {
            // Other values are quoted, so that a name from a client cannot start a new line.
            let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_.:/$@+".contains(char);
            if !value.is_empty() && value.chars().all(is_plain) {
                write!(f, " {name}={value}")?;
            } else {
                write!(f, " {name}={value:?}")?;
            }
        }
        if self.left_out > 0 {
            write!(f, " left_out={}", self.left_out)?;
        }
        Ok(())
    }
}

/// Adds fields to a line.
impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut limited = TruncatedText {
            text: String::new(),
            left: LOG_VALUE_CHARS_MAX,
        };
        // An error means that the text has reached its limit.
        let _ = write!(limited, "{value:?}");
        self.fields.push((field.name(), limited.text));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields
            .push((field.name(), value.chars().take(LOG_VALUE_CHARS_MAX).collect()));
    }
}

/// A text that stops after a number of characters.
struct TruncatedText {
    text: String,
    left: usize,
}

impl fmt::Write for TruncatedText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let before = self.text.len();
        self.text.extend(text.chars().take(self.left));
        self.left -= self.text[before..].chars().count();
        if self.left == 0 { Err(fmt::Error) } else { Ok(()) }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use tracing::Level;

    use super::Line;

    pub(crate) fn line(event: &'static str, fields: &[(&'static str, &str)]) -> Line {
        Line {
            event,
            target: "oxbus::broker",
            level: Level::WARN,
            fields: fields
                .iter()
                .map(|(name, value)| (*name, (*value).to_owned()))
                .collect(),
            source: None,
            left_out: 0,
        }
    }

    #[test]
    fn values_cannot_break_a_line() {
        let line = line(
            "client.refused",
            &[("entity", "orders\n2026 forged"), ("key_name", "app")],
        );
        assert_eq!(
            line.to_string(),
            r#"client.refused entity="orders\n2026 forged" key_name=app"#
        );
    }

    #[test]
    fn an_empty_value_is_quoted() {
        assert_eq!(line("a.b", &[("entity", "")]).to_string(), r#"a.b entity="""#);
    }
}
