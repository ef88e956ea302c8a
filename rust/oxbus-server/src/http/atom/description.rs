// SPDX-License-Identifier: Apache-2.0
//! Descriptions of entities, with elements in the order of the data contracts (B-461).

use oxbus_store::Wait;
use std::sync::Arc;

use oxbus_broker::Namespace;
use oxbus_broker::entity::{Entity, PartitionCounts};
use oxbus_model::Result;
use oxbus_model::tier::Tier;

use super::xml::XmlWriter;
use super::{COUNTS, INSTANCE, SERVICE_BUS, authorization, duration, forwarding, times};

fn begin(name: &str, out: &mut XmlWriter) {
    out.open(name, &format!("xmlns=\"{SERVICE_BUS}\" xmlns:i=\"{INSTANCE}\""));
}

fn availability(entity: &Entity) -> &'static str {
    if entity.is_available() { "Available" } else { "Limited" }
}

fn write_times(entity: &Entity, out: &mut XmlWriter) {
    let (created, updated, accessed) = entity.times();
    out.text("CreatedAt", times::format_time(created));
    out.text("UpdatedAt", times::format_time(updated));
    out.text("AccessedAt", times::format_optional(accessed));
}

fn write_counts(counts: &PartitionCounts, out: &mut XmlWriter) {
    out.open("CountDetails", &format!("xmlns:d2p1=\"{COUNTS}\""));
    out.text("d2p1:ActiveMessageCount", counts.active);
    out.text("d2p1:DeadLetterMessageCount", counts.dead_letter);
    out.text("d2p1:ScheduledMessageCount", counts.scheduled);
    out.text("d2p1:TransferMessageCount", counts.transfer);
    out.text("d2p1:TransferDeadLetterMessageCount", 0);
    out.close("CountDetails");
}

/// Counts every message once (B-391).
fn message_count(counts: &PartitionCounts) -> u64 {
    counts.active + counts.dead_letter + counts.scheduled + counts.transfer
}

fn write_forward(name: &str, path: Option<&String>, host: &str, out: &mut XmlWriter) {
    out.text_if_some(name, path.map(|path| forwarding::address(host, path)));
}

/// Writes the description of a queue.
pub(super) fn queue(queue: &Entity, host: &str, out: &mut XmlWriter, wait: &Wait<'_>) -> Result<()> {
    let settings = queue.settings();
    let counts = queue.counts(wait)?.total;
    begin("QueueDescription", out);
    out.text("LockDuration", duration::format_ms(Some(settings.lock_duration_ms)));
    out.text("MaxSizeInMegabytes", settings.shown_max_size_megabytes());
    out.text("RequiresDuplicateDetection", settings.requires_duplicate_detection);
    out.text("RequiresSession", settings.requires_session);
    out.text(
        "DefaultMessageTimeToLive",
        duration::format_ms(settings.default_time_to_live_ms),
    );
    out.text(
        "DeadLetteringOnMessageExpiration",
        settings.dead_lettering_on_message_expiration,
    );
    out.text(
        "DuplicateDetectionHistoryTimeWindow",
        duration::format_ms(Some(settings.duplicate_window_ms)),
    );
    out.text("MaxDeliveryCount", settings.max_delivery_count);
    out.text("EnableBatchedOperations", settings.enable_batched_operations);
    out.text("SizeInBytes", counts.size_bytes);
    out.text("MessageCount", message_count(&counts));
    out.text("IsAnonymousAccessible", false);
    authorization::write(&settings.authorization_rules, out);
    out.text("Status", format_args!("{:?}", settings.status));
    write_times(queue, out);
    out.text("SupportOrdering", true);
    write_counts(&counts, out);
    out.text("AutoDeleteOnIdle", duration::format_ms(settings.auto_delete_on_idle_ms));
    out.text("EnablePartitioning", settings.enable_partitioning);
    out.text("EntityAvailabilityStatus", availability(queue));
    out.text("EnableExpress", settings.enable_express);
    write_forward("ForwardTo", settings.forward_to.as_ref(), host, out);
    out.text("UserMetadata", &settings.user_metadata);
    write_forward(
        "ForwardDeadLetteredMessagesTo",
        settings.forward_dead_letters_to.as_ref(),
        host,
        out,
    );
    out.text(
        "MaxMessageSizeInKilobytes",
        queue.settings().message_size_bytes_max >> 10,
    );
    out.close("QueueDescription");
    Ok(())
}

