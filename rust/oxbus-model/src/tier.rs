// SPDX-License-Identifier: Apache-2.0
//! Service tiers and documentation editions: their restrictions and quotas (B-001 … B-015, B-025 … B-055, B-466).

use crate::caps::{
    AUTO_DELETE_ON_IDLE_MS_MIN, BASIC_TIME_TO_LIVE_MS_MAX, BATCH_SIZE_BYTES_DEFAULT, CORRELATION_FILTERS_MAX,
    DURATION_MS_NEVER, ENTITIES_MAX, MESSAGE_SIZE_BYTES_MAX, PARTITIONED_ENTITIES_MAX, PARTITIONS_DEFAULT,
    PREMIUM_ENTITIES_MAX, PREMIUM_MESSAGE_SIZE_BYTES_DEFAULT, SQL_FILTERS_MAX, STANDARD_MESSAGE_SIZE_BYTES_MAX,
    TIER_DUPLICATE_WINDOW_MS_MAX, TIER_DUPLICATE_WINDOW_MS_MIN, TIER_LOCK_DURATION_MS_MAX, TIER_LOCK_DURATION_MS_MIN,
};
use crate::options::{QueueSettings, in_range};
use crate::{EntityKind, Error, ErrorKind, Result};

/// A service tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// Only queues.
    Basic,
    /// All features; partitioning is an option of each entity.
    Standard,
    /// All features; all entities are partitioned, or none.
    Premium,
}

/// An edition of the service documentation's page on partitioning (B-466).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Profile {
    /// The latest edition.
    #[default]
    Current,
    /// Premium has no partitioning.
    Edition2019,
    /// Entities are partitioned by default; in Premium always, with two partitions.
    Edition2017,
}

/// The tier and edition of a namespace. Without a tier, the wider limits of oxbus apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServicePlan {
    /// The tier, if there is one.
    pub tier: Option<Tier>,
    /// The edition.
    pub profile: Profile,
}

impl Tier {
    /// Its name in the service.
    pub fn name(self) -> &'static str {
        match self {
            Self::Basic => "Basic",
            Self::Standard => "Standard",
            Self::Premium => "Premium",
        }
    }

    fn sizes_megabytes(self) -> &'static [u64] {
        match self {
            Self::Basic | Self::Standard => &[1024, 2048, 3072, 4096, 5120],
            Self::Premium => &[1024, 2048, 3072, 4096, 5120, 10_240, 20_480, 40_960, 81_920],
        }
    }

    /// Default limit of a message, in bytes.
    pub fn message_size_bytes_default(self) -> usize {
        match self {
            Self::Basic | Self::Standard => STANDARD_MESSAGE_SIZE_BYTES_MAX,
            Self::Premium => PREMIUM_MESSAGE_SIZE_BYTES_DEFAULT,
        }
    }

    fn check_size(self, megabytes: Option<u64>) -> Result<()> {
        let allowed = self.sizes_megabytes();
        match megabytes.filter(|it| !allowed.contains(it)) {
            None => Ok(()),
            Some(megabytes) => {
                let tier = self.name();
                let detail = format!(
                    "max_size_in_megabytes is not a size of the {tier} tier; use one of {allowed:?}: {megabytes}"
                );
                Err(Error::new(ErrorKind::InvalidArgument, detail))
            }
        }
    }

    /// Limit of a batch, in bytes.
    pub fn batch_size_bytes_max(self) -> usize {
        match self {
            Self::Basic | Self::Standard => STANDARD_MESSAGE_SIZE_BYTES_MAX,
            Self::Premium => BATCH_SIZE_BYTES_DEFAULT,
        }
    }
}

fn refused(detail: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, detail)
}

impl ServicePlan {
    /// The number of partitions of a new namespace (B-004, B-006).
    pub fn partitions(self, requested: Option<u16>) -> Result<u16> {
        let (default, allowed): (u16, &[u16]) = match (self.tier, self.profile) {
            (None, _) => return Ok(requested.unwrap_or(PARTITIONS_DEFAULT)),
            (Some(Tier::Basic | Tier::Standard), _) => (PARTITIONS_DEFAULT, &[PARTITIONS_DEFAULT]),
            (Some(Tier::Premium), Profile::Current) => (1, &[1, 2, 4]),
            (Some(Tier::Premium), Profile::Edition2019) => (1, &[1]),
            (Some(Tier::Premium), Profile::Edition2017) => (2, &[2]),
        };
        let partitions = requested.unwrap_or(default);
        if allowed.contains(&partitions) {
            return Ok(partitions);
        }
        let tier = self.tier.map_or("", Tier::name);
        Err(refused(format!(
            "a namespace of the {tier} tier cannot have this number of partitions; use one of {allowed:?}: partitions={partitions}"
        )))
    }

