// SPDX-License-Identifier: Apache-2.0
//! The system properties: names in the scope `sys` (B-364).

/// A system property of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SystemProperty {
    ContentType,
    CorrelationId,
    DeadLetterSource,
    DeliveryCount,
    EnqueuedSequenceNumber,
    EnqueuedTimeUtc,
    ExpiresAtUtc,
    Label,
    LockToken,
    LockedUntilUtc,
    MessageId,
    PartitionKey,
    ReplyTo,
    ReplyToSessionId,
    ScheduledEnqueueTimeUtc,
    SequenceNumber,
    SessionId,
    Size,
    State,
    Subject,
    TimeToLive,
    To,
    ViaPartitionKey,
}

impl SystemProperty {
    /// All properties with their names. `Subject` is the newer name of `Label`.
    pub(super) const ALL: [(&'static str, Self); 23] = [
        ("ContentType", Self::ContentType),
        ("CorrelationId", Self::CorrelationId),
        ("DeadLetterSource", Self::DeadLetterSource),
        ("DeliveryCount", Self::DeliveryCount),
        ("EnqueuedSequenceNumber", Self::EnqueuedSequenceNumber),
        ("EnqueuedTimeUtc", Self::EnqueuedTimeUtc),
        ("ExpiresAtUtc", Self::ExpiresAtUtc),
        ("Label", Self::Label),
        ("LockToken", Self::LockToken),
        ("LockedUntilUtc", Self::LockedUntilUtc),
        ("MessageId", Self::MessageId),
        ("PartitionKey", Self::PartitionKey),
        ("ReplyTo", Self::ReplyTo),
        ("ReplyToSessionId", Self::ReplyToSessionId),
        ("ScheduledEnqueueTimeUtc", Self::ScheduledEnqueueTimeUtc),
        ("SequenceNumber", Self::SequenceNumber),
        ("SessionId", Self::SessionId),
        ("Size", Self::Size),
        ("State", Self::State),
        ("Subject", Self::Subject),
        ("TimeToLive", Self::TimeToLive),
        ("To", Self::To),
        ("ViaPartitionKey", Self::ViaPartitionKey),
    ];

    /// The property of that name, case-insensitive (B-365).
    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find_map(|(known, property)| known.eq_ignore_ascii_case(name).then_some(property))
    }

    /// Its name.
    pub(super) fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }

    /// True if an action may set it (B-378): the sender set it, and the broker has not yet used it. The partition key
    /// and the times are used before an action runs. The scheduled time may be set, but has no effect in this
    /// subscription (B-380).
    pub(super) fn is_writable(self) -> bool {
        matches!(
            self,
            Self::ContentType
                | Self::CorrelationId
                | Self::Label
                | Self::MessageId
                | Self::ReplyTo
                | Self::ReplyToSessionId
                | Self::ScheduledEnqueueTimeUtc
                | Self::SessionId
                | Self::Subject
                | Self::To
        )
    }
}

#[cfg(test)]
mod tests {
    use super::SystemProperty;

    #[test]
    fn every_name_leads_to_its_property_and_back() {
        for (name, property) in SystemProperty::ALL {
            assert_eq!(SystemProperty::from_name(&name.to_uppercase()), Some(property));
            assert_eq!(property.name(), name);
        }
        assert_eq!(SystemProperty::from_name("Color"), None);
    }
}
