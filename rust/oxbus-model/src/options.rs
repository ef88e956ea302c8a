// SPDX-License-Identifier: Apache-2.0
//! Settings of an entity and the ranges of their values; options of receivers and stores (B-022 … B-031).

use crate::caps::{
    AUTO_DELETE_ON_IDLE_MS_MIN, DUPLICATE_WINDOW_MS_DEFAULT, DUPLICATE_WINDOW_MS_MAX, DUPLICATE_WINDOW_MS_MIN,
    DURATION_MS_NEVER, LOCK_DURATION_MS_DEFAULT, LOCK_DURATION_MS_MAX, LOCK_DURATION_MS_MIN,
    MAX_DELIVERY_COUNT_DEFAULT, MAX_DELIVERY_COUNT_MAX, MAX_SIZE_MEGABYTES_DEFAULT, MAX_SIZE_MEGABYTES_MAX,
    MESSAGE_SIZE_KILOBYTES_MAX, TIME_TO_LIVE_MS_MIN, USER_METADATA_CHARS_MAX,
};
use serde::{Deserialize, Serialize};

use crate::authorization::AuthorizationRule;
use crate::{Error, ErrorKind, Result};

/// The status of an entity, which allows or forbids sending and receiving (B-396).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum EntityStatus {
    /// Both.
    #[default]
    Active,
    /// Neither.
    Disabled,
    /// Receive only.
    SendDisabled,
    /// Send only.
    ReceiveDisabled,
}

impl EntityStatus {
    /// True if messages can be sent.
    pub fn allows_send(self) -> bool {
        matches!(self, Self::Active | Self::ReceiveDisabled)
    }

    /// True if messages can be received.
    pub fn allows_receive(self) -> bool {
        matches!(self, Self::Active | Self::SendDisabled)
    }
}

/// When the lock of a message in a receive cache starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LockPolicy {
    /// At delivery. Cached messages are unlocked, and return to the queue when another receiver waits.
    #[default]
    Fresh,
    /// When the cache takes the message from its partition, as in the service (B-126, B-134).
    Faithful,
}

/// The order of a browse that names no sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PeekPolicy {
    /// All partitions, merged by enqueued time.
    #[default]
    Merged,
    /// One partition at a time, as in the service (B-297).
    Faithful,
}

/// The mode of a receiver: it settles its messages, or the broker deletes them at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReceiveMode {
    /// Lock, then settle (B-146).
    #[default]
    PeekLock,
    /// The delivery removes the message.
    ReceiveAndDelete,
}

/// The failures that an acknowledged send or settlement survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// Nothing: messages are only in memory.
    Memory,
    /// The death of the process, and a power loss after [`OS_SYNC_INTERVAL_MS`](crate::caps::OS_SYNC_INTERVAL_MS).
    Os,
    /// A power loss.
    Fsync,
}

impl Durability {
    /// Its name in options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Os => "os",
            Self::Fsync => "fsync",
        }
    }
}

/// The complete, valid settings of an entity.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a separate setting in the service, too"
)]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueSettings {
    /// True for one cell in each partition of the namespace, false for a single cell. Fixed at creation (B-008).
    pub enable_partitioning: bool,
    /// Milliseconds a message lock lasts.
    pub lock_duration_ms: u64,
    /// Deliveries before a message is dead-lettered.
    pub max_delivery_count: u32,
    /// Time to live, in milliseconds, of messages that set none, or `None` for unlimited.
    pub default_time_to_live_ms: Option<u64>,
    /// True if expired messages go to the dead-letter queue.
    pub dead_lettering_on_message_expiration: bool,
    /// Megabytes of messages in each partition, or `None` for unlimited.
    pub max_size_megabytes: Option<u64>,
    /// Kilobytes of one message. `None` for the tier's limit or, without a tier, the largest limit.
    pub max_message_size_kilobytes: Option<u64>,
    /// The status, which allows or forbids sending and receiving.
    pub status: EntityStatus,
    /// The user's text.
    pub user_metadata: String,
    /// Stored and shown, but without effect.
    pub enable_batched_operations: bool,
    /// Stored and shown, but without effect.
    pub enable_express: bool,
    /// True if copies that arrive within the window are dropped. Fixed at creation (B-218).
    #[serde(default)]
    pub requires_duplicate_detection: bool,
    /// Milliseconds for which the id of a message is remembered (B-223).
    #[serde(default = "duplicate_window_default")]
    pub duplicate_window_ms: u64,
    /// The entity to which messages are forwarded (B-331).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward_to: Option<String>,
    /// The entity to which dead-lettered messages are forwarded (B-269).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward_dead_letters_to: Option<String>,
    /// Milliseconds without use after which the entity is deleted, or `None` for never (B-382).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_delete_on_idle_ms: Option<u64>,
    /// True if messages are received by session. Fixed at creation (B-181).
    #[serde(default)]
    pub requires_session: bool,
    /// When a message of a session expires during receive, all messages of the session expire (B-209).
    #[serde(default)]
    pub expire_whole_sessions: bool,
    /// Rights on this entity beside those of the namespace's rules. Servers enforce them (B-046).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub authorization_rules: Vec<AuthorizationRule>,
}

