// SPDX-License-Identifier: Apache-2.0
//! Protocol headers and SASL, before the connection is open.

use super::connection::ClientState;
use super::{ClientEngine, ClientEvent, SaslChoice};
use crate::codec::Symbol;
use crate::endpoint::{AMQP_HEADER, SASL_HEADER};
use crate::performative::{AmqpError, SaslCode, SaslFrame, SaslInit, condition, put_sasl_frame};

/// The start of every header.
const PROTOCOL: &[u8] = b"AMQP";
const REQUIRES_TLS: &str = "the server requires TLS; connect with TLS";

impl ClientEngine {
    pub(super) fn put_first_header(&mut self) {
        if self.settings.sasl == SaslChoice::Skip {
            self.put_amqp_header();
        } else {
            self.output.extend_from_slice(&SASL_HEADER);
        }
    }

    /// Writes the header of AMQP, the `open`, and what commands have written so far.
    fn put_amqp_header(&mut self) {
        self.state = ClientState::AmqpHeader;
        self.output.extend_from_slice(&AMQP_HEADER);
        self.put_open();
        self.output.unsplit(self.early_output.split());
    }

    /// Handles the server's protocol header. Returns false if it is incomplete.
    pub(super) fn handle_header(&mut self) -> bool {
        let expected = if self.state == ClientState::Header {
            SASL_HEADER
        } else {
            AMQP_HEADER
        };
        let length = self.input.len().min(expected.len());
        let start = &self.input[..length];
        let is_amqp = start.starts_with(PROTOCOL);
        // Any other protocol is recognised by its first byte, so that the error does not depend on what else is there.
        if !is_amqp && !PROTOCOL.starts_with(start) {
            self.abort(other_protocol(start[0]));
            return true;
        }
        if length < expected.len() {
            return false;
        }
        if start != expected {
            self.abort(other_header(start));
            return true;
        }
        let _ = self.input.split_to(length);
        self.state = if self.state == ClientState::Header {
            ClientState::Mechanisms
        } else {
            ClientState::Open
        };
        true
    }

    pub(super) fn handle_sasl(&mut self, frame: SaslFrame) {
        match (self.state, frame) {
            (ClientState::Mechanisms, SaslFrame::Mechanisms(offered)) => self.choose(&offered.mechanisms),
            (ClientState::SaslOutcome, SaslFrame::Outcome(outcome)) => match outcome.code {
                SaslCode::Ok => self.put_amqp_header(),
                SaslCode::Auth => self.abort(AmqpError::new(
                    condition::UNAUTHORIZED_ACCESS,
                    "the server does not accept the credentials",
                )),
                SaslCode::System => self.abort(AmqpError::new(
                    condition::INTERNAL_ERROR,
                    "the server cannot check the credentials now",
                )),
            },
            _ => self.abort(AmqpError::new(condition::NOT_ALLOWED, "a SASL frame at the wrong time")),
        }
    }

    fn choose(&mut self, offered: &[Symbol]) {
        let Some(mechanism) = self.settings.sasl.mechanism() else {
            return;
        };
        if !offered.iter().any(|name| name.as_str() == mechanism) {
            let names: Vec<_> = offered.iter().map(Symbol::as_str).collect();
            let text = format!(
                "the server does not offer the SASL mechanism {mechanism}; it offers: {}",
                names.join(", ")
            );
            self.abort(AmqpError::new(condition::NOT_IMPLEMENTED, text));
            return;
        }
        let init = SaslInit {
            mechanism: Symbol::from_static(mechanism),
            initial_response: self.settings.sasl.initial_response(),
            hostname: self.settings.hostname.clone(),
        };
        put_sasl_frame(&mut self.output, &init);
        self.state = ClientState::SaslOutcome;
    }

    /// Ends a connection that is not open yet, without a frame.
    pub(super) fn abort(&mut self, error: AmqpError) {
        self.finish(ClientEvent::Failed(error));
    }
}

/// The error of a server that does not speak AMQP.
fn other_protocol(first: u8) -> AmqpError {
    // An alert or a handshake of TLS.
    let text = if matches!(first, 0x15 | 0x16) {
        REQUIRES_TLS
    } else {
        "the server does not speak AMQP; check host and port"
    };
    AmqpError::new(condition::NOT_IMPLEMENTED, text)
}

/// The error of a server that answers with another header.
fn other_header(header: &[u8]) -> AmqpError {
    let text = match &header[PROTOCOL.len()..] {
        [3, ..] => "the server requires SASL",
        [2, ..] => REQUIRES_TLS,
        [0, 0, 9, _] => "the server speaks AMQP 0-9-1; AMQP 1.0 is needed",
        _ => "the server does not support AMQP 1.0 with this SASL layer",
    };
    AmqpError::new(condition::NOT_IMPLEMENTED, text)
}
