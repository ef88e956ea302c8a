// SPDX-License-Identifier: Apache-2.0
//! Tokens of a connection: put to `$cbs` before the first link to an entity, and renewed before they end.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use oxbus_amqp::codec::{AmqpTimestamp, AmqpValue};
use oxbus_model::{ErrorKind, Timestamp};
use tokio::time::Instant;

use super::Connection;
use super::requests::{RequestLink, RequestNode, properties};
use crate::error::{ClientError, Result};
use crate::kind::ClientErrorKind;
use crate::runtime;

/// The node for tokens.
const CBS: &str = "$cbs";
/// Share of its life after which a token is renewed, in percent, as the SDK does.
const RENEWED_AT_PERCENT: u64 = 90;
/// Pause after a renewal that failed.
const RENEWAL_PAUSE: Duration = Duration::from_secs(10);

/// The tokens of a connection.
#[derive(Default)]
pub(super) struct Tokens {
    link: Option<RequestLink>,
    /// When each token is to be renewed.
    by_audience: HashMap<String, RenewalTime>,
    is_renewing: bool,
}

/// When a token is to be renewed. `None` for one that cannot be.
type RenewalTime = Option<Instant>;

impl Connection {
    /// Makes sure that the server knows a token for an entity.
    pub(crate) async fn authorize(self: &Arc<Self>, path: &str) -> Result<()> {
        let audience = self.options.audience(path);
        let mut tokens = self.tokens.lock().await;
        let now = Instant::now();
        if let Some(renewal) = tokens.by_audience.get(&audience)
            && renewal.is_none_or(|at| at > now)
        {
            return Ok(());
        }
        Box::pin(self.put_token(&mut tokens, audience)).await?;
        if !std::mem::replace(&mut tokens.is_renewing, true) {
            runtime::spawn(renew(Arc::downgrade(self)))?;
        }
        Ok(())
    }

    /// Forgets the token of an entity: the next link needs another one.
    pub(crate) async fn forget_token(&self, path: &str) {
        let audience = self.options.audience(path);
        self.tokens.lock().await.by_audience.remove(&audience);
    }

    async fn put_token(self: &Arc<Self>, tokens: &mut Tokens, audience: String) -> Result<()> {
        let options = &self.options;
        let now = (options.clock)();
        let token = options.credential.token(&audience, now).await?;
        if tokens.link.as_ref().is_none_or(|link| link.ended().is_some()) {
            tokens.link = None;
            tokens.link = Some(RequestLink::open(self, RequestNode::Cbs, CBS).await?);
        }
        let Some(link) = &tokens.link else {
            return Err(ClientError::connection("the link for tokens is closed"));
        };
        let request = properties(&[
            ("operation", "put-token".into()),
            ("type", token.type_name().into()),
            ("name", audience.as_str().into()),
            ("expiration", AmqpTimestamp(token.expires_at.0.cast_signed()).into()),
        ]);
        let reply = link.request(&request, &AmqpValue::from(token.token), None).await?;
        if !(200..=299).contains(&reply.status) {
            let error = reply.into_error();
            return Err(match error.kind() {
                // As the SDK: what `$cbs` refuses for other reasons than a missing entity is a wrong credential.
                ClientErrorKind::Broker(ErrorKind::EntityNotFound | ErrorKind::ServerBusy)
                | ClientErrorKind::Connection => error,
                _ => error.with_kind(ClientErrorKind::Unauthenticated),
            });
        }
        let renewal = renewal_after(now, token.expires_at).map(|life| Instant::now() + life);
        tokens.by_audience.insert(audience, renewal);
        Ok(())
    }
}

/// How long a token is used. `None` if it never ends.
fn renewal_after(now: Timestamp, expires_at: Timestamp) -> Option<Duration> {
    if expires_at >= Timestamp::NEVER {
        return None;
    }
    let life = expires_at.0.saturating_sub(now.0);
    Some(Duration::from_millis(life / 100 * RENEWED_AT_PERCENT))
}

/// Renews the tokens of a connection until it ends.
async fn renew(connection: Weak<Connection>) {
    loop {
        let Some(held) = connection.upgrade().filter(|held| held.is_alive()) else {
            return;
        };
        let next = {
            let tokens = held.tokens.lock().await;
            tokens.by_audience.values().flatten().min().copied()
        };
        drop(held);
        let sleep_end = next.unwrap_or_else(|| Instant::now() + RENEWAL_PAUSE);
        // Looks at times, too: a new token may have to be renewed earlier.
        tokio::time::sleep_until(sleep_end.min(Instant::now() + RENEWAL_PAUSE)).await;
        let Some(held) = connection.upgrade().filter(|held| held.is_alive()) else {
            return;
        };
        let mut tokens = held.tokens.lock().await;
        let now = Instant::now();
        let due: Vec<String> = tokens
            .by_audience
            .iter()
            .filter(|(_, renewal)| renewal.is_some_and(|at| at <= now))
            .map(|(audience, _)| audience.clone())
            .collect();
        for audience in due {
            if held.put_token(&mut tokens, audience.clone()).await.is_err() {
                // The server detaches the links when the token ends; until then it is tried again.
                tokens
                    .by_audience
                    .insert(audience, Some(Instant::now() + RENEWAL_PAUSE));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use oxbus_model::Timestamp;

    use super::renewal_after;

    #[test]
    fn a_token_is_renewed_after_nine_tenths_of_its_life() {
        let now = Timestamp(1_000_000);
        assert_eq!(renewal_after(now, now.plus_ms(100_000)), Some(Duration::from_secs(90)));
        assert_eq!(renewal_after(now, Timestamp(5)), Some(Duration::ZERO), "it has ended");
        assert_eq!(renewal_after(now, Timestamp::NEVER), None);
    }
}
