// SPDX-License-Identifier: Apache-2.0
//! What a client says about itself when it opens a connection.

use oxbus_amqp::performative::Open;
use oxbus_model::caps::LOG_VALUE_CHARS_MAX;

/// What a client says about itself.
#[derive(Debug, Default)]
pub(super) struct ClientNames {
    pub(super) container: String,
    pub(super) sdk: String,
}

/// A text that a client chose, cut.
pub(super) fn cut(text: &str) -> String {
    text.chars().take(LOG_VALUE_CHARS_MAX).collect()
}

impl ClientNames {
    /// SDKs put their name and version into `user-agent`, or into `product` and `version`.
    pub(super) fn of(open: &Open) -> Self {
        let text = |name: &str| {
            let value = open.properties.as_ref().and_then(|map| map.get(name));
            value.and_then(|value| value.as_text()).unwrap_or_default()
        };
        let (agent, product, version) = (text("user-agent"), text("product"), text("version"));
        let sdk = if agent.is_empty() {
            format!("{product} {version}").trim().to_owned()
        } else {
            agent.to_owned()
        };
        Self {
            container: cut(&open.container_id),
            sdk: cut(&sdk),
        }
    }
}
