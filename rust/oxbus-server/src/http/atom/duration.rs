// SPDX-License-Identifier: Apache-2.0
//! Durations as ISO 8601 writes them: `PT1M30.5S`, `P1DT2H` (B-460).

use oxbus_model::caps::DURATION_MS_NEVER;

/// The longest duration of .NET, which means never.
const NEVER: &str = "P10675199DT2H48M5.4775807S";
const DAY_MS: u64 = 86_400_000;

/// Milliseconds of a text, rounded down; `None` when it is no duration of weeks, days, hours, minutes and seconds. What is too
/// long for milliseconds is the longest there is.
pub(super) fn read(text: &str) -> Option<u64> {
    let rest = text.trim().strip_prefix(['P', 'p'])?;
    let (date, time) = match rest.split_once(['T', 't']) {
        Some((date, time)) if !time.is_empty() => (date, time),
        Some(_) => return None,
        None => (rest, ""),
    };
    let parts = [
        (date, &[('W', 7 * DAY_MS), ('D', DAY_MS)][..]),
        (time, &[('H', 3_600_000), ('M', 60_000), ('S', 1000)][..]),
    ];
    let mut total: u64 = 0;
    let mut is_empty = true;
    for (mut rest, units) in parts {
        let mut units = units.iter();
        while !rest.is_empty() {
            let end = rest.find(|it: char| it.is_ascii_alphabetic())?;
            let unit = rest[end..].chars().next()?.to_ascii_uppercase();
            // Units come in their order, each once.
            let (_, ms) = units.find(|(name, _)| *name == unit)?;
            total = total.saturating_add(part(&rest[..end], *ms)?);
            rest = &rest[end + 1..];
            is_empty = false;
        }
    }
    (!is_empty).then_some(total)
}

/// Milliseconds of a number of units, which may have a fraction.
fn part(number: &str, ms: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once(['.', ',']).unwrap_or((number, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) || number.ends_with(['.', ',']) {
        return None;
    }
    let whole: u64 = whole.parse().unwrap_or(u64::MAX);
    // Nine digits are more than a millisecond of a week needs.
    let digits = &fraction[..fraction.len().min(9)];
    let scale = 10u128.pow(digits.len() as u32);
    let fraction: u128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    Some(
        whole
            .saturating_mul(ms)
            .saturating_add((fraction * u128::from(ms) / scale) as u64),
    )
}

/// Milliseconds as text; `None` is never.
pub(super) fn written(ms: Option<u64>) -> String {
    let Some(ms) = ms.filter(|ms| *ms < DURATION_MS_NEVER) else {
        return NEVER.to_owned();
    };
    let (days, rest) = (ms / DAY_MS, ms % DAY_MS);
    let (hours, minutes, rest) = (rest / 3_600_000, rest / 60_000 % 60, rest % 60_000);
    let part = |number: u64, unit: &str| {
        if number > 0 {
            format!("{number}{unit}")
        } else {
            String::new()
        }
    };
    let seconds = match (rest / 1000, rest % 1000) {
        (0, 0) if ms > 0 => String::new(),
        (seconds, 0) => format!("{seconds}S"),
        (seconds, ms) => format!("{seconds}.{ms:03}S"),
    };
    let time = part(hours, "H") + &part(minutes, "M") + &seconds;
    let separator = if time.is_empty() { "" } else { "T" };
    format!("P{}{separator}{time}", part(days, "D"))
}

#[cfg(test)]
mod tests {
    use oxbus_model::caps::DURATION_MS_NEVER;
    use proptest::prelude::*;

    use super::{NEVER, read, written};

    #[test]
    fn durations_are_read_and_written_as_the_service_does() {
        for (text, ms) in [
            ("PT1M", 60_000),
            ("PT0S", 0),
            ("P1D", 86_400_000),
            ("P14DT1H", 14 * 86_400_000 + 3_600_000),
            ("PT1.500S", 1_500),
            ("P1DT2H3M4S", 93_784_000),
        ] {
            assert_eq!(read(text), Some(ms), "{text}");
            assert_eq!(written(Some(ms)), text);
        }
        assert_eq!(read("pt1,5s"), Some(1_500));
        assert_eq!(read("P2W"), Some(14 * 86_400_000));
        assert_eq!(read("PT0.5M"), Some(30_000));
    }

    #[test]
    fn never_is_the_longest_of_dotnet() {
        // B-460.
        assert_eq!(written(None), NEVER);
        assert!(read(NEVER).is_some_and(|ms| ms >= DURATION_MS_NEVER));
        assert!(read("P99999999999999999999D").is_some_and(|ms| ms >= DURATION_MS_NEVER));
        assert!(
            read("P10675199DT2H48M5.47758S").is_some_and(|ms| ms >= DURATION_MS_NEVER),
            "as Python rounds it"
        );
    }

    #[test]
    fn what_is_no_duration_is_none() {
        for text in [
            "", "P", "PT", "1M", "PT1", "PTM", "P1M", "P1Y", "PT1S1M", "PT-1S", "PT1.S", "PT.5S", "P1DT", "00:01:00",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn milliseconds_come_back(ms in 0..DURATION_MS_NEVER) {
            prop_assert_eq!(read(&written(Some(ms))), Some(ms));
        }

        #[test]
        fn nothing_that_comes_in_breaks_the_reader(text in "[Pp]?[0-9.,WDTHMSwdthms-]{0,20}|.*") {
            let _ = read(&text);
        }
    }
}
