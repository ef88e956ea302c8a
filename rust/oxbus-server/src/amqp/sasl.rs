// SPDX-License-Identifier: Apache-2.0
//! Who is there (B-408).
//!
//! A client that names nobody, or a certificate, or the token that follows, is known by the token that it puts to `$cbs`. One
//! that gives a key by name is known at once, for the whole namespace.

use oxbus_amqp::performative::{PlainCredentials, SaslCode, SaslInit, mechanism};

use super::connection::AmqpConnection;
use crate::sas::AccessDenied;

impl AmqpConnection {
    pub(super) fn authenticate(&mut self, init: &SaslInit) {
        if init.mechanism != *mechanism::PLAIN {
            self.engine.sasl_outcome(SaslCode::Ok);
            return;
        }
        let claims = init
            .initial_response
            .as_ref()
            .and_then(PlainCredentials::read)
            .and_then(|given| {
                let authority = self.context.authority();
                let claims = authority.authorize_plain(&given.user, &given.password);
                claims.inspect_err(AccessDenied::log).ok()
            });
        self.is_known = claims.is_some_and(|claims| self.state.grant(claims));
        self.engine
            .sasl_outcome(if self.is_known { SaslCode::Ok } else { SaslCode::Auth });
    }
}
