// SPDX-License-Identifier: Apache-2.0
//! Groups many messages of one call by partition, for tables, AMQP and stages.
//!
//! All messages are encoded before the first is stored. The messages of one partition are stored together and in order.
//! If a partition rejects them, those with a key are not stored and those without one go to another partition.

use oxbus_store::Wait;
use oxbus_store::suspended::run_now;
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::Range;

use oxbus_model::{Effect, Error, ErrorKind, PartitionId, Result};

use super::sender::{NotStored, Sender};
use crate::write::{EncodedMessage, WriteError};

/// How messages without a key are distributed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keyless {
    /// Evenly over the partitions without a fault.
    Spread,
    /// All in the next partition of the sender's round robin.
    Together,
}

/// Round robin over the partitions for messages without a key.
#[derive(Debug)]
pub struct KeylessRotation {
    partitions: Vec<PartitionId>,
    next: usize,
}

impl KeylessRotation {
    /// The rotation for a sender's entity.
    pub(crate) fn of(sender: &Sender, keyless: Keyless) -> Self {
        let serves = |it: &PartitionId| sender.entity().shard(it.0.into()).health().fault().is_none();
        let rotation = sender.partition_order();
        Self {
            partitions: match keyless {
                Keyless::Spread => rotation.filter(serves).collect(),
                Keyless::Together => rotation.take(1).collect(),
            },
            next: 0,
        }
    }

    /// The partition of a message: that of its key, the requested one, or the next one. Fails if a message with a key
    /// has a requested partition.
    #[inline]
    pub(crate) fn choose(&mut self, message: &EncodedMessage, requested: Option<PartitionId>) -> Result<PartitionId> {
        match (message.partition(), requested) {
            (Some(_), Some(requested)) => Err(both_chosen(requested)),
            (Some(partition), None) | (None, Some(partition)) => Ok(partition),
            (None, None) => {
                let Some(partition) = self.partitions.get(self.next) else {
                    return Ok(PartitionId(0));
                };
                self.next = (self.next + 1) % self.partitions.len();
                Ok(*partition)
            }
        }
    }

    /// Divides messages over the partitions, consecutive ones together: each partition gets as many as the others, or
    /// one more. Returns the partitions with their numbers of messages.
    fn spread(&mut self, count: usize) -> Vec<(PartitionId, usize)> {
        let partitions = self.partitions.len();
        if partitions == 0 {
            return vec![(PartitionId(0), count)];
        }
        let (first, share, more) = (self.next, count / partitions, count % partitions);
        self.next = (first + more) % partitions;
        let turn = |turn| {
            let count = share + usize::from(turn < more);
            (self.partitions[(first + turn) % partitions], count)
        };
        (0..partitions).map(turn).filter(|(_, count)| *count > 0).collect()
    }
}

#[cold]
fn both_chosen(requested: PartitionId) -> Error {
    let detail = format!(
        "partition_id cannot be set together with a key, which selects the partition; set one of them: {requested}"
    );
    Error::new(ErrorKind::InvalidArgument, detail)
}

/// Messages of a call, grouped by partition.
pub struct Partitioner<S> {
    sender: S,
    rotation: KeylessRotation,
    groups: Vec<PartitionGroup>,
    count: usize,
}

/// Messages for one partition.
#[derive(Default)]
struct PartitionGroup {
    messages: Vec<EncodedMessage>,
    bytes: usize,
    positions: Vec<PositionRun>,
}

/// Positions in the call of consecutive messages.
#[derive(Debug, Clone, Copy)]
struct PositionRun {
    first: usize,
    count: usize,
    /// True if they may go to another partition.
    is_keyless: bool,
}

impl PositionRun {
    fn positions(self) -> Range<usize> {
        self.first..self.first + self.count
    }
}

/// Consecutive messages without a key, of one partition.
pub struct KeylessMessages<'a> {
    messages: &'a mut Vec<EncodedMessage>,
    bytes: &'a mut usize,
    /// Messages of the call.
    count: &'a mut usize,
}

impl KeylessMessages<'_> {
    /// Adds a message.
    #[inline]
    pub fn push(&mut self, message: EncodedMessage) {
        *self.bytes += message.bytes();
        *self.count += 1;
        self.messages.push(message);
    }
}

/// A message that was not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusedMessage {
    /// Its position in the call.
    pub position: usize,
    /// True if the message was certainly not stored. If false, the outcome is unknown until the partition is healed.
    pub is_definite: bool,
}

