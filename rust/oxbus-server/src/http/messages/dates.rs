// SPDX-License-Identifier: Apache-2.0
//! Times in HTTP: RFC 1123 in GMT. ISO 8601 is also accepted.

use oxbus_model::Timestamp;
use time::format_description::FormatItem;
use time::format_description::well_known::{Iso8601, Rfc2822};
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime};

const RFC_1123: &[FormatItem<'_>] =
    format_description!("[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT");

/// Formats a time in whole seconds. A time after the year 9999 is shown as the end of that year.
pub(super) fn format_http_date(at: Timestamp) -> String {
    let seconds = (at.0 / 1000).min(253_402_300_799);
    OffsetDateTime::from_unix_timestamp(seconds as i64)
        .ok()
        .and_then(|time| time.format(RFC_1123).ok())
        .expect("a year of four digits can be formatted")
}

/// Parses a time. Returns `None` if it is invalid.
pub(super) fn parse(text: &str) -> Option<Timestamp> {
    let time = PrimitiveDateTime::parse(text, RFC_1123)
        .map(PrimitiveDateTime::assume_utc)
        .or_else(|_| OffsetDateTime::parse(text, &Rfc2822))
        .or_else(|_| OffsetDateTime::parse(text, &Iso8601::DEFAULT))
        .or_else(|_| PrimitiveDateTime::parse(text, &Iso8601::DEFAULT).map(PrimitiveDateTime::assume_utc))
        .ok()?;
    let ms = time.unix_timestamp_nanos() / 1_000_000;
    u64::try_from(ms).ok().map(|ms| Timestamp(0).plus_ms(ms))
}

#[cfg(test)]
mod tests {
    use oxbus_model::Timestamp;

    use super::{format_http_date, parse};

    #[test]
    fn times_round_trip_in_seconds() {
        // B-450.
        let at = Timestamp(1_404_264_747_000);
        assert_eq!(format_http_date(at), "Wed, 02 Jul 2014 01:32:27 GMT");
        assert_eq!(parse(&format_http_date(at)), Some(at));
        assert_eq!(parse("2014-07-02T01:32:27Z"), Some(at));
        assert_eq!(parse("2014-07-02T03:32:27.000+02:00"), Some(at));
        assert_eq!(parse("2014-07-02T01:32:27"), Some(at));
        assert_eq!(format_http_date(Timestamp::NEVER), "Fri, 31 Dec 9999 23:59:59 GMT");
    }

    #[test]
    fn invalid_times_are_rejected() {
        for text in [
            "",
            "now",
            "Wed",
            "2014",
            "1950-01-01T00:00:00Z",
            "Wed, 99 Jul 2014 01:32:27 GMT",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
