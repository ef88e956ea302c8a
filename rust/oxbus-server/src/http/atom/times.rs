// SPDX-License-Identifier: Apache-2.0
//! Times in entries: `2026-01-31T12:00:00.0000000Z`.

use oxbus_model::Timestamp;
use oxbus_model::rules::OwnedValue;
use time::OffsetDateTime;
use time::format_description::FormatItem;
use time::format_description::well_known::Iso8601;
use time::macros::format_description;
use time::{Duration, PrimitiveDateTime};

const FORMAT: &[FormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]0000Z");
/// The service's value for an entity that was never used (B-388).
const NEVER_USED: &str = "0001-01-01T00:00:00Z";

pub(super) fn format_time(at: Timestamp) -> String {
    format_ms(at.0 as i64)
}

/// Formats milliseconds since 1970, which may be negative. Times outside the calendar are shown as its first or last
/// time.
pub(super) fn format_ms(ms: i64) -> String {
    let time = OffsetDateTime::UNIX_EPOCH.checked_add(Duration::milliseconds(ms));
    let time = time.filter(|time| (1..=9999).contains(&time.year()));
    time.and_then(|time| time.format(FORMAT).ok()).unwrap_or_else(|| {
        if ms < 0 {
            NEVER_USED
        } else {
            "9999-12-31T23:59:59.9990000Z"
        }
        .to_owned()
    })
}

pub(super) fn format_optional(at: Option<Timestamp>) -> String {
    at.map_or_else(|| NEVER_USED.to_owned(), format_time)
}

/// Like [`format_ms`], without a time zone.
pub(super) fn format_without_zone(ms: i64) -> String {
    format_ms(ms).trim_end_matches('Z').to_owned()
}

/// Parses a time. A time without a zone is in UTC.
pub(super) fn parse(text: &str) -> Option<OwnedValue> {
    let ms = |time: OffsetDateTime| i64::try_from(time.unix_timestamp_nanos().div_euclid(1_000_000)).ok();
    if let Ok(time) = OffsetDateTime::parse(text, &Iso8601::DEFAULT) {
        return ms(time).map(OwnedValue::Time);
    }
    let time = PrimitiveDateTime::parse(text, &Iso8601::DEFAULT).ok()?;
    ms(time.assume_utc()).map(OwnedValue::TimeWithoutZone)
}

#[cfg(test)]
mod tests {
    use oxbus_model::Timestamp;
    use oxbus_model::rules::OwnedValue;
    use proptest::prelude::*;

    use super::{format_ms, format_optional, format_without_zone, parse};

    #[test]
    fn times_have_seven_fractional_digits() {
        assert_eq!(
            format_optional(Some(Timestamp(1_404_264_747_123))),
            "2014-07-02T01:32:27.1230000Z"
        );
        assert_eq!(format_optional(None), "0001-01-01T00:00:00Z");
        assert_eq!(format_ms(i64::MAX), "9999-12-31T23:59:59.9990000Z");
        assert_eq!(
            parse("2014-07-02T03:32:27+02:00"),
            Some(OwnedValue::Time(1_404_264_747_000))
        );
        assert_eq!(parse("yesterday"), None);
    }

    proptest! {
        #[test]
        fn milliseconds_round_trip(ms in -62_135_596_800_000i64..253_402_300_800_000) {
            prop_assert_eq!(parse(&format_ms(ms)), Some(OwnedValue::Time(ms)));
            prop_assert_eq!(parse(&format_without_zone(ms)), Some(OwnedValue::TimeWithoutZone(ms)));
        }
    }
}
