// SPDX-License-Identifier: Apache-2.0
//! The state of a delivery (AMQP 1.0, part 3, 3.4; part 4, 4.5.5 and 4.5.8).

use bytes::{BufMut, Bytes, BytesMut};

use super::AmqpError;
use crate::codec::{AmqpValue, DecodeError, Field, ListFields, Map, Reader, code, composite, descriptor_code};

/// The state of a delivery.
#[derive(Debug, Clone, PartialEq)]
pub enum DeliveryState {
    /// Partially received. This is not an outcome.
    Received {
        /// The incomplete section.
        section_number: u32,
        /// Received bytes of it.
        section_offset: u64,
    },
    /// Processed.
    Accepted,
    /// Invalid.
    Rejected(Option<Box<AmqpError>>),
    /// Not processed.
    Released,
    /// Not processed. The message is to be changed.
    Modified(Box<Modified>),
    /// A transaction was declared.
    Declared {
        /// The id of the transaction.
        transaction_id: Bytes,
    },
    /// Part of a transaction.
    Transactional {
        /// The id of the transaction.
        transaction_id: Bytes,
        /// The outcome when the transaction commits.
        outcome: Option<Box<DeliveryState>>,
    },
}

composite! {
    /// Changes to a message that was not processed.
    Modified = 0x27 "modified" {
        /// True if it counts as a failed delivery.
        delivery_failed: bool,
        /// True if the receiver cannot accept it again.
        undeliverable_here: bool,
        /// Annotations to add.
        message_annotations: Option<Map>,
    }
}

impl DeliveryState {
    /// True if the state is terminal.
    pub fn is_outcome(&self) -> bool {
        match self {
            Self::Received { .. } => false,
            Self::Transactional { outcome, .. } => outcome.is_some(),
            _ => true,
        }
    }
}

/// Clients write abandon and defer as `modified`.
impl From<Modified> for DeliveryState {
    fn from(modified: Modified) -> Self {
        Self::Modified(Box::new(modified))
    }
}

impl Field for DeliveryState {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.descend()?;
        let state = match descriptor_code(reader)? {
            Some(0x23) => {
                let mut fields = ListFields::open(reader)?;
                let state = Self::Received {
                    section_number: fields.next("section_number")?,
                    section_offset: fields.next("section_offset")?,
                };
                fields.close();
                state
            }
            Some(0x24) => {
                ListFields::open(reader)?.close();
                Self::Accepted
            }
            Some(0x25) => {
                let mut fields = ListFields::open(reader)?;
                let error = fields.next("error")?;
                fields.close();
                Self::Rejected(error)
            }
            Some(0x26) => {
                ListFields::open(reader)?.close();
                Self::Released
            }
            Some(0x27) => Modified::decode_list(reader)?.into(),
            Some(0x33) => {
                let mut fields = ListFields::open(reader)?;
                let transaction_id = fields.next("txn_id")?;
                fields.close();
                Self::Declared { transaction_id }
            }
            Some(0x34) => {
                let mut fields = ListFields::open(reader)?;
                let transaction_id = fields.next("txn_id")?;
                let outcome = fields.next("outcome")?;
                fields.close();
                Self::Transactional {
                    transaction_id,
                    outcome,
                }
            }
            descriptor => {
                return Err(DecodeError::WrongDescriptor {
                    expected: "delivery state",
                    descriptor,
                });
            }
        };
        reader.ascend();
        Ok(state)
    }

    fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Received {
                section_number,
                section_offset,
            } => {
                let fields = [AmqpValue::Uint(*section_number), AmqpValue::Ulong(*section_offset)];
                put_list(out, 0x23, &fields);
            }
            Self::Accepted => out.put_slice(&[code::DESCRIBED, code::ULONG_SMALL, 0x24, code::LIST_0]),
            Self::Rejected(error) => put_list(out, 0x25, std::slice::from_ref(error)),
            Self::Released => out.put_slice(&[code::DESCRIBED, code::ULONG_SMALL, 0x26, code::LIST_0]),
            Self::Modified(modified) => modified.encode(out),
            Self::Declared { transaction_id } => put_list(out, 0x33, std::slice::from_ref(transaction_id)),
            Self::Transactional {
                transaction_id,
                outcome,
            } => {
                out.put_slice(&[code::DESCRIBED, code::ULONG_SMALL, 0x34]);
                let list = crate::codec::Compound::begin(out, code::LIST_32);
                transaction_id.encode(out);
                outcome.encode(out);
                list.end(out, 2);
            }
        }
    }
}

fn put_list<T: Field>(out: &mut BytesMut, descriptor: u8, fields: &[T]) {
    out.put_slice(&[code::DESCRIBED, code::ULONG_SMALL, descriptor]);
    let list = crate::codec::Compound::begin(out, code::LIST_32);
    for field in fields {
        field.encode(out);
    }
    list.end(out, fields.len());
}
