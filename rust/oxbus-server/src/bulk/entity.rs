// SPDX-License-Identifier: Apache-2.0
//! Receivers for `queue` and `topic/Subscriptions/name`, each optionally followed by `/$deadletterqueue`.

use oxbus_broker::{Namespace, Receiver, ReceiverOptions};
use oxbus_model::name::EntityName;
use oxbus_model::options::ReceiveMode;
use oxbus_model::{PartitionId, Result};

/// Opens a receiver of one partition or of all.
pub(super) fn receiver(
    namespace: &Namespace,
    path: &str,
    mode: ReceiveMode,
    partition: Option<PartitionId>,
) -> Result<Receiver> {
    let (entity, sub_queue) = EntityName::split_sub_queue(path);
    let options = ReceiverOptions {
        sub_queue,
        mode,
        partition,
        ..ReceiverOptions::default()
    };
    namespace.receiver(entity, options)
}
