// SPDX-License-Identifier: Apache-2.0
//! SASL authentication (B-408).
//!
//! A client with the mechanism ANONYMOUS, EXTERNAL or MSSBCBS is authenticated later, by the token that it puts to
//! `$cbs`. A client with PLAIN sends the name and key of a rule and gets the rule's rights on the whole namespace at
//! once.

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