    /// True if a new entity is partitioned. `requested` is its option, if set (B-005, B-007, B-010).
    pub fn is_partitioned(self, requested: Option<bool>, partitions: u16) -> bool {
        match (self.tier, self.profile) {
            (Some(Tier::Premium), Profile::Edition2017) => true,
            (Some(Tier::Premium), Profile::Edition2019) => false,
            (Some(Tier::Premium), Profile::Current) => matches!(partitions, 2 | 4),
            (Some(Tier::Standard), Profile::Edition2017) => requested.unwrap_or(true),
            _ => requested.unwrap_or(false),
        }
    }

    /// Sets unset settings of a new entity to the tier's defaults.
    pub fn complete(self, settings: &mut QueueSettings) {
        let Some(tier) = self.tier else { return };
        settings.max_size_megabytes.get_or_insert(1024);
        let default = tier.message_size_bytes_default();
        settings.max_message_size_kilobytes.get_or_insert(default as u64 >> 10);
        if tier == Tier::Basic {
            settings
                .default_time_to_live_ms
                .get_or_insert(BASIC_TIME_TO_LIVE_MS_MAX);
        }
    }

    /// Limit of a message, in bytes: from the settings, else from the tier.
    pub fn message_size_bytes_max(self, settings: &QueueSettings) -> usize {
        let default = self
            .tier
            .map_or(MESSAGE_SIZE_BYTES_MAX, Tier::message_size_bytes_default);
        settings
            .max_message_size_kilobytes
            .map_or(default, |kilobytes| (kilobytes as usize) << 10)
    }

    /// The limit of a message to show in management, in kilobytes.
    pub fn shown_max_message_size_kilobytes(self, settings: &QueueSettings) -> u64 {
        self.message_size_bytes_max(settings) as u64 >> 10
    }

    /// Rejects settings that the tier does not allow. `before` are the settings before an update; unchanged settings
    /// are not checked, since the entity may come from another tier.
    pub fn check(self, kind: EntityKind, settings: &QueueSettings, before: Option<&QueueSettings>) -> Result<()> {
        let Some(tier) = self.tier else { return Ok(()) };
        if tier == Tier::Basic {
            check_basic(kind, settings, before)?;
        }
        if is_new(settings, before, |it| it.lock_duration_ms) {
            check_lock_duration(settings.lock_duration_ms)?;
        }
        if is_new(settings, before, |it| it.duplicate_window_ms) {
            in_range(
                "duplicate_detection_history_time_window",
                settings.duplicate_window_ms,
                TIER_DUPLICATE_WINDOW_MS_MIN,
                TIER_DUPLICATE_WINDOW_MS_MAX,
                "ms",
            )?;
        }
        if let Some(ms) = settings.auto_delete_on_idle_ms
            && is_new(settings, before, |it| it.auto_delete_on_idle_ms)
        {
            in_range(
                "auto_delete_on_idle",
                ms,
                AUTO_DELETE_ON_IDLE_MS_MIN,
                DURATION_MS_NEVER,
                "ms",
            )?;
        }
        if is_new(settings, before, |it| it.max_size_megabytes) {
            tier.check_size(settings.max_size_megabytes)?;
        }
        let are_both = |it: &QueueSettings| it.enable_express && it.requires_duplicate_detection;
        if are_both(settings) && is_new(settings, before, are_both) {
            let detail = "Both DelayedPersistence and RequiresDuplicateDetection property can't be enabled together. Leave \
                          enable_express out.";
            return Err(Error::new(ErrorKind::InvalidOperation, detail));
        }
        match settings.max_message_size_kilobytes {
            Some(kilobytes) if is_new(settings, before, |it| it.max_message_size_kilobytes) => {
                let limit = match tier {
                    Tier::Premium if !settings.enable_partitioning => MESSAGE_SIZE_BYTES_MAX,
                    _ => tier.message_size_bytes_default(),
                };
                in_range("max_message_size_in_kilobytes", kilobytes, 1, limit as u64 >> 10, "KiB")
            }
            _ => Ok(()),
        }
    }

    /// Rejects a new entity beyond the quota (B-040, B-041).
    pub fn check_count(self, entities: usize, partitioned: usize, is_partitioned: bool) -> Result<()> {
        let Some(tier) = self.tier else { return Ok(()) };
        let limit = if tier == Tier::Premium {
            PREMIUM_ENTITIES_MAX
        } else {
            ENTITIES_MAX
        };
        if entities >= limit {
            let detail = format!("the namespace has reached its limit of {limit} queues and topics; delete one first");
            return Err(Error::new(ErrorKind::QuotaExceeded, detail));
        }
        if tier != Tier::Premium && is_partitioned && partitioned >= PARTITIONED_ENTITIES_MAX {
            let detail = format!(
                "The maximum number of resources of type `EnablePartioning == true` has been reached or exceeded. Delete one of the \
                 {PARTITIONED_ENTITIES_MAX} partitioned entities, or leave enable_partitioning out."
            );
            return Err(Error::new(ErrorKind::QuotaExceeded, detail));
        }
        Ok(())
    }

