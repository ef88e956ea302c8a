// SPDX-License-Identifier: Apache-2.0
//! ISO 8601 durations: `PT1M30.5S`, `P1DT2H` (B-460).

use oxbus_model::caps::DURATION_MS_NEVER;
use oxbus_model::timespan::{UNITS_PER_MS, UNITS_PER_SECOND};

/// The longest duration of .NET, which means never.
const NEVER: &str = "P10675199DT2H48M5.4775807S";
const SECOND: u128 = UNITS_PER_SECOND as u128;
const DAY: u128 = 86_400 * SECOND;

/// Parses a duration of weeks, days, hours, minutes and seconds into milliseconds, rounded down. Returns `None` for an
/// invalid text, and `u64::MAX` for an overflow.
pub(super) fn parse(text: &str) -> Option<u64> {
    let ms = parse_units(text)? / u128::from(UNITS_PER_MS.unsigned_abs());
    Some(u64::try_from(ms).unwrap_or(u64::MAX))
}

/// Parses a [timespan](oxbus_model::timespan), which may begin with a minus sign. Returns `None` for an invalid text
/// or an overflow.
pub(super) fn parse_timespan(text: &str) -> Option<i64> {
    let text = text.trim();
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text),
    };
    i64::try_from(sign * i128::try_from(parse_units(text)?).ok()?).ok()
}

/// Parses a duration into units of 100 ns, rounded down.
fn parse_units(text: &str) -> Option<u128> {
    let rest = text.trim().strip_prefix(['P', 'p'])?;
    let (date, time) = match rest.split_once(['T', 't']) {
        Some((date, time)) if !time.is_empty() => (date, time),
        Some(_) => return None,
        None => (rest, ""),
    };
    let parts = [
        (date, &[('W', 7 * DAY), ('D', DAY)][..]),
        (time, &[('H', 3_600 * SECOND), ('M', 60 * SECOND), ('S', SECOND)][..]),
    ];
    let mut total: u128 = 0;
    let mut is_empty = true;
    for (mut rest, designators) in parts {
        let mut designators = designators.iter();
        while !rest.is_empty() {
            let end = rest.find(|it: char| it.is_ascii_alphabetic())?;
            let designator = rest[end..].chars().next()?.to_ascii_uppercase();
            // Components come in order, each at most once.
            let (_, size) = designators.find(|(known, _)| *known == designator)?;
            total = total.saturating_add(component(&rest[..end], *size)?);
            rest = &rest[end + 1..];
            is_empty = false;
        }
    }
    (!is_empty).then_some(total)
}

/// The units of one component: a decimal number times the size of its designator.
fn component(number: &str, size: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once(['.', ',']).unwrap_or((number, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) || number.ends_with(['.', ',']) {
        return None;
    }
    let whole: u128 = whole.parse().unwrap_or(u64::MAX.into());
    // Thirteen digits are enough for a unit of a week.
    let digits = &fraction[..fraction.len().min(13)];
    let scale = 10u128.pow(digits.len() as u32);
    let fraction: u128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    Some(whole.saturating_mul(size).saturating_add(fraction * size / scale))
}

/// Formats milliseconds. `None` means never.
pub(super) fn format_ms(ms: Option<u64>) -> String {
    let Some(ms) = ms.filter(|ms| *ms < DURATION_MS_NEVER) else {
        return NEVER.to_owned();
    };
    let fraction = match ms % 1000 {
        0 => String::new(),
        ms => format!(".{ms:03}"),
    };
    format_seconds(ms / 1000, &fraction)
}

/// Formats a timespan.
pub(super) fn format_timespan(units: i64) -> String {
    let (all, second) = (units.unsigned_abs(), UNITS_PER_SECOND.unsigned_abs());
    let fraction = match all % second {
        0 => String::new(),
        rest => format!(".{rest:07}").trim_end_matches('0').to_owned(),
    };
    let sign = if units < 0 { "-" } else { "" };
    format!("{sign}{}", format_seconds(all / second, &fraction))
}

/// Formats seconds with the given fraction.
fn format_seconds(seconds: u64, fraction: &str) -> String {
    let component = |number: u64, designator: &str| {
        if number > 0 {
            format!("{number}{designator}")
        } else {
            String::new()
        }
    };
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    let last = match seconds % 60 {
        0 if fraction.is_empty() && seconds > 0 => String::new(),
        rest => format!("{rest}{fraction}S"),
    };
    let time = component(hours, "H") + &component(minutes, "M") + &last;
    let separator = if time.is_empty() { "" } else { "T" };
    format!("P{}{separator}{time}", component(days, "D"))
}

#[cfg(test)]
mod tests {
    use oxbus_model::caps::DURATION_MS_NEVER;
    use proptest::prelude::*;

    use super::{NEVER, format_ms, format_timespan, parse, parse_timespan};

    #[test]
    fn durations_match_the_format_of_the_service() {
        for (text, ms) in [
            ("PT1M", 60_000),
            ("PT0S", 0),
            ("P1D", 86_400_000),
            ("P14DT1H", 14 * 86_400_000 + 3_600_000),
            ("PT1.500S", 1_500),
            ("P1DT2H3M4S", 93_784_000),
        ] {
            assert_eq!(parse(text), Some(ms), "{text}");
            assert_eq!(format_ms(Some(ms)), text);
        }
        assert_eq!(parse("pt1,5s"), Some(1_500));
        assert_eq!(parse("P2W"), Some(14 * 86_400_000));
        assert_eq!(parse("PT0.5M"), Some(30_000));
    }

    #[test]
    fn never_is_the_longest_dotnet_duration() {
        // B-460.
        assert_eq!(format_ms(None), NEVER);
        assert!(parse(NEVER).is_some_and(|ms| ms >= DURATION_MS_NEVER));
        assert!(parse("P99999999999999999999D").is_some_and(|ms| ms >= DURATION_MS_NEVER));
        assert!(
            parse("P10675199DT2H48M5.47758S").is_some_and(|ms| ms >= DURATION_MS_NEVER),
            "as Python rounds it"
        );
    }

    #[test]
    fn invalid_durations_are_rejected() {
        for text in [
            "", "P", "PT", "1M", "PT1", "PTM", "P1M", "P1Y", "PT1S1M", "PT-1S", "PT1.S", "PT.5S", "P1DT", "00:01:00",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn timespans_have_a_sign_and_seven_digits() {
        // B-374.
        for (text, units) in [
            ("P1DT2H3M", 937_800_000_000),
            ("PT0S", 0),
            ("PT0.0000001S", 1),
            ("-PT1.5S", -15_000_000),
            ("P10675199DT2H48M5.4775807S", i64::MAX),
            ("-P10675199DT2H48M5.4775808S", i64::MIN),
        ] {
            assert_eq!(parse_timespan(text), Some(units), "{text}");
            assert_eq!(format_timespan(units), text);
        }
        for text in [
            "",
            "-",
            "P",
            "--PT1S",
            "P10675200D",
            "P10675199DT2H48M5.4775808S",
            "P1M",
        ] {
            assert_eq!(parse_timespan(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn timespans_round_trip(units: i64) {
            prop_assert_eq!(parse_timespan(&format_timespan(units)), Some(units));
        }

        #[test]
        fn milliseconds_round_trip(ms in 0..DURATION_MS_NEVER) {
            prop_assert_eq!(parse(&format_ms(Some(ms))), Some(ms));
        }

        #[test]
        fn parser_accepts_any_text_without_a_panic(text in "[Pp]?[0-9.,WDTHMSwdthms-]{0,20}|.*") {
            let _ = (parse(&text), parse_timespan(&text));
        }
    }
}
