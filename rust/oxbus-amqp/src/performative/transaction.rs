// SPDX-License-Identifier: Apache-2.0
//! The messages that a client sends to the coordinator (AMQP 1.0, part 4, 4.5.6 and 4.5.7).

use bytes::Bytes;

use crate::codec::{AmqpValue, DecodeError, Reader, composite, descriptor_code};

composite! {
    /// A transaction is to begin.
    Declare = 0x31 "declare" {
        /// A transaction over several coordinators. Never used here.
        global_id: AmqpValue,
    }
}

composite! {
    /// A transaction is to end.
    Discharge = 0x32 "discharge" {
        /// The transaction.
        txn_id: Bytes,
        /// True to roll the transaction back.
        fail: bool,
    }
}

/// A client's request to the coordinator.
#[derive(Debug, Clone, PartialEq)]
pub enum TransactionRequest {
    /// A transaction is to begin.
    Declare(Declare),
    /// A transaction is to end.
    Discharge(Discharge),
}

impl TransactionRequest {
    /// Reads the value in the body of a message: `body` begins behind the descriptor of the section.
    pub fn read(body: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match descriptor_code(body)? {
            Some(0x31) => Declare::decode_list(body).map(Self::Declare),
            Some(0x32) => Discharge::decode_list(body).map(Self::Discharge),
            descriptor => Err(DecodeError::WrongDescriptor {
                expected: "declare or discharge",
                descriptor,
            }),
        }
    }
}
