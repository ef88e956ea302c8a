// SPDX-License-Identifier: Apache-2.0
//! The current link of a sender or receiver, attached again when it is lost.

use std::future::Future;
use std::sync::Arc;

use oxbus_model::ErrorKind;

use crate::connection::LinkHandle;
use crate::error::{ClientError, Result};

/// A link with its terms.
pub(crate) trait Link {
    /// The link.
    fn handle(&self) -> &LinkHandle;
}

/// The place of the current link.
pub(crate) struct LinkSlot<L> {
    state: tokio::sync::Mutex<SlotState<L>>,
}

enum SlotState<L> {
    Empty,
    Attached(Arc<L>),
    Closed,
}

impl<L> Default for LinkSlot<L> {
    fn default() -> Self {
        Self {
            state: tokio::sync::Mutex::new(SlotState::Empty),
        }
    }
}

impl<L: Link> LinkSlot<L> {
    /// A slot with a link.
    pub(crate) fn with(link: L) -> Self {
        Self {
            state: tokio::sync::Mutex::new(SlotState::Attached(Arc::new(link))),
        }
    }

    /// The current link, or a new one if there is none or it has ended.
    pub(crate) async fn get<F: Future<Output = Result<L>>>(&self, attach: impl FnOnce() -> F) -> Result<Arc<L>> {
        let mut state = self.state.lock().await;
        match &*state {
            SlotState::Closed => return Err(closed()),
            SlotState::Attached(link) if link.handle().ended().is_none() => return Ok(Arc::clone(link)),
            SlotState::Attached(_) | SlotState::Empty => {}
        }
        let link = Arc::new(attach().await?);
        *state = SlotState::Attached(Arc::clone(&link));
        Ok(link)
    }

    /// The current link, even if it has ended.
    pub(crate) async fn current(&self) -> Result<Option<Arc<L>>> {
        match &*self.state.lock().await {
            SlotState::Closed => Err(closed()),
            SlotState::Attached(link) => Ok(Some(Arc::clone(link))),
            SlotState::Empty => Ok(None),
        }
    }

    /// The current link, if no other call changes it.
    pub(crate) fn attached(&self) -> Option<Arc<L>> {
        match &*self.state.try_lock().ok()? {
            SlotState::Attached(link) => Some(Arc::clone(link)),
            SlotState::Empty | SlotState::Closed => None,
        }
    }

    /// True if the slot was closed.
    pub(crate) async fn is_closed(&self) -> bool {
        matches!(*self.state.lock().await, SlotState::Closed)
    }

    /// Closes the slot. Returns the link that was in it.
    pub(crate) async fn close(&self) -> Option<Arc<L>> {
        match std::mem::replace(&mut *self.state.lock().await, SlotState::Closed) {
            SlotState::Attached(link) => Some(link),
            SlotState::Empty | SlotState::Closed => None,
        }
    }
}

fn closed() -> ClientError {
    ClientError::broker(ErrorKind::Closed, "it was closed; open a new one")
}
