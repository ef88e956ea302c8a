// SPDX-License-Identifier: Apache-2.0
//! Receivers of queues, subscriptions, sub-queues and sessions.

mod receiving;
mod settling;

use std::sync::Arc;

use oxbus_amqp::client::LinkRequest;
use oxbus_amqp::codec::Map;
use oxbus_amqp::performative::{ReceiverSettleMode, SenderSettleMode, Source, Target};
use oxbus_model::options::ReceiveMode;
use oxbus_model::{ErrorKind, Timestamp};

use crate::connection::LinkHandle;
use crate::deadline::Deadline;
use crate::error::{ClientError, Result};
use crate::link_slot::{Link, LinkSlot};
use crate::management::Management;
use crate::session::{Session, SessionChoice, wait_property};
use crate::shared::SharedClient;

/// Settings of a receiver.
#[derive(Debug, Clone)]
pub struct ReceiverOptions {
    /// Whether messages are locked, or deleted at once.
    pub mode: ReceiveMode,
    /// Messages that the server may send ahead of the calls.
    pub prefetch: u32,
    /// The name of the receiver in the server's logs.
    pub name: Option<String>,
}

impl Default for ReceiverOptions {
    fn default() -> Self {
        Self {
            mode: ReceiveMode::PeekLock,
            prefetch: 0,
            name: None,
        }
    }
}

/// A receiver. Threads may share it; one of them receives at a time.
pub struct Receiver {
    client: Arc<SharedClient>,
    path: String,
    options: ReceiverOptions,
    link: LinkSlot<ReceiverLink>,
    session: Option<Session>,
    /// Held by the call that receives: credit belongs to one call at a time.
    turn: Arc<tokio::sync::Mutex<()>>,
}

pub(crate) struct ReceiverLink {
    handle: LinkHandle,
    /// Requests to `$management` refer to it.
    name: String,
}

impl Link for ReceiverLink {
    fn handle(&self) -> &LinkHandle {
        &self.handle
    }
}

impl Receiver {
    pub(crate) fn new(client: Arc<SharedClient>, path: String, options: ReceiverOptions) -> Self {
        Self {
            client,
            path,
            options,
            link: LinkSlot::default(),
            session: None,
            turn: Arc::default(),
        }
    }

    pub(crate) async fn accept(
        client: Arc<SharedClient>,
        path: String,
        choice: SessionChoice,
        options: ReceiverOptions,
        deadline: Deadline,
    ) -> Result<Self> {
        // The server waits until the deadline, and then answers.
        let answer = deadline.plus(client.options().connect_timeout);
        let accepted = client
            .options()
            .retry
            .run(deadline, || attach(&client, &path, &options, Some((&choice, deadline))));
        let (link, session) = answer.within("accepting a session", accepted).await?;
        Ok(Self {
            link: LinkSlot::with(link),
            session,
            ..Self::new(client, path, options)
        })
    }

    /// The path of the entity.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// True if both receive from one entity over one client.
    pub fn is_of_same_entity(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.client, &other.client) && self.path.eq_ignore_ascii_case(&other.path)
    }

    /// The session, if the receiver has one.
    pub fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// The management of the entity, for this receiver: its session and its link.
    pub async fn management(&self) -> Result<Management> {
        let link = self.link.current().await?;
        Ok(Management::new(
            Arc::clone(&self.client),
            self.path.clone(),
            self.session.as_ref().map(|session| session.id().to_owned()),
            link.map(|link| link.name.clone()),
        ))
    }

    /// Renews the lock of the session. Returns its new end.
    pub async fn renew_session_lock(&self, deadline: Deadline) -> Result<Timestamp> {
        let until = self.management().await?.renew_session_lock(deadline).await?;
        if let Some(session) = &self.session {
            session.set_locked_until(until);
        }
        Ok(until)
    }

    /// Opens the connection and checks that the entity exists, without receiving.
    pub async fn open(&self, deadline: Deadline) -> Result<()> {
        let authorized = self
            .client
            .retry(deadline, "opening the receiver", || self.client.authorized(&self.path));
        authorized.await.map(drop)
    }

    /// Gives back what nobody has taken, and detaches the link. Locked messages that were taken stay locked.
    pub async fn close(&self, deadline: Deadline) {
        let Some(link) = self.link.close().await else {
            return;
        };
        let handle = &link.handle;
        if handle.ended().is_some() {
            return;
        }
        if self.options.mode == ReceiveMode::PeekLock {
            let _ = deadline.limit(receiving::take_back_credit(handle)).await;
            handle.release_queued();
        }
        // The server gives the session to others once it knows.
        let _ = deadline.limit(handle.detach()).await;
    }

    async fn link(&self) -> Result<Arc<ReceiverLink>> {
        if self.session.is_some() {
            // A session is accepted again by a new receiver only.
            let current = self.link.current().await?.filter(|link| link.handle.ended().is_none());
            return current.ok_or_else(session_lost);
        }
        self.link
            .get(|| async {
                let (link, _) = attach(&self.client, &self.path, &self.options, None).await?;
                if self.options.prefetch > 0 {
                    link.handle.set_credit(self.options.prefetch);
                }
                Ok(link)
            })
            .await
    }

    /// The error of a lost link. A session is lost with it.
    fn lost(&self, error: ClientError) -> ClientError {
        if self.session.is_some() && error.is_lost() {
            return session_lost();
        }
        error
    }
}

fn session_lost() -> ClientError {
    let detail = "the session is lost with its link; accept it again";
    ClientError::broker(ErrorKind::SessionLockLost, detail).with_condition("com.microsoft:session-lock-lost")
}

/// Attaches a link, to a session if one is chosen.
async fn attach(
    client: &Arc<SharedClient>,
    path: &str,
    options: &ReceiverOptions,
    session: Option<(&SessionChoice, Deadline)>,
) -> Result<(ReceiverLink, Option<Session>)> {
    let connection = client.authorized(path).await?;
    let name = connection.link_name("receiver");
    let mut source = Source::of(path.to_owned());
    let mut properties = Map::new();
    if let Some((choice, deadline)) = session {
        source.filter = Some(choice.filter());
        properties = wait_property(deadline.left());
    }
    let shown = options.name.clone().unwrap_or_else(|| name.clone());
    let properties = properties.with("com.microsoft:receiver-name", shown);
    let (snd_settle_mode, rcv_settle_mode) = match options.mode {
        ReceiveMode::PeekLock => (SenderSettleMode::Unsettled, ReceiverSettleMode::Second),
        ReceiveMode::ReceiveAndDelete => (SenderSettleMode::Settled, ReceiverSettleMode::First),
    };
    let request = LinkRequest {
        snd_settle_mode,
        rcv_settle_mode,
        properties,
        ..LinkRequest::receiver(name.clone(), source, Target::of(name.clone()))
    };
    let (handle, attach) = connection.attach(request).await?;
    let session = session.map(|_| Session::of(&attach)).transpose()?;
    Ok((ReceiverLink { handle, name }, session))
}
