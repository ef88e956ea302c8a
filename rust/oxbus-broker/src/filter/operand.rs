// SPDX-License-Identifier: Apache-2.0
//! Values during evaluation: comparison and arithmetic by the rules of C# (B-373).
//!
//! A missing property and a property whose value is null are both null here. Every operation on null is unknown
//! (B-370). An operation on types that C# does not combine is also unknown, not an error: a sender must not be able to
//! make a rule fail by sending a property with an unexpected type.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::Write as _;

use oxbus_model::caps::EXPRESSION_TEXT_BYTES_MAX;
use oxbus_model::message::Value;
use oxbus_model::rules::OwnedValue;
use oxbus_model::{Timestamp, timespan};

/// A value, or null.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Operand<'a> {
    /// Missing, null or unknown.
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(Cow<'a, str>),
    Bytes(&'a [u8]),
    Uuid([u8; 16]),
    Time(i64),
    /// In units of 100 ns.
    Timespan(i64),
}

/// `+ - * / %`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// `= <> < <= > >=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl<'a> From<Value<'a>> for Operand<'a> {
    #[inline]
    fn from(value: Value<'a>) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(it) => Self::Bool(it),
            Value::Int(it) => Self::Int(it),
            Value::Double(it) => Self::Double(it),
            Value::Text(it) => Self::Text(Cow::Borrowed(it)),
            Value::Bytes(it) => Self::Bytes(it),
            Value::Uuid(it) => Self::Uuid(it),
            Value::Time(it) => Self::Time(it),
            Value::Timespan(it) => Self::Timespan(it),
        }
    }
}

impl From<Operand<'_>> for OwnedValue {
    fn from(operand: Operand<'_>) -> Self {
        match operand {
            Operand::Null => Self::Null,
            Operand::Bool(it) => Self::Bool(it),
            Operand::Int(it) => Self::Int(it),
            Operand::Double(it) => Self::Double(it),
            Operand::Text(it) => Self::Text(it.into_owned()),
            Operand::Bytes(it) => Self::Bytes(it.to_vec()),
            Operand::Uuid(it) => Self::Uuid(it),
            Operand::Time(it) => Self::Time(it),
            Operand::Timespan(it) => Self::Timespan(it),
        }
    }
}

impl<'a> Operand<'a> {
    /// A string, or null.
    #[inline]
    pub(super) fn of_text(text: Option<&'a str>) -> Self {
        text.map_or(Self::Null, |text| Self::Text(Cow::Borrowed(text)))
    }

    /// A time.
    pub(super) fn of_time(time: Timestamp) -> Self {
        Self::Time(i64::try_from(time.0).unwrap_or(i64::MAX))
    }

    /// Compares two values. `None` means unknown.
    ///
    /// - An integer and a double compare as doubles, as in C#.
    /// - Strings compare by character and case. C# has no `<` for strings, so this uses the ordinal order.
    /// - Booleans, UUIDs and bytes are equal or not, and have no order.
    #[inline]
    pub(super) fn compare(&self, operator: Comparison, other: &Operand<'_>) -> Option<bool> {
        let ordering = match (self, other) {
            (Self::Int(a), Operand::Int(b))
            | (Self::Time(a), Operand::Time(b))
            | (Self::Timespan(a), Operand::Timespan(b)) => Some(a.cmp(b)),
            (Self::Int(a), Operand::Double(b)) => (*a as f64).partial_cmp(b),
            (Self::Double(a), Operand::Int(b)) => a.partial_cmp(&(*b as f64)),
            (Self::Double(a), Operand::Double(b)) => a.partial_cmp(b),
            (Self::Text(a), Operand::Text(b)) => return Some(operator.holds_of_texts(a, b)),
            (Self::Bool(a), Operand::Bool(b)) => return operator.holds_of_equality(a == b),
            (Self::Uuid(a), Operand::Uuid(b)) => return operator.holds_of_equality(a == b),
            (Self::Bytes(a), Operand::Bytes(b)) => return operator.holds_of_equality(a == b),
            _ => return None,
        };
        Some(operator.holds(ordering))
    }

    /// Returns the result of an operation, or null if the types do not combine. Fails if C# would throw.
    pub(super) fn calculate(self, operator: Arithmetic, other: Operand<'a>) -> Result<Operand<'a>, String> {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => of_integers(operator, a, b).map(Self::Int),
            (Self::Int(a), Self::Double(b)) => Ok(Self::Double(of_doubles(operator, a as f64, b))),
            (Self::Double(a), Self::Int(b)) => Ok(Self::Double(of_doubles(operator, a, b as f64))),
            (Self::Double(a), Self::Double(b)) => Ok(Self::Double(of_doubles(operator, a, b))),
            (a @ Self::Text(_), b) | (a, b @ Self::Text(_)) if operator == Arithmetic::Add => concatenate(&a, &b),
            _ => Ok(Self::Null),
        }
    }

    /// The negated value. As in C#, the smallest integer has no positive counterpart and stays unchanged.
    pub(super) fn negate(self) -> Self {
        match self {
            Self::Int(it) => Self::Int(it.wrapping_neg()),
            Self::Double(it) => Self::Double(-it),
            _ => Self::Null,
        }
    }

    /// Returns the result of unary `+`: the number, or null for other types.
    pub(super) fn number(self) -> Self {
        match self {
            Self::Int(_) | Self::Double(_) => self,
            _ => Self::Null,
        }
    }