    /// Limit of the messages of one peek, in bytes (B-295). In older editions it is 256 KB for all tiers.
    pub fn peek_size_bytes_max(self) -> Option<usize> {
        let tier = self.tier?;
        Some(match self.profile {
            Profile::Current => tier.batch_size_bytes_max(),
            Profile::Edition2019 | Profile::Edition2017 => STANDARD_MESSAGE_SIZE_BYTES_MAX,
        })
    }

    /// Rejects a filter beyond the quota (B-042). `sql` and `correlation` are a topic's counts before and after a
    /// change.
    pub fn check_filters(self, topic: &str, sql: (usize, usize), correlation: (usize, usize)) -> Result<()> {
        let kinds = [
            ("SQL", sql, SQL_FILTERS_MAX),
            ("correlation", correlation, CORRELATION_FILTERS_MAX),
        ];
        for (kind, (before, after), limit) in kinds {
            if self.tier.is_some() && after > limit && after > before {
                let detail = format!(
                    "the topic has reached its limit of {limit} {kind} filters; delete a rule, or use another topic: `{topic}`"
                );
                return Err(Error::new(ErrorKind::QuotaExceeded, detail));
            }
        }
        Ok(())
    }

    /// Rejects transactions in a tier without them (B-001).
    pub fn check_transactions(self) -> Result<()> {
        if self.tier == Some(Tier::Basic) {
            return Err(refused(
                "the Basic tier has no transactions; open the namespace with tier=\"standard\"".to_owned(),
            ));
        }
        Ok(())
    }
}

/// True if this call sets the option to a new value.
fn is_new<T: PartialEq>(
    settings: &QueueSettings,
    before: Option<&QueueSettings>,
    option: impl Fn(&QueueSettings) -> T,
) -> bool {
    before.is_none_or(|before| option(before) != option(settings))
}

fn check_lock_duration(ms: u64) -> Result<()> {
    if ms > TIER_LOCK_DURATION_MS_MAX {
        let detail = "The supplied lock time exceeds the allowed maximum of '5' minutes. Use a shorter lock_duration.";
        return Err(Error::new(ErrorKind::InvalidArgument, detail));
    }
    in_range(
        "lock_duration",
        ms,
        TIER_LOCK_DURATION_MS_MIN,
        TIER_LOCK_DURATION_MS_MAX,
        "ms",
    )
}

/// Rejects features that Basic does not have (B-001, B-002).
fn check_basic(kind: EntityKind, settings: &QueueSettings, before: Option<&QueueSettings>) -> Result<()> {
    if kind != EntityKind::Queue && before.is_none() {
        return Err(refused(
            "SubCode=40000. The Basic tier has no topics; open the namespace with tier=\"standard\"".to_owned(),
        ));
    }
    let usual = QueueSettings {
        default_time_to_live_ms: Some(BASIC_TIME_TO_LIVE_MS_MAX),
        ..QueueSettings::default()
    };
    let usual = before.unwrap_or(&usual);
    let (express, sessions, detection) = (
        |it: &QueueSettings| it.enable_express.then_some(()),
        |it: &QueueSettings| it.requires_session.then_some(()),
        |it: &QueueSettings| it.requires_duplicate_detection.then_some(()),
    );
    let set = [
        ("RequiresDuplicateDetection", is_set(settings, usual, detection)),
        (
            "AutoDeleteOnIdle",
            is_set(settings, usual, |it| it.auto_delete_on_idle_ms),
        ),
        ("RequiresSession", is_set(settings, usual, sessions)),
        (
            "DefaultMessageTimeToLive",
            settings.default_time_to_live_ms != usual.default_time_to_live_ms,
        ),
        (
            "DuplicateDetectionHistoryTimeWindow",
            settings.duplicate_window_ms != usual.duplicate_window_ms,
        ),
        ("EnableExpress", is_set(settings, usual, express)),
        ("ForwardTo", is_set(settings, usual, |it| it.forward_to.clone())),
        (
            "ForwardDeadLetteredMessagesTo",
            is_set(settings, usual, |it| it.forward_dead_letters_to.clone()),
        ),
    ];
    match set.iter().find(|(_, is_set)| *is_set) {
        None => Ok(()),
        Some((name, _)) => Err(refused(format!(
            "SubCode=40000. The property '{name}' can't be set when creating a {kind:?} because the namespace is using the 'Basic' \
             Tier. Leave it out, or open the namespace with tier=\"standard\"."
        ))),
    }
}

/// True if the option is set and differs from `usual`.
fn is_set<T: PartialEq>(
    settings: &QueueSettings,
    usual: &QueueSettings,
    option: impl Fn(&QueueSettings) -> Option<T>,
) -> bool {
    let value = option(settings);
    value.is_some() && value != option(usual)
}
