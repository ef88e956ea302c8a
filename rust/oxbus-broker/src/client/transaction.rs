// SPDX-License-Identifier: Apache-2.0
//! A transaction: sends, settlements and session states of one partition that take effect together or not at all
//! (B-306 … B-330).
//!
//! Operations are checked and collected here; no store changes before the commit. A message settled in a transaction
//! stays locked by its receiver, which can settle it again after a rollback (B-316).

use oxbus_store::Wait;
use oxbus_store::suspended::run_now;
use std::sync::{Arc, Mutex, MutexGuard};

use oxbus_model::caps::{TRANSACTION_MESSAGES_MAX, TRANSACTION_MS_MAX};
use oxbus_model::message::Fields;
use oxbus_model::name::SubQueue;
use oxbus_model::options::Durability;
use oxbus_model::{Effect, Error, ErrorKind, PartitionId, Result, SequenceNumber, Ticks};

use super::batch::Batch;
use super::commit::commit;
use super::receiver::Receiver;
use super::sender::Sender;
use super::settlement::{SettleKey, Settlement};
use crate::entity::Core;
use crate::entity::Entity;
use crate::routing::PartitionRoute;
use crate::shard::{AcceptedSession, SessionState};
use crate::write::{EncodedMessage, LockEnd};

/// Operations that take effect together.
pub struct Transaction {
    core: Arc<Core>,
    /// True if the transaction may contain several entities (B-324).
    cross_entity: bool,
    progress: Mutex<TransactionProgress>,
}

#[derive(Default)]
enum TransactionProgress {
    /// It has no operations yet.
    #[default]
    New,
    Open(TransactionWork),
    /// Committed or rolled back.
    Ended,
}

/// Operations of a transaction.
pub(super) struct TransactionWork {
    began_at: Ticks,
    partition: PartitionId,
    /// The first entity.
    pub(super) entity: Arc<Entity>,
    /// The key of its sends to a partitioned entity.
    key: Option<String>,
    /// The entity whose messages it settles.
    settles: Option<Arc<Entity>>,
    pub(super) sends: Vec<TransactionSend>,
    pub(super) settled: Vec<TransactionSettlement>,
    pub(super) states: Vec<SessionStateChange>,
    /// The highest durability that one of its sends requests.
    pub(super) durability: Durability,
}

/// Numbers of scheduled messages, empty until the commit. They are set in one step, so they are consistent after a
/// panic.
pub type PendingNumbers = Arc<Mutex<Vec<SequenceNumber>>>;

/// Messages to one entity.
pub(super) struct TransactionSend {
    pub(super) entity: Arc<Entity>,
    pub(super) index: usize,
    pub(super) messages: Vec<EncodedMessage>,
    pub(super) numbers: PendingNumbers,
}

/// A message to be settled.
pub(super) struct TransactionSettlement {
    pub(super) entity: Arc<Entity>,
    pub(super) sub_queue: SubQueue,
    pub(super) at: SettleKey,
    pub(super) settle: LockEnd,
    /// The accepted session of the message.
    pub(super) session: Option<Arc<AcceptedSession>>,
}

/// A session state to be set.
pub(super) struct SessionStateChange {
    pub(super) entity: Arc<Entity>,
    pub(super) index: usize,
    pub(super) accepted: Arc<AcceptedSession>,
    pub(super) state: Option<SessionState>,
}

fn spans_error() -> Error {
    let detail = "Local transactions cannot span multiple entities or partitions. Use one entity and one key, or \
                  transaction(cross_entity=True) for several entities with the same key.";
    Error::new(ErrorKind::InvalidOperation, detail)
}

impl TransactionWork {
    /// Work without operations, for a partition of an entity.
    pub(super) fn new(entity: &Arc<Entity>, partition: PartitionId, began_at: Ticks) -> Self {
        Self {
            began_at,
            partition,
            entity: Arc::clone(entity),
            key: None,
            settles: None,
            sends: Vec::new(),
            settled: Vec::new(),
            states: Vec::new(),
            durability: Durability::Memory,
        }
    }
}

impl Transaction {
    pub(crate) fn new(core: Arc<Core>, cross_entity: bool) -> Self {
        Self {
            core,
            cross_entity,
            progress: Mutex::default(),
        }
    }