/// Writes the description of a topic.
pub(super) fn topic(topic: &Arc<Entity>, out: &mut XmlWriter, wait: &Wait<'_>) -> Result<()> {
    let settings = topic.settings();
    let counts = topic.counts(wait)?.total;
    let subscriptions = topic.subscriptions();
    let bytes = |it: &Arc<Entity>| Ok(it.counts(wait)?.total.size_bytes);
    let theirs: u64 = subscriptions.iter().map(bytes).sum::<Result<_>>()?;
    let (sql_filters, correlation_filters) = topic.filters();
    begin("TopicDescription", out);
    out.text(
        "DefaultMessageTimeToLive",
        duration::format_ms(settings.default_time_to_live_ms),
    );
    out.text("MaxSizeInMegabytes", settings.shown_max_size_megabytes());
    out.text("RequiresDuplicateDetection", settings.requires_duplicate_detection);
    out.text(
        "DuplicateDetectionHistoryTimeWindow",
        duration::format_ms(Some(settings.duplicate_window_ms)),
    );
    out.text("EnableBatchedOperations", settings.enable_batched_operations);
    out.text("SizeInBytes", counts.size_bytes + theirs);
    out.text("FilteringMessagesBeforePublishing", false);
    out.text("IsAnonymousAccessible", false);
    authorization::write(&settings.authorization_rules, out);
    out.text("Status", format_args!("{:?}", settings.status));
    write_times(topic, out);
    out.text("SupportOrdering", topic.supports_ordering());
    write_counts(&counts, out);
    out.text("SubscriptionCount", subscriptions.len());
    out.text("SqlFilterCount", sql_filters);
    out.text("CorrelationFilterCount", correlation_filters);
    out.text("AutoDeleteOnIdle", duration::format_ms(settings.auto_delete_on_idle_ms));
    out.text("EnablePartitioning", settings.enable_partitioning);
    out.text("EntityAvailabilityStatus", availability(topic));
    out.text("EnableSubscriptionPartitioning", settings.enable_partitioning);
    out.text("EnableExpress", settings.enable_express);
    out.text("UserMetadata", &settings.user_metadata);
    out.text(
        "MaxMessageSizeInKilobytes",
        topic.settings().message_size_bytes_max >> 10,
    );
    out.close("TopicDescription");
    Ok(())
}

/// Writes the description of a subscription.
pub(super) fn subscription(subscription: &Entity, host: &str, out: &mut XmlWriter, wait: &Wait<'_>) -> Result<()> {
    let settings = subscription.settings();
    let counts = subscription.counts(wait)?.total;
    begin("SubscriptionDescription", out);
    out.text("LockDuration", duration::format_ms(Some(settings.lock_duration_ms)));
    out.text("RequiresSession", settings.requires_session);
    out.text(
        "DefaultMessageTimeToLive",
        duration::format_ms(settings.default_time_to_live_ms),
    );
    out.text(
        "DeadLetteringOnMessageExpiration",
        settings.dead_lettering_on_message_expiration,
    );
    out.text(
        "DeadLetteringOnFilterEvaluationExceptions",
        subscription.dead_letters_failed(),
    );
    out.text("MessageCount", message_count(&counts));
    out.text("MaxDeliveryCount", settings.max_delivery_count);
    out.text("EnableBatchedOperations", settings.enable_batched_operations);
    out.text("Status", format_args!("{:?}", settings.status));
    write_forward("ForwardTo", settings.forward_to.as_ref(), host, out);
    write_times(subscription, out);
    write_counts(&counts, out);
    write_forward(
        "ForwardDeadLetteredMessagesTo",
        settings.forward_dead_letters_to.as_ref(),
        host,
        out,
    );
    out.text("AutoDeleteOnIdle", duration::format_ms(settings.auto_delete_on_idle_ms));
    out.text("EntityAvailabilityStatus", availability(subscription));
    out.text("UserMetadata", &settings.user_metadata);
    out.close("SubscriptionDescription");
    Ok(())
}

/// Writes the description of a namespace.
pub(super) fn namespace(namespace: &Namespace, out: &mut XmlWriter) {
    let (created, modified) = namespace.times();
    begin("NamespaceInfo", out);
    out.text("CreatedTime", times::format_time(created));
    out.text_if_some("MessagingSKU", namespace.plan().tier.map(Tier::name));
    out.text("ModifiedTime", times::format_time(modified));
    out.text("Name", name(namespace));
    out.text("NamespaceType", "Messaging");
    out.close("NamespaceInfo");
}

/// The name of a namespace: its directory name.
pub(super) fn name(namespace: &Namespace) -> String {
    let dir = namespace.stores().map(|stores| stores.dir().to_path_buf());
    let name = dir.as_ref().and_then(|dir| dir.file_name()?.to_str());
    name.unwrap_or("memory").to_owned()
}
