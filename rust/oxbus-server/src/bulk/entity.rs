// SPDX-License-Identifier: Apache-2.0
//! What is received from: `queue`, `topic/Subscriptions/name`, each with `/$deadletterqueue` behind it.

use oxbus_broker::{Namespace, Receiver, ReceiverOptions};
use oxbus_model::name::EntityName;
use oxbus_model::options::ReceiveMode;
use oxbus_model::{PartitionId, Result};

/// A receiver of one partition or of all.
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
