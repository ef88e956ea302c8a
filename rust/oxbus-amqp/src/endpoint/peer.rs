// SPDX-License-Identifier: Apache-2.0
//! Limits that the peer announces in its `open`.

use oxbus_model::caps::{AMQP_FRAME_BYTES_MAX, AMQP_FRAME_BYTES_MIN, AMQP_IDLE_MS_MIN};

use crate::performative::{AmqpError, Open, condition};

/// Limits that the peer announced.
#[derive(Debug)]
pub(crate) struct PeerLimits {
    pub(crate) max_frame_size: usize,
    pub(crate) channel_max: u16,
    pub(crate) idle_ms: Option<u32>,
}

impl PeerLimits {
    /// The limits before its `open`.
    pub(crate) fn unknown(channel_max: u16) -> Self {
        Self {
            max_frame_size: AMQP_FRAME_BYTES_MIN as usize,
            channel_max,
            idle_ms: None,
        }
    }

    pub(crate) fn announced(open: &Open) -> Result<Self, AmqpError> {
        let idle_ms = open.idle_time_out_ms.filter(|idle| *idle > 0);
        if idle_ms.is_some_and(|idle| idle < AMQP_IDLE_MS_MIN) {
            let text = format!("the idle timeout is too short; use {AMQP_IDLE_MS_MIN} ms or more");
            return Err(AmqpError::new(condition::NOT_ALLOWED, text));
        }
        let frame_max = open.max_frame_size.unwrap_or(u32::MAX);
        Ok(Self {
            max_frame_size: frame_max.clamp(AMQP_FRAME_BYTES_MIN, AMQP_FRAME_BYTES_MAX) as usize,
            channel_max: open.channel_max.unwrap_or(u16::MAX),
            idle_ms,
        })
    }
}
