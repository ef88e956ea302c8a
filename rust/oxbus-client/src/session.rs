// SPDX-License-Identifier: Apache-2.0
//! Sessions: which one to accept, and what the server says about the accepted one.

use std::sync::Mutex;
use std::time::Duration;

use oxbus_amqp::codec::{AmqpValue, Map};
use oxbus_amqp::performative::Attach;
use oxbus_model::Timestamp;
use oxbus_model::sync::ignore_poison;

use crate::error::{ClientError, Result};
use crate::kind::ClientErrorKind;

/// The filter of links to sessions (B-424).
const SESSION_FILTER: &str = "com.microsoft:session-filter";
/// .NET ticks of 100 ns from the year 1 to 1970.
const TICKS_BEFORE_1970: i64 = 621_355_968_000_000_000;
const TICKS_PER_MS: i64 = 10_000;
/// What the wait of the server falls short of the client's, so that the server answers first.
const WAIT_MARGIN: Duration = Duration::from_millis(100);

/// The session to accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionChoice {
    /// The session with this id.
    Id(String),
    /// Any session that is available.
    Next,
}

impl SessionChoice {
    pub(crate) fn filter(&self) -> Map {
        let id = match self {
            Self::Id(id) => AmqpValue::from(id.as_str()),
            Self::Next => AmqpValue::Null,
        };
        Map::new().with(SESSION_FILTER, id)
    }
}

/// The property of a link that says how long the server waits for a session.
pub(crate) fn wait_property(left: Option<Duration>) -> Map {
    let Some(left) = left else {
        return Map::new();
    };
    let wait = left.saturating_sub(WAIT_MARGIN).max(left / 2);
    let ms = u32::try_from(wait.as_millis()).unwrap_or(u32::MAX);
    Map::new().with("com.microsoft:timeout", ms)
}

/// An accepted session.
#[derive(Debug)]
pub struct Session {
    id: String,
    /// Set in one step: a panic leaves it consistent.
    locked_until: Mutex<Option<Timestamp>>,
}

impl Session {
    /// The session in the server's answer.
    pub(crate) fn of(attach: &Attach) -> Result<Self> {
        let filter = attach.source.as_ref().and_then(|source| source.filter.as_ref());
        let id = filter
            .and_then(|filter| filter.get(SESSION_FILTER))
            .map(AmqpValue::undescribed);
        let id = id.and_then(AmqpValue::as_text).ok_or_else(|| {
            let detail = "the server does not name the session that it gives; it may not support sessions";
            ClientError::new(ClientErrorKind::Service, detail)
        })?;
        let ticks = attach
            .properties
            .as_ref()
            .and_then(|properties| properties.get("com.microsoft:locked-until-utc"))
            .and_then(AmqpValue::as_i64);
        Ok(Self {
            id: id.to_owned(),
            locked_until: Mutex::new(ticks.map(of_ticks)),
        })
    }

    /// The id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The end of the lock, if the server told it.
    pub fn locked_until(&self) -> Option<Timestamp> {
        *ignore_poison(self.locked_until.lock())
    }

    pub(crate) fn set_locked_until(&self, until: Timestamp) {
        *ignore_poison(self.locked_until.lock()) = Some(until);
    }
}

fn of_ticks(ticks: i64) -> Timestamp {
    let ms = ticks.saturating_sub(TICKS_BEFORE_1970) / TICKS_PER_MS;
    Timestamp(u64::try_from(ms).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use oxbus_amqp::codec::AmqpValue;
    use oxbus_model::Timestamp;

    use super::{of_ticks, wait_property};

    #[test]
    fn ticks_are_those_of_dotnet() {
        assert_eq!(of_ticks(621_355_968_000_000_000), Timestamp(0));
        assert_eq!(of_ticks(638_000_000_000_000_000), Timestamp(1_664_403_200_000));
        assert_eq!(of_ticks(0), Timestamp(0));
    }

    #[test]
    fn the_server_waits_a_little_less_than_the_client() {
        let ms = |left| wait_property(left).get("com.microsoft:timeout").cloned();
        assert_eq!(ms(Some(Duration::from_secs(2))), Some(AmqpValue::Uint(1_900)));
        assert_eq!(ms(Some(Duration::from_millis(100))), Some(AmqpValue::Uint(50)));
        assert_eq!(ms(None), None);
    }
}
