// SPDX-License-Identifier: Apache-2.0
//! Durations in properties and rules: signed units of 100 ns, the ticks of .NET (B-374, B-429).

/// Units in a millisecond.
pub const UNITS_PER_MS: i64 = 10_000;
/// Units in a second.
pub const UNITS_PER_SECOND: i64 = 1_000 * UNITS_PER_MS;
/// The AMQP descriptor of a long that is a timespan.
pub const AMQP_NAME: &str = "com.microsoft:timespan";

/// The .NET text, such as `1.02:03:04.5000000`. Omits zero days and a zero fraction.
pub fn text(units: i64) -> String {
    let second = UNITS_PER_SECOND.unsigned_abs();
    let (seconds, fraction) = (units.unsigned_abs() / second, units.unsigned_abs() % second);
    let sign = if units < 0 { "-" } else { "" };
    let days = match seconds / 86_400 {
        0 => String::new(),
        days => format!("{days}."),
    };
    let fraction = match fraction {
        0 => String::new(),
        fraction => format!(".{fraction:07}"),
    };
    let (hours, minutes, seconds) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{sign}{days}{hours:02}:{minutes:02}:{seconds:02}{fraction}")
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn texts_match_dotnet() {
        for (units, expected) in [
            (0, "00:00:00"),
            (1, "00:00:00.0000001"),
            (-15_000_000, "-00:00:01.5000000"),
            (937_800_000_000, "1.02:03:00"),
            (i64::MAX, "10675199.02:48:05.4775807"),
            (i64::MIN, "-10675199.02:48:05.4775808"),
        ] {
            assert_eq!(text(units), expected);
        }
    }
}
