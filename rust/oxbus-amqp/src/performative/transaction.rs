// SPDX-License-Identifier: Apache-2.0
//! Requests to the transaction coordinator (AMQP 1.0, part 4, 4.5.6 and 4.5.7).

use bytes::Bytes;

use crate::codec::{AmqpValue, DecodeError, Reader, composite, descriptor_code};

composite! {
    /// Begins a transaction.
    Declare = 0x31 "declare" {
        /// Id of a distributed transaction. Not supported.
        global_id: AmqpValue,
    }
}

composite! {
    /// Ends a transaction.
    Discharge = 0x32 "discharge" {
        /// The transaction.
        txn_id: Bytes,
        /// True if the transaction is rolled back.
        fail: bool,
    }
}

/// A request to the coordinator.
#[derive(Debug, Clone, PartialEq)]
pub enum TransactionRequest {
    /// Begins a transaction.
    Declare(Declare),
    /// Ends a transaction.
    Discharge(Discharge),
}

impl TransactionRequest {
    /// Reads a request. `body` begins after the descriptor of the section.
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