    fn progress(&self) -> MutexGuard<'_, TransactionProgress> {
        // A step that panicked may have recorded only some of its operations, so the transaction ends.
        self.progress.lock().unwrap_or_else(|poisoned| {
            self.progress.clear_poison();
            let mut progress = poisoned.into_inner();
            *progress = TransactionProgress::Ended;
            progress
        })
    }

    /// True if the namespace is in a store.
    pub fn is_in_store(&self) -> bool {
        self.core.is_in_store()
    }

    /// True until it is committed or rolled back.
    pub fn is_open(&self) -> bool {
        !matches!(&*self.progress(), TransactionProgress::Ended)
    }

    /// Runs `step` on the work so far. The first step begins the transaction. A step that fails changes nothing.
    fn with<R>(
        &self,
        entity: &Arc<Entity>,
        index: usize,
        step: impl FnOnce(&mut TransactionWork) -> Result<R>,
    ) -> Result<R> {
        self.core.check_open()?;
        if !Arc::ptr_eq(entity.core(), &self.core) {
            let detail = "the transaction belongs to another namespace; create one with a client of this namespace";
            return Err(Error::new(ErrorKind::InvalidOperation, detail));
        }
        let partition = entity.shard(index).id();
        let ticks = entity.core().clock().ticks();
        let mut progress = self.progress();
        match &mut *progress {
            TransactionProgress::Ended => Err(ended_error()),
            TransactionProgress::Open(work) if ticks >= work.began_at.plus_ms(TRANSACTION_MS_MAX) => {
                *progress = TransactionProgress::Ended;
                Err(timeout_error())
            }
            TransactionProgress::Open(work) => {
                let is_same = Arc::ptr_eq(&work.entity, entity) || self.cross_entity;
                if !is_same || work.partition != partition {
                    return Err(spans_error());
                }
                step(work)
            }
            TransactionProgress::New => {
                let mut work = TransactionWork::new(entity, partition, ticks);
                let done = step(&mut work)?;
                *progress = TransactionProgress::Open(work);
                Ok(done)
            }
        }
    }

    /// Sends a batch at the commit, which also fills in the returned numbers.
    pub fn send(&self, sender: &Sender, mut batch: Batch, durability: Option<Durability>) -> Result<PendingNumbers> {
        sender.check_sends()?;
        let entity = &sender.entity;
        if batch.is_empty() {
            return Ok(PendingNumbers::default());
        }
        sender.check_size(batch.largest_message_bytes())?;
        sender.check_batch_size(&batch)?;
        Self::check_sessions(entity, &batch)?;
        let route = sender.route_batch(&mut batch)?;
        let (index, key) = match route {
            PartitionRoute::Keyed(partition) => (usize::from(partition.0), Self::key_of(entity, &batch)?),
            PartitionRoute::Keyless if entity.is_partitioned() => {
                let detail = "A transactional send to a partitioned entity needs a partition key. Set partition_key or session_id.";
                return Err(Error::new(ErrorKind::InvalidOperation, detail));
            }
            PartitionRoute::Keyless => (0, None),
        };
        let index = if entity.is_partitioned() { index } else { 0 };
        let numbers = PendingNumbers::default();
        self.with(entity, index, |work| {
            let messages: usize = work.sends.iter().map(|sent| sent.messages.len()).sum();
            if messages + batch.len() > TRANSACTION_MESSAGES_MAX {
                let detail = format!(
                    "Cannot send more than {TRANSACTION_MESSAGES_MAX} messages in a single transaction. Commit it and begin another one."
                );
                return Err(Error::new(ErrorKind::QuotaExceeded, detail));
            }
            if let (Some(key), Some(known)) = (&key, &work.key)
                && key != known
            {
                let detail = format!(
                    "All messages of a transaction on a partitioned entity need the same key. Use one transaction for each key: \
                     key=`{key}` key of the transaction=`{known}`"
                );
                return Err(Error::new(ErrorKind::InvalidOperation, detail));
            }
            work.key = work.key.take().or(key);
            work.durability = work.durability.max(durability.unwrap_or(Durability::Memory));
            work.sends.push(TransactionSend {
                entity: Arc::clone(entity),
                index,
                messages: batch.messages,
                numbers: Arc::clone(&numbers),
            });
            Ok(())
        })?;
        Ok(numbers)
    }

    /// Fails if a message without a session id is sent to a topic that has a subscription with sessions (B-312).
    /// Outside a transaction, the subscription dead-letters the message.
    fn check_sessions(entity: &Arc<Entity>, batch: &Batch) -> Result<()> {
        if entity.subscriptions().iter().any(|it| it.requires_session()) {
            for message in &batch.messages {
                Entity::check_session_id(Fields::decode(&message.record)?.session_id)?;
            }
        }
        Ok(())
    }

    /// The key of a batch to a partitioned entity.
    fn key_of(entity: &Arc<Entity>, batch: &Batch) -> Result<Option<String>> {
        if !entity.is_partitioned() {
            return Ok(None);
        }
        let Some(first) = batch.messages.first() else {
            return Ok(None);
        };
        let fields = Fields::decode(&first.record)?;
        Ok(entity.key_of(&fields)?.map(ToOwned::to_owned))
    }

    /// Settles messages at the commit, or none of them after an error. Their locks must be valid now and at the
    /// commit.
    pub fn settle(
        &self,
        receiver: &Receiver,
        at: &[SettleKey],
        settlement: Settlement<'_>,
        wait: &Wait<'_>,
    ) -> Result<()> {
        let Some(first) = at.first() else { return Ok(()) };
        let settles = at.iter().map(|at| receiver.prepare(*at, settlement, wait));
        let settles: Vec<LockEnd> = settles.collect::<Result<_>>()?;
        if at.iter().any(|at| at.index != first.index) {
            return Err(spans_error());
        }
        let entity = receiver.entity();
        self.with(entity, first.index, |work| {
            let is_known = |at: &SettleKey| {
                let mut settled = work.settled.iter();
                // A dead-lettered message keeps its number, so the sub-queue must be compared, too.
                let sub_queue = receiver.sub_queue();
                settled.any(|it| it.at == *at && it.sub_queue == sub_queue && Arc::ptr_eq(&it.entity, entity))
            };
            let is_repeated = |(position, it): (usize, &SettleKey)| is_known(it) || at[..position].contains(it);
            if at.iter().enumerate().any(is_repeated) {
                let detail =
                    "the message is settled in this transaction already; commit it, or roll it back and settle again";
                return Err(Error::new(ErrorKind::MessageAlreadySettled, detail));
            }
            // A transaction receives from one entity only, but can send to several (B-324).
            if work.settles.as_ref().is_some_and(|known| !Arc::ptr_eq(known, entity)) {
                return Err(spans_error());
            }
            work.settles = Some(Arc::clone(entity));
            work.settled
                .extend(at.iter().zip(settles).map(|(at, settle)| TransactionSettlement {
                    entity: Arc::clone(entity),
                    sub_queue: receiver.sub_queue(),
                    at: *at,
                    settle,
                    session: receiver.accepted(),
                }));
            Ok(())
        })
    }

    /// Sets the state of the receiver's session at the commit (B-213).
    pub fn set_session_state(&self, receiver: &Receiver, state: Option<&[u8]>, wait: &Wait<'_>) -> Result<()> {
        let (index, accepted, state) = receiver.prepare_state(state, wait)?;
        let entity = receiver.entity();
        self.with(entity, index, |work| {
            work.states.push(SessionStateChange {
                entity: Arc::clone(entity),
                index,
                accepted,
                state,
            });
            Ok(())
        })
    }

    /// Commits all operations, or none on an error. An error leaves the locks unchanged.
    pub fn commit(&self, wait: &Wait<'_>) -> Result<()> {
        run_now(self.commit_async(wait))
    }

    /// [`Transaction::commit`] for a call that may be suspended.
    pub async fn commit_async(&self, wait: &Wait<'_>) -> Result<()> {
        let progress = std::mem::replace(&mut *self.progress(), TransactionProgress::Ended);
        match progress {
            TransactionProgress::Ended => Err(ended_error()),
            TransactionProgress::New => Ok(()),
            TransactionProgress::Open(work) => {
                work.entity.core().check_open()?;
                let ticks = work.entity.core().clock().ticks();
                if ticks >= work.began_at.plus_ms(TRANSACTION_MS_MAX) {
                    return Err(timeout_error());
                }
                commit(work, None, wait).await
            }
        }
    }

    /// Discards all operations (B-316).
    pub fn rollback(&self) -> Result<()> {
        match std::mem::replace(&mut *self.progress(), TransactionProgress::Ended) {
            TransactionProgress::Ended => Err(ended_error()),
            TransactionProgress::New | TransactionProgress::Open(_) => Ok(()),
        }
    }
}

fn ended_error() -> Error {
    let detail = "Transaction hasn't been declared yet, or has already been discharged. Begin another one.";
    Error::new(ErrorKind::TransactionOver, detail)
}

fn timeout_error() -> Error {
    let detail = format!(
        "the transaction took longer than {} seconds and was rolled back; repeat it in less time",
        TRANSACTION_MS_MAX / 1000
    );
    Error::new(ErrorKind::TransactionTimeout, detail).with_effect(Effect::None)
}