    /// Returns the value as C# formats it in the invariant culture, or `None` for null and bytes. Times are in ISO
    /// 8601.
    pub(super) fn text(&self) -> Option<Cow<'_, str>> {
        let text = match self {
            Self::Null | Self::Bytes(_) => return None,
            Self::Text(it) => return Some(Cow::Borrowed(it)),
            Self::Bool(true) => "True".to_owned(),
            Self::Bool(false) => "False".to_owned(),
            Self::Int(it) => it.to_string(),
            Self::Double(it) => double_text(*it),
            Self::Uuid(it) => uuid_text(it),
            Self::Time(it) => time_text(*it),
            Self::Timespan(it) => timespan::text(*it),
        };
        Some(Cow::Owned(text))
    }
}

impl Comparison {
    /// True if the comparison holds for two values with this ordering. Without an ordering (NaN), only `<>` holds, as
    /// in C#.
    #[inline]
    fn holds(self, ordering: Option<Ordering>) -> bool {
        match (self, ordering) {
            (Self::Equal, Some(it)) => it.is_eq(),
            (Self::NotEqual, it) => it != Some(Ordering::Equal),
            (Self::Less, Some(it)) => it.is_lt(),
            (Self::LessOrEqual, Some(it)) => it.is_le(),
            (Self::Greater, Some(it)) => it.is_gt(),
            (Self::GreaterOrEqual, Some(it)) => it.is_ge(),
            (_, None) => false,
        }
    }

    #[inline]
    fn holds_of_texts(self, a: &str, b: &str) -> bool {
        match self {
            // Equality compares lengths first, which the ordering does not.
            Self::Equal => a == b,
            Self::NotEqual => a != b,
            _ => self.holds(Some(a.cmp(b))),
        }
    }

    #[inline]
    fn holds_of_equality(self, equal: bool) -> Option<bool> {
        match self {
            Self::Equal => Some(equal),
            Self::NotEqual => Some(!equal),
            _ => None,
        }
    }
}

/// 64-bit arithmetic as in an unchecked context of C#: sums, differences and products wrap around. Division by zero
/// and the one quotient that overflows throw in C# and are errors here.
fn of_integers(operator: Arithmetic, a: i64, b: i64) -> Result<i64, String> {
    match operator {
        Arithmetic::Add => Ok(a.wrapping_add(b)),
        Arithmetic::Subtract => Ok(a.wrapping_sub(b)),
        Arithmetic::Multiply => Ok(a.wrapping_mul(b)),
        Arithmetic::Divide | Arithmetic::Remainder if b == 0 => Err(format!("{a} is divided by zero")),
        Arithmetic::Divide => a.checked_div(b).ok_or_else(|| overflow(a, b)),
        Arithmetic::Remainder => a.checked_rem(b).ok_or_else(|| overflow(a, b)),
    }
}

fn overflow(a: i64, b: i64) -> String {
    format!("the quotient does not fit 64 bits: {a} / {b}")
}

fn of_doubles(operator: Arithmetic, a: f64, b: f64) -> f64 {
    match operator {
        Arithmetic::Add => a + b,
        Arithmetic::Subtract => a - b,
        Arithmetic::Multiply => a * b,
        Arithmetic::Divide => a / b,
        Arithmetic::Remainder => a % b,
    }
}

fn concatenate<'a>(a: &Operand<'_>, b: &Operand<'_>) -> Result<Operand<'a>, String> {
    let (Some(a), Some(b)) = (a.text(), b.text()) else {
        return Ok(Operand::Null);
    };
    if a.len() + b.len() > EXPRESSION_TEXT_BYTES_MAX {
        return Err(format!(
            "a string computed by `+` is longer than {EXPRESSION_TEXT_BYTES_MAX} bytes: {} bytes",
            a.len() + b.len()
        ));
    }
    Ok(Operand::Text(Cow::Owned(format!("{a}{b}"))))
}

/// Formats a double as .NET does: the shortest digits that round-trip, with an exponent from 1E+15 and below 0.0001.
fn double_text(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "∞" } else { "-∞" }.to_owned();
    }
    let scientific = format!("{value:E}");
    let (digits, exponent) = scientific.split_once('E').expect("the format `E` has an exponent");
    match exponent.parse::<i32>() {
        Ok(exponent) if value != 0.0 && !(-4..15).contains(&exponent) => {
            format!("{digits}E{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
        }
        _ => value.to_string(),
    }
}

fn uuid_text(bytes: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        write!(text, "{byte:02x}").expect("writing to a String does not fail");
    }
    text
}

/// `2024-05-06T07:08:09.123Z`, by the proleptic Gregorian calendar.
fn time_text(ms: i64) -> String {
    const DAY_MS: i64 = 86_400_000;
    // Days since 1 March of the year 0, so that a leap day ends its year. 400 years have 146,097 days.
    let days = ms.div_euclid(DAY_MS) + 719_468;
    let of_day = ms.rem_euclid(DAY_MS);
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // From March on, every five months have 153 days.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    let (seconds, milliseconds) = (of_day / 1_000, of_day % 1_000);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_match_dot_net() {
        for (operand, expected) in [
            (Operand::Bool(true), "True"),
            (Operand::Int(-7), "-7"),
            (Operand::Double(1.5), "1.5"),
            (Operand::Double(2.0), "2"),
            (Operand::Double(1e15), "1E+15"),
            (Operand::Double(1e14), "100000000000000"),
            (Operand::Double(1.5e-7), "1.5E-07"),
            (Operand::Double(0.0001), "0.0001"),
            (Operand::Double(0.0), "0"),
            (
                Operand::Uuid(*b"\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff"),
                "00112233-4455-6677-8899-aabbccddeeff",
            ),
            (Operand::Time(0), "1970-01-01T00:00:00.000Z"),
            (Operand::Time(951_827_696_789), "2000-02-29T12:34:56.789Z"),
            (Operand::Time(-1), "1969-12-31T23:59:59.999Z"),
            (Operand::Timespan(937_800_000_000), "1.02:03:00"),
        ] {
            assert_eq!(operand.text().as_deref(), Some(expected));
        }
    }
}
