// SPDX-License-Identifier: Apache-2.0
//! Receiving: credit for one call at a time, taken back when the call ends or is dropped.

use std::sync::Arc;
use std::time::Duration;

use oxbus_model::options::ReceiveMode;
use tokio::sync::OwnedMutexGuard;

use super::{Receiver, ReceiverLink};
use crate::connection::LinkHandle;
use crate::deadline::Deadline;
use crate::error::{ClientError, Result};
use crate::message::Received;
use crate::retry::Retries;
use crate::runtime;

/// Time for the server to take back credit.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

impl Receiver {
    /// Receives up to `max` messages. Returns as soon as there is one, and none at the deadline.
    ///
    /// A call whose deadline is over from the start still asks the server for the messages that are ready.
    /// A call that is dropped gives back its messages. In receive-and-delete mode the next call returns them.
    /// Closing the receiver ends a call that waits, with no message.
    pub async fn receive(&self, max: usize, deadline: Deadline) -> Result<Vec<Received>> {
        let mut retries = Retries::new(self.client.options().retry, deadline);
        loop {
            match self.try_receive(max, deadline).await {
                Err(error) if self.client.again(&mut retries, &error, &self.path).await => {}
                result => return result,
            }
        }
    }

    async fn try_receive(&self, max: usize, deadline: Deadline) -> Result<Vec<Received>> {
        let Some(turn) = deadline.limit(Arc::clone(&self.turn).lock_owned()).await else {
            return Ok(Vec::new());
        };
        let has_no_time = !deadline.leaves(Duration::ZERO);
        // A call that waits for no message still opens the link.
        let opening = deadline.max(Deadline::after(Some(self.client.options().connect_timeout)));
        let link = opening.within("opening the receiver", self.link()).await?;
        let handle = &link.handle;
        let mut turn = Some(turn);
        if handle.credit_and_queued().1 == 0 {
            self.give_credit(handle, max);
            // Taking back the credit of a prefetching receiver is how a call without time asks.
            let takes_back = self.options.prefetch == 0 || has_no_time;
            let waiting = WaitingReceive::begin(self, takes_back.then_some(&link), turn);
            let arrived = deadline.limit(handle.arrival()).await;
            turn = waiting.end().await;
            if let Some(Err(error)) = arrived {
                return self.ended(error).await;
            }
        }
        let taken = handle.take_now(max);
        if taken.is_empty()
            && let Some(error) = handle.ended()
        {
            return self.ended(error).await;
        }
        if self.options.prefetch > 0 {
            self.give_credit(handle, 0);
        }
        drop(turn);
        let connection = handle.connection().number();
        Ok(taken
            .into_iter()
            .map(|delivery| Received::new(delivery, connection))
            .collect())
    }

    /// The end of a wait whose link ended: closing the receiver ends it, too.
    async fn ended(&self, error: ClientError) -> Result<Vec<Received>> {
        if self.link.is_closed().await {
            return Ok(Vec::new());
        }
        Err(self.lost(error))
    }

    /// Gives credit for `max` messages and those ahead.
    fn give_credit(&self, handle: &LinkHandle, max: usize) {
        let (credit, queued) = handle.credit_and_queued();
        let target = u32::try_from(max)
            .unwrap_or(u32::MAX)
            .saturating_add(self.options.prefetch)
            .min(i32::MAX as u32);
        let wanted = target.saturating_sub(u32::try_from(queued).unwrap_or(u32::MAX));
        // Credit in small steps would cost a frame for each message.
        if wanted > credit && (max > 0 || wanted - credit > self.options.prefetch / 2) {
            handle.set_credit(wanted);
        }
    }
}

impl Receiver {
    /// Takes no further messages, and gives back those that nobody has taken. It does not wait for the server.
    pub fn stop(&self) {
        let Some(link) = self.link.attached() else {
            return;
        };
        link.handle.set_credit(0);
        if self.options.mode == ReceiveMode::PeekLock {
            link.handle.release_queued();
        }
    }
}

/// Waits until the server has taken back the credit of a link, and until a message that has used it is complete.
pub(super) async fn take_back_credit(handle: &LinkHandle) {
    if handle.credit_and_queued().0 > 0 {
        // A link that is lost meanwhile has given its messages back.
        let _ = Deadline::after(Some(DRAIN_TIMEOUT)).limit(handle.drain()).await;
    }
    let _ = Deadline::after(Some(DRAIN_TIMEOUT)).limit(handle.completed()).await;
}

/// A receive that waits. No message may arrive while nobody waits for it, because its lock would run: the end of the
/// wait takes back the credit of `link`. So does dropping it, which gives back the messages too.
struct WaitingReceive<'a> {
    link: Option<&'a Arc<ReceiverLink>>,
    gives_back: bool,
    turn: Option<OwnedMutexGuard<()>>,
}

impl<'a> WaitingReceive<'a> {
    fn begin(receiver: &Receiver, link: Option<&'a Arc<ReceiverLink>>, turn: Option<OwnedMutexGuard<()>>) -> Self {
        Self {
            link,
            gives_back: receiver.options.mode == ReceiveMode::PeekLock,
            turn,
        }
    }

    async fn end(mut self) -> Option<OwnedMutexGuard<()>> {
        if let Some(link) = self.link {
            take_back_credit(&link.handle).await;
            self.link = None;
        }
        self.turn.take()
    }
}

impl Drop for WaitingReceive<'_> {
    fn drop(&mut self) {
        let Some(link) = self.link.take().map(Arc::clone) else {
            return;
        };
        let (turn, gives_back) = (self.turn.take(), self.gives_back);
        // An error means that the process was forked: the link belongs to its parent.
        let _ = runtime::spawn(async move {
            take_back_credit(&link.handle).await;
            if gives_back {
                link.handle.release_queued();
            }
            drop(turn);
        });
    }
}