/// Result of storing the messages of a call.
#[derive(Debug, Default)]
pub struct SendSummary {
    /// Partition id → number of messages that it stored.
    pub stored: BTreeMap<u16, usize>,
    /// Messages that were not stored, or may not be, by ascending position.
    pub refused: Vec<RefusedMessage>,
    /// The first error, or the first error with an unknown effect.
    pub reason: Option<Error>,
}

impl SendSummary {
    fn refuse(&mut self, positions: &[PositionRun], is_definite: bool, error: Error) {
        let refused = positions
            .iter()
            .flat_map(|run| run.positions())
            .map(|position| RefusedMessage { position, is_definite });
        self.refused.extend(refused);
        let is_unknown = |error: &Error| error.effect() == Some(Effect::Unknown);
        match &self.reason {
            Some(known) if is_unknown(known) || !is_unknown(&error) => {}
            _ => self.reason = Some(error),
        }
    }
}

impl PartitionGroup {
    #[inline]
    fn push(&mut self, message: EncodedMessage, position: usize, is_keyless: bool) {
        self.bytes += message.bytes();
        self.messages.push(message);
        self.push_positions(PositionRun {
            first: position,
            count: 1,
            is_keyless,
        });
    }

    #[inline]
    fn push_positions(&mut self, next: PositionRun) {
        match self.positions.last_mut() {
            Some(run) if run.is_keyless == next.is_keyless && run.positions().end == next.first => {
                run.count += next.count;
            }
            _ => self.positions.push(next),
        }
    }

    /// Splits into messages with a key and messages without one.
    fn split(self) -> (Self, Self) {
        let (mut keyed, mut keyless) = (Self::default(), Self::default());
        let mut messages = self.messages.into_iter();
        for run in self.positions {
            let group = if run.is_keyless { &mut keyless } else { &mut keyed };
            for (position, message) in run.positions().zip(&mut messages) {
                group.push(message, position, run.is_keyless);
            }
        }
        (keyed, keyless)
    }

    /// Stores the messages in a partition. After an error the group still contains them.
    async fn send(
        &mut self,
        sender: &Sender,
        partition: PartitionId,
        wait: &Wait<'_>,
    ) -> std::result::Result<(), WriteError> {
        let messages = std::mem::take(&mut self.messages);
        let sent = sender.send_to(partition, messages, self.bytes, wait).await;
        sent.map_err(|NotStored { error, messages }| {
            self.messages = messages;
            error
        })
    }

