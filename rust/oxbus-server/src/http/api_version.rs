// SPDX-License-Identifier: Apache-2.0
//! The optional parameter `api-version` (B-465), a version of the service. Partitioned entities need a version of
//! October 2013 or later, and older profiles of the service's rules require the parameter for them.

use oxbus_broker::Namespace;
use oxbus_model::name::EntityName;
use oxbus_model::tier::Profile;

use super::error::HttpError;
use super::query::QueryString;

/// The first version with partitioned entities.
const PARTITIONED_SINCE: (u16, u8) = (2013, 10);

/// The version of a request.
#[derive(Debug, Clone)]
pub(super) struct ApiVersion {
    given: String,
    knows_partitions: bool,
}

impl ApiVersion {
    /// Rejects a version without partitioned entities.
    pub(super) fn check_partitioned(&self) -> Result<(), HttpError> {
        if self.knows_partitions {
            return Ok(());
        }
        Err(HttpError::bad_request(format!(
            "a partitioned entity needs api-version 2013-10 or later; add api-version=2021-05: api-version=`{}`",
            self.given
        )))
    }
}

/// Parses the version of a request. Rejects an invalid one, and one that is too old for the entity.
pub(super) fn check(
    namespace: &Namespace,
    parameters: &QueryString,
    entity: Option<&str>,
) -> Result<ApiVersion, HttpError> {
    let given = parameters.get("api-version");
    let parsed = match given {
        None => None,
        Some(text) => Some(parse(text).ok_or_else(|| {
            HttpError::bad_request(format!(
                "api-version must be a year and a month such as 2021-05: `{text}`"
            ))
        })?),
    };
    let is_optional = namespace.plan().profile == Profile::Current;
    let version = ApiVersion {
        given: given.unwrap_or("none").to_owned(),
        knows_partitions: parsed.map_or(is_optional, |version| version >= PARTITIONED_SINCE),
    };
    if let Some(path) = entity.filter(|_| !version.knows_partitions) {
        let (path, _) = EntityName::split_sub_queue(path);
        // A missing entity is reported later.
        if namespace.entity(path).is_ok_and(|entity| entity.is_partitioned()) {
            version.check_partitioned()?;
        }
    }
    Ok(version)
}

/// Parses year and month.
fn parse(text: &str) -> Option<(u16, u8)> {
    let (year, rest) = text.split_once('-')?;
    // Some versions end with a day.
    let month = rest.split('-').next()?;
    let (year, month) = (year.parse().ok()?, month.parse().ok()?);
    ((2010..2100).contains(&year) && (1..=12).contains(&month)).then_some((year, month))
}

#[cfg(test)]
mod tests {
    use super::{PARTITIONED_SINCE, parse};

    #[test]
    fn versions_are_a_year_and_a_month() {
        // B-465.
        assert_eq!(parse("2013-10"), Some(PARTITIONED_SINCE));
        assert_eq!(parse("2013-08"), Some((2013, 8)));
        assert!(parse("2017-04") > Some(PARTITIONED_SINCE));
        assert_eq!(parse("2014-09-01"), Some((2014, 9)));
        for text in ["", "2013", "2013-13", "x-y", "1913-10"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
