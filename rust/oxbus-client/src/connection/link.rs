// SPDX-License-Identifier: Apache-2.0
//! A link of a connection: attach, wait, take messages, detach.

use std::collections::VecDeque;
use std::sync::Arc;

use oxbus_amqp::client::{CommandError, LinkId, LinkRequest, ReceivedDelivery, ReceivedId};
use oxbus_amqp::performative::{Attach, DeliveryState};
use tokio::sync::Notify;

use super::core::{Core, LinkPhase, LinkState, Phase};
use super::{Connection, unusable};
use crate::error::{ClientError, Result};

/// A link. It is detached when it is dropped.
pub(crate) struct LinkHandle {
    pub(super) connection: Arc<Connection>,
    pub(super) id: LinkId,
    pub(super) changed: Arc<Notify>,
}

impl Connection {
    /// A name for a link that no other link of the connection has.
    pub(crate) fn link_name(&self, of: &str) -> String {
        let mut core = self.core();
        core.names += 1;
        format!("{}-{of}-{}", self.options.identifier, core.names)
    }

    /// Attaches a link. Returns it with the terms of the server.
    pub(crate) async fn attach(self: &Arc<Self>, request: LinkRequest) -> Result<(LinkHandle, Box<Attach>)> {
        let link = self.request_link(request)?;
        let attach = link.until(|core, id| match core.links.get(&id).map(|link| &link.phase) {
            Some(LinkPhase::Attaching) => None,
            Some(LinkPhase::Attached(attach)) => Some(Ok(attach.clone())),
            Some(LinkPhase::Ended(error)) => Some(Err(error.clone())),
            None => Some(Err(ClientError::connection("the link is closed"))),
        });
        let attach = attach.await?;
        Ok((link, attach))
    }

    fn request_link(self: &Arc<Self>, request: LinkRequest) -> Result<LinkHandle> {
        let changed = Arc::new(Notify::new());
        let mut core = self.core();
        if let Phase::Ended(error) = &core.phase {
            return Err(error.clone());
        }
        let session = core.session;
        let attached = match core.engine.attach(session, request.clone()) {
            Err(CommandError::TooManyLinks | CommandError::SessionNotFound) => {
                let begun = core.engine.begin();
                begun.and_then(|session| {
                    core.session = session;
                    core.engine.attach(session, request)
                })
            }
            attached => attached,
        };
        let id = attached.map_err(unusable)?;
        let state = LinkState {
            phase: LinkPhase::Attaching,
            queue: VecDeque::new(),
            is_drained: false,
            changed: Arc::clone(&changed),
        };
        core.links.insert(id, state);
        drop(core);
        self.flush();
        Ok(LinkHandle {
            connection: Arc::clone(self),
            id,
            changed,
        })
    }
}

impl LinkHandle {
    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Why the link ended, if it has.
    pub(crate) fn ended(&self) -> Option<ClientError> {
        match self.connection.core().links.get(&self.id).map(|link| &link.phase) {
            Some(LinkPhase::Ended(error)) => Some(error.clone()),
            Some(_) => None,
            None => Some(ClientError::connection("the link is closed")),
        }
    }

