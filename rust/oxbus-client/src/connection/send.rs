// SPDX-License-Identifier: Apache-2.0
//! Sends messages on a link, and waits for their outcomes.

use bytes::Bytes;
use oxbus_amqp::client::{OutgoingMessage, SendError};
use oxbus_amqp::performative::DeliveryState;
use oxbus_model::{Effect, ErrorKind};

use super::batches::Batches;
use super::core::LinkPhase;
use super::link::LinkHandle;
use super::results::{PendingSend, SendResult};
use crate::error::{ClientError, Result};

/// A message to send.
pub(crate) struct Transfer<'a> {
    /// The message format.
    pub(crate) format: u32,
    /// The encoded message.
    pub(crate) message: &'a Bytes,
    /// The state, which names a transaction.
    pub(crate) state: Option<&'a DeliveryState>,
}

impl LinkHandle {
    /// Sends messages in order, and waits for their outcomes.
    pub(crate) async fn send(&self, messages: &[Transfer<'_>]) -> Result<Vec<SendResult>> {
        let (batch, done) = self.connection.core().send_batches.begin(messages.len());
        let mut sent = 0;
        let all = self.until(|core, id| {
            match core.links.get(&id).map(|link| &link.phase) {
                Some(LinkPhase::Ended(error)) => return Some(Err(error.clone())),
                None => return Some(Err(ClientError::connection("the link is closed"))),
                Some(_) => {}
            }
            let before = sent;
            while let Some(transfer) = messages.get(sent) {
                let offset = core.produced();
                let message = OutgoingMessage {
                    message_format: transfer.format,
                    settled: false,
                    state: transfer.state,
                    parts: &[transfer.message],
                };
                match core.engine.send(id, &message) {
                    Ok(delivery) => {
                        let place = Batches::<SendResult>::place(batch, sent);
                        core.sends.insert(
                            delivery,
                            PendingSend {
                                link: id,
                                place,
                                offset,
                            },
                        );
                        sent += 1;
                    }
                    Err(SendError::LinkNotFound) => {
                        return Some(Err(ClientError::connection("the link is closed")));
                    }
                    Err(error @ SendError::TooLarge(_)) => {
                        let detail = format!("{error}; send a smaller message");
                        return Some(Err(ClientError::broker(ErrorKind::MessageSizeExceeded, detail)));
                    }
                    Err(SendError::NoCredit | SendError::NoWindow | SendError::BackedUp) => break,
                }
            }
            if sent == messages.len() {
                return Some(Ok(()));
            }
            if sent > before {
                self.connection.wake.notify_one();
            }
            None
        });
        let all = all.await;
        self.connection.flush();
        if let Err(error) = all {
            self.skip_rest(batch, sent, messages.len(), &error);
        }
        done.await
            .map_err(|_| ClientError::connection("the connection is closed").with_effect(Effect::Unknown))
    }

    /// Completes a batch whose rest was not sent.
    fn skip_rest(&self, batch: u64, sent: usize, total: usize, error: &ClientError) {
        let mut core = self.connection.core();
        for index in sent..total {
            let skipped = SendResult::Lost(error.clone().with_effect(Effect::None));
            core.send_batches
                .set(Batches::<SendResult>::place(batch, index), skipped);
        }
    }
}
