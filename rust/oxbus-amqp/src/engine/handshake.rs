// SPDX-License-Identifier: Apache-2.0
//! Protocol headers and SASL, before the connection is open.

use super::connection::EngineState;
use super::{Engine, EngineEvent};
use crate::endpoint::{AMQP_HEADER, SASL_HEADER};
use crate::performative::{
    AmqpError, SaslCode, SaslFrame, SaslInit, SaslMechanisms, SaslOutcome, condition, put_sasl_frame,
};

impl Engine {
    /// Answers `EngineEvent::SaslInit`. Any code but `Ok` ends the connection.
    pub fn sasl_outcome(&mut self, code: SaslCode) {
        if self.state != EngineState::SaslDecision {
            return;
        }
        let outcome = SaslOutcome {
            code,
            additional_data: None,
        };
        put_sasl_frame(&mut self.output, &outcome);
        self.state = if code == SaslCode::Ok {
            EngineState::AmqpHeader
        } else {
            EngineState::Finished
        };
    }

    /// Handles a protocol header. Answers an unsupported one with a supported one.
    pub(super) fn handle_header(&mut self) -> bool {
        let length = self.input.len().min(8);
        let start = &self.input[..length];
        let is_first = self.state == EngineState::Header;
        let is_amqp_allowed = !is_first || !self.settings.is_sasl_required;
        let may_be = |header: &[u8; 8]| header.starts_with(start);
        let may_be_sasl = is_first && may_be(&SASL_HEADER);
        let may_be_amqp = is_amqp_allowed && may_be(&AMQP_HEADER);
        if !may_be_sasl && !may_be_amqp {
            let header = if is_amqp_allowed { AMQP_HEADER } else { SASL_HEADER };
            self.output.extend_from_slice(&header);
            self.abort(AmqpError::new(
                condition::NOT_IMPLEMENTED,
                "unsupported protocol or AMQP version",
            ));
            return true;
        }
        if length < 8 {
            return false;
        }
        let _ = self.input.split_to(8);
        if may_be_sasl {
            self.output.extend_from_slice(&SASL_HEADER);
            let mechanisms = self.settings.mechanisms.clone();
            put_sasl_frame(&mut self.output, &SaslMechanisms { mechanisms });
            self.state = EngineState::Sasl;
        } else {
            self.output.extend_from_slice(&AMQP_HEADER);
            self.state = EngineState::Open;
        }
        true
    }

    pub(super) fn handle_sasl(&mut self, frame: SaslFrame) {
        let SaslFrame::Init(init) = frame else {
            self.abort(AmqpError::new(condition::NOT_ALLOWED, "expected sasl-init"));
            return;
        };
        self.state = EngineState::SaslDecision;
        if self.offers(&init) {
            self.events.push_back(EngineEvent::SaslInit(init));
        } else {
            self.sasl_outcome(SaslCode::Auth);
            self.abort(AmqpError::new(
                condition::NOT_IMPLEMENTED,
                "the SASL mechanism was not offered",
            ));
        }
    }

    fn offers(&self, init: &SaslInit) -> bool {
        self.settings.mechanisms.contains(&init.mechanism)
    }

    /// Ends a connection that is not open yet, without a frame.
    pub(super) fn abort(&mut self, error: AmqpError) {
        self.state = EngineState::Finished;
        self.events.push_back(EngineEvent::Failed(error));
    }
}