    /// Waits until `ready` returns something. It is asked again after each change of the link.
    pub(super) async fn until<T>(&self, mut ready: impl FnMut(&mut Core, LinkId) -> Option<T>) -> T {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(found) = ready(&mut self.connection.core(), self.id) {
                return found;
            }
            changed.await;
        }
    }

    /// Allows the server to send `credit` more messages.
    pub(crate) fn set_credit(&self, credit: u32) {
        let mut core = self.connection.core();
        core.engine.set_credit(self.id, credit);
        drop(core);
        self.connection.flush();
    }

    /// The credit that is left, and the messages that nobody has taken.
    pub(crate) fn credit_and_queued(&self) -> (u32, usize) {
        let core = self.connection.core();
        let queued = core.links.get(&self.id).map_or(0, |link| link.queue.len());
        (core.engine.credit(self.id), queued)
    }

    /// Waits until a message has arrived that nobody has taken.
    pub(crate) async fn arrival(&self) -> Result<()> {
        self.until(|core, id| {
            let Some(link) = core.links.get(&id) else {
                return Some(Err(ClientError::connection("the link is closed")));
            };
            match &link.phase {
                _ if !link.queue.is_empty() => Some(Ok(())),
                LinkPhase::Ended(error) => Some(Err(error.clone())),
                _ => None,
            }
        })
        .await
    }

    /// Takes up to `max` messages that have arrived.
    pub(crate) fn take_now(&self, max: usize) -> Vec<ReceivedDelivery> {
        let mut core = self.connection.core();
        let Some(link) = core.links.get_mut(&self.id) else {
            return Vec::new();
        };
        let count = max.min(link.queue.len());
        link.queue.drain(..count).map(|received| *received).collect()
    }

    /// Takes the message that `is_wanted`. Waits until it arrives.
    pub(crate) async fn take_one(
        &self,
        mut is_wanted: impl FnMut(&ReceivedDelivery) -> bool,
    ) -> Result<ReceivedDelivery> {
        self.until(|core, id| {
            let Some(link) = core.links.get_mut(&id) else {
                return Some(Err(ClientError::connection("the link is closed")));
            };
            if let Some(position) = link.queue.iter().position(|received| is_wanted(received)) {
                return link.queue.remove(position).map(|received| Ok(*received));
            }
            match &link.phase {
                LinkPhase::Ended(error) => Some(Err(error.clone())),
                _ => None,
            }
        })
        .await
    }

    /// Takes back all credit: waits until no further message can arrive.
    pub(crate) async fn drain(&self) -> Result<()> {
        {
            let mut core = self.connection.core();
            if let Some(link) = core.links.get_mut(&self.id) {
                link.is_drained = false;
            }
            core.engine.drain(self.id);
            let wakes = core.take_events(self.connection.now());
            drop(core);
            self.connection.notify(wakes);
        }
        self.until(|core, id| {
            let link = core.links.get(&id)?;
            match &link.phase {
                LinkPhase::Ended(error) => Some(Err(error.clone())),
                _ => link.is_drained.then_some(Ok(())),
            }
        })
        .await
    }

    /// Waits until the message that has begun to arrive is complete.
    pub(crate) async fn completed(&self) {
        self.until(|core, id| {
            let is_over = matches!(
                core.links.get(&id).map(|link| &link.phase),
                Some(LinkPhase::Ended(_)) | None
            );
            (is_over || !core.engine.is_receiving(id)).then_some(())
        })
        .await;
    }

    /// Detaches the link, and waits until the server knows.
    pub(crate) async fn detach(&self) {
        self.connection.core().engine.detach(self.id, true, None);
        self.connection.flush();
        self.until(|core, id| match core.links.get(&id).map(|link| &link.phase) {
            Some(LinkPhase::Ended(_)) | None => Some(()),
            Some(_) => None,
        })
        .await;
    }

    /// Gives back messages that nobody has taken, so that other receivers get them at once.
    pub(crate) fn release_queued(&self) {
        let queued = match self.connection.core().links.get_mut(&self.id) {
            Some(link) => std::mem::take(&mut link.queue),
            None => return,
        };
        self.release(queued.into_iter().filter_map(|received| received.id));
    }

    /// Gives back messages. Those of other links are skipped.
    pub(crate) fn release(&self, messages: impl IntoIterator<Item = ReceivedId>) {
        let mut core = self.connection.core();
        for id in messages.into_iter().filter(|id| id.link() == self.id) {
            // A link that has ended has given them back already.
            let _ = core.engine.settle(id, DeliveryState::Released, true);
        }
        drop(core);
        self.connection.flush();
    }
}

impl Drop for LinkHandle {
    fn drop(&mut self) {
        let mut core = self.connection.core();
        core.engine.detach(self.id, true, None);
        core.links.remove(&self.id);
        drop(core);
        self.connection.flush();
    }
}