fn duplicate_window_default() -> u64 {
    DUPLICATE_WINDOW_MS_DEFAULT
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self {
            enable_partitioning: false,
            lock_duration_ms: LOCK_DURATION_MS_DEFAULT,
            max_delivery_count: MAX_DELIVERY_COUNT_DEFAULT,
            default_time_to_live_ms: None,
            dead_lettering_on_message_expiration: false,
            max_size_megabytes: None,
            max_message_size_kilobytes: None,
            status: EntityStatus::Active,
            user_metadata: String::new(),
            enable_batched_operations: true,
            enable_express: false,
            requires_duplicate_detection: false,
            duplicate_window_ms: DUPLICATE_WINDOW_MS_DEFAULT,
            forward_to: None,
            forward_dead_letters_to: None,
            auto_delete_on_idle_ms: None,
            requires_session: false,
            expire_whole_sessions: false,
            authorization_rules: Vec::new(),
        }
    }
}

impl QueueSettings {
    /// Rejects a value out of range. The error names option, range and value.
    pub fn check(&self) -> Result<()> {
        in_range(
            "lock_duration",
            self.lock_duration_ms,
            LOCK_DURATION_MS_MIN,
            LOCK_DURATION_MS_MAX,
            "ms",
        )?;
        in_range(
            "max_delivery_count",
            self.max_delivery_count.into(),
            1,
            MAX_DELIVERY_COUNT_MAX.into(),
            "deliveries",
        )?;
        if let Some(ms) = self.default_time_to_live_ms {
            in_range(
                "default_message_time_to_live",
                ms,
                TIME_TO_LIVE_MS_MIN,
                DURATION_MS_NEVER,
                "ms",
            )?;
        }
        if let Some(megabytes) = self.max_size_megabytes {
            in_range("max_size_in_megabytes", megabytes, 1, MAX_SIZE_MEGABYTES_MAX, "MiB")?;
        }
        if let Some(kilobytes) = self.max_message_size_kilobytes {
            in_range(
                "max_message_size_in_kilobytes",
                kilobytes,
                1,
                MESSAGE_SIZE_KILOBYTES_MAX,
                "KiB",
            )?;
        }
        in_range(
            "duplicate_detection_history_time_window",
            self.duplicate_window_ms,
            DUPLICATE_WINDOW_MS_MIN,
            DUPLICATE_WINDOW_MS_MAX,
            "ms",
        )?;
        if let Some(ms) = self.auto_delete_on_idle_ms {
            in_range(
                "auto_delete_on_idle",
                ms,
                AUTO_DELETE_ON_IDLE_MS_MIN,
                DURATION_MS_NEVER,
                "ms",
            )?;
        }
        AuthorizationRule::check_all(&self.authorization_rules)?;
        let chars = self.user_metadata.chars().count();
        in_range(
            "user_metadata",
            chars as u64,
            0,
            USER_METADATA_CHARS_MAX as u64,
            "characters",
        )
    }

    /// Rejects changes of settings that are fixed at creation (B-008).
    pub fn check_change(&self, next: &Self) -> Result<()> {
        if self.enable_partitioning != next.enable_partitioning {
            let detail =
                "Partitioning can't be changed for Queue/Topic. Create a queue of another name and move the messages.";
            return Err(Error::new(ErrorKind::InvalidOperation, detail));
        }
        if self.requires_duplicate_detection != next.requires_duplicate_detection {
            let detail = "requires_duplicate_detection can't be changed for Queue/Topic. Create a queue of another name and move the \
                          messages.";
            return Err(Error::new(ErrorKind::InvalidOperation, detail));
        }
        if self.requires_session != next.requires_session {
            let detail = "requires_session can't be changed for Queue/Topic. Create a queue of another name and move the messages.";
            return Err(Error::new(ErrorKind::InvalidOperation, detail));
        }
        next.check()
    }

    /// The size to show in management, in megabytes.
    pub fn shown_max_size_megabytes(&self) -> u64 {
        self.max_size_megabytes.unwrap_or(MAX_SIZE_MEGABYTES_DEFAULT)
    }
}

/// Rejects a value outside `min..=max`.
#[inline]
pub fn in_range(name: &str, value: u64, min: u64, max: u64, unit: &str) -> Result<()> {
    if (min..=max).contains(&value) {
        Ok(())
    } else {
        Err(out_of_range(name, value, min, max, unit))
    }
}

#[cold]
fn out_of_range(name: &str, value: u64, min: u64, max: u64, unit: &str) -> Error {
    let detail = format!("{name} is out of range; use {min} to {max} {unit}: {value} {unit}");
    Error::new(ErrorKind::InvalidArgument, detail)
}
