// SPDX-License-Identifier: Apache-2.0
//! The parameter `api-version` (B-465): absent, or a version the service has had; partitioned entities need one of October
//! 2013 or later, and the older editions of the service's rules need it named.

use oxbus_broker::Namespace;
use oxbus_model::name::EntityName;
use oxbus_model::tier::Profile;

use super::query::Parameters;
use super::refusal::Refusal;

/// The first version that knows partitioned entities.
const PARTITIONED: (u16, u8) = (2013, 10);

/// The version of a request.
#[derive(Debug, Clone)]
pub(super) struct Version {
    shown: String,
    knows_partitions: bool,
}

impl Version {
    /// Refuses a version that is too old for partitioned entities.
    pub(super) fn check_partitioned(&self) -> Result<(), Refusal> {
        if self.knows_partitions {
            return Ok(());
        }
        Err(Refusal::bad_request(format!(
            "a partitioned entity needs api-version 2013-10 or later; add api-version=2021-05: api-version=`{}`",
            self.shown
        )))
    }
}

/// The version of a request; refuses one that is none, or too old for the entity.
pub(super) fn check(namespace: &Namespace, parameters: &Parameters, entity: Option<&str>) -> Result<Version, Refusal> {
    let given = parameters.get("api-version");
    let parsed = match given {
        None => None,
        Some(text) => Some(parse(text).ok_or_else(|| {
            Refusal::bad_request(format!(
                "api-version must be a year and a month such as 2021-05: `{text}`"
            ))
        })?),
    };
    let may_be_absent = namespace.plan().profile == Profile::Current;
    let version = Version {
        shown: given.unwrap_or("none").to_owned(),
        knows_partitions: parsed.map_or(may_be_absent, |version| version >= PARTITIONED),
    };
    if let Some(path) = entity.filter(|_| !version.knows_partitions) {
        let (path, _) = EntityName::split_sub_queue(path);
        // An entity that is not there is somebody else's refusal.
        if namespace.entity(path).is_ok_and(|entity| entity.is_partitioned()) {
            version.check_partitioned()?;
        }
    }
    Ok(version)
}

/// Year and month.
fn parse(text: &str) -> Option<(u16, u8)> {
    let (year, rest) = text.split_once('-')?;
    // Some versions have a day behind the month.
    let month = rest.split('-').next()?;
    let (year, month) = (year.parse().ok()?, month.parse().ok()?);
    ((2010..2100).contains(&year) && (1..=12).contains(&month)).then_some((year, month))
}

#[cfg(test)]
mod tests {
    use super::{PARTITIONED, parse};

    #[test]
    fn versions_are_a_year_and_a_month() {
        // B-465.
        assert_eq!(parse("2013-10"), Some(PARTITIONED));
        assert_eq!(parse("2013-08"), Some((2013, 8)));
        assert!(parse("2017-04") > Some(PARTITIONED));
        assert_eq!(parse("2014-09-01"), Some((2014, 9)));
        for text in ["", "2013", "2013-13", "x-y", "1913-10"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