    /// Stores the messages in the first other partition that accepts them. Returns it, or `None` if all rejected them.
    /// Fails if a partition may have stored them: another one could duplicate them.
    async fn send_elsewhere(
        &mut self,
        sender: &Sender,
        refused_by: PartitionId,
        wait: &Wait<'_>,
    ) -> std::result::Result<Option<PartitionId>, WriteError> {
        for partition in sender.partition_order().filter(|partition| *partition != refused_by) {
            match self.send(sender, partition, wait).await {
                Ok(()) => return Ok(Some(partition)),
                Err(error) if error.is_definite() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

impl<S: Borrow<Sender>> Partitioner<S> {
    /// A partitioner without messages.
    pub fn new(sender: S, keyless: Keyless) -> Result<Self> {
        let to = sender.borrow();
        to.check_sends()?;
        Ok(Self {
            rotation: KeylessRotation::of(to, keyless),
            groups: (0..to.entity().partitions())
                .map(|_| PartitionGroup::default())
                .collect(),
            count: 0,
            sender,
        })
    }

    /// The sender whose entity encodes the messages.
    pub fn sender(&self) -> &Sender {
        self.sender.borrow()
    }

    /// Number of messages.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Adds a message for the requested partition, or for that of its key, or for the next one.
    #[inline]
    pub fn push(&mut self, message: EncodedMessage, requested: Option<PartitionId>) -> Result<()> {
        let partition = self.rotation.choose(&message, requested)?;
        let is_keyless = message.partition().is_none() && requested.is_none();
        self.groups[usize::from(partition.0)].push(message, self.count, is_keyless);
        self.count += 1;
        Ok(())
    }

    /// Adds `count` messages without a key. `encode` encodes a range of them, in order, and passes each one on.
    pub fn push_keyless(
        &mut self,
        count: usize,
        mut encode: impl FnMut(Range<usize>, &mut KeylessMessages<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut first = 0;
        for (partition, count) in self.rotation.spread(count) {
            let group = &mut self.groups[usize::from(partition.0)];
            group.messages.reserve(count);
            group.push_positions(PositionRun {
                first: self.count,
                count,
                is_keyless: true,
            });
            let mut messages = KeylessMessages {
                messages: &mut group.messages,
                bytes: &mut group.bytes,
                count: &mut self.count,
            };
            encode(first..first + count, &mut messages)?;
            first += count;
        }
        Ok(())
    }

    /// Stores the messages.
    pub fn send(self, wait: &Wait<'_>) -> SendSummary {
        run_now(self.send_async(wait))
    }

    /// [`Partitioner::send`] for a call that may be suspended.
    pub async fn send_async(self, wait: &Wait<'_>) -> SendSummary {
        let sender = self.sender.borrow();
        let mut all = SendSummary::default();
        let mut rerouted = Vec::new();
        for (index, mut group) in self.groups.into_iter().enumerate() {
            if group.messages.is_empty() {
                continue;
            }
            let (partition, count) = (PartitionId(index as u16), group.messages.len());
            match group.send(sender, partition, wait).await {
                Ok(()) => *all.stored.entry(partition.0).or_default() += count,
                // The messages may have been stored; storing them elsewhere could duplicate them.
                Err(error) if !error.is_definite() => all.refuse(&group.positions, false, error.into()),
                Err(error) => {
                    let (keyed, keyless) = group.split();
                    let error = Error::from(error);
                    all.refuse(&keyed.positions, true, error.clone());
                    rerouted.push((partition, keyless, error));
                }
            }
        }
        for (refused_by, mut group, error) in rerouted {
            let count = group.messages.len();
            if count == 0 {
                continue;
            }
            match group.send_elsewhere(sender, refused_by, wait).await {
                Ok(Some(partition)) => *all.stored.entry(partition.0).or_default() += count,
                Ok(None) => all.refuse(&group.positions, true, error),
                Err(error) => all.refuse(&group.positions, false, error.into()),
            }
        }
        all.refused.sort_unstable_by_key(|refused| refused.position);
        all
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use oxbus_model::message::{Body, Fields};
    use oxbus_model::options::{Durability, QueueSettings};
    use oxbus_model::{Effect, PartitionId};
    use oxbus_store::Wait;
    use oxbus_store::fault::FaultDisk;
    use oxbus_store::injected::DiskFault;

    use super::{Keyless, Partitioner, RefusedMessage};
    use crate::durable::StoreOptions;
    use crate::shard::{InjectedFault, PartitionFault};
    use crate::{Namespace, NamespaceOptions};

    fn open() -> Namespace {
        let namespace = Namespace::open(NamespaceOptions {
            store: Some(StoreOptions {
                path: PathBuf::from("/bus"),
                durability: Durability::Fsync,
                owned: None,
                disk: Some(Arc::new(FaultDisk::default())),
                segment_bytes: None,
            }),
            partitions: Some(3),
            ..NamespaceOptions::default()
        });
        let namespace = namespace.expect("the disk is well");
        let settings = QueueSettings {
            enable_partitioning: true,
            ..QueueSettings::default()
        };
        namespace
            .create_queue("q", settings, &Wait::FOREVER)
            .expect("it is new");
        namespace
    }

    #[test]
    fn a_rerouted_message_that_may_be_stored_goes_nowhere_else() {
        // Regression: after a second partition failed with an unknown effect, a third one stored the message too.
        let namespace = open();
        let sender = namespace.sender("q").expect("the queue exists");
        let fields = Fields {
            body: Body::Data(b"once"),
            ..Fields::default()
        };
        for _ in 0..3 {
            // Afterwards each partition has a segment. A sync that fails while a segment is made has no effect.
            sender.send(&fields, None, &Wait::FOREVER).expect("the disk is well");
        }
        let mut partitioner = Partitioner::new(&sender, Keyless::Spread).expect("the queue accepts messages");
        let message = sender.entity().encode(&fields).expect("a valid message");
        partitioner.push(message, None).expect("it has no key");
        let chosen = partitioner.groups.iter().position(|group| !group.messages.is_empty());
        let chosen = chosen.expect("a partition has it") as u16;
        let inject = |partition: u16, fault| {
            let injected = namespace.inject_fault(PartitionId(partition % 3), fault, 0);
            injected.expect("the partition is healthy");
        };
        inject(chosen, InjectedFault::Shard(PartitionFault::Busy));
        inject(chosen + 1, InjectedFault::Disk(DiskFault::Sync));
        let summary = partitioner.send(&Wait::FOREVER);
        assert_eq!(summary.stored.values().sum::<usize>(), 0, "{summary:?}");
        let doubtful = RefusedMessage {
            position: 0,
            is_definite: false,
        };
        assert_eq!(summary.refused, [doubtful]);
        let reason = summary.reason.expect("the message was refused");
        assert_eq!(reason.effect(), Some(Effect::Unknown), "{reason}");
    }
}
