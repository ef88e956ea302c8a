// SPDX-License-Identifier: Apache-2.0
//! Composite types: described lists with named fields.

use super::{AmqpValue, DecodeError, Reader, code};

/// Reads a descriptor with its leading zero. Returns `None` if it is neither a number nor a name of the specification.
pub fn descriptor_code(reader: &mut Reader<'_>) -> Result<Option<u64>, DecodeError> {
    match reader.u8()? {
        code::DESCRIBED => {}
        code => {
            return Err(DecodeError::WrongType {
                expected: "described value",
                code,
            });
        }
    }
    match reader.peek()? {
        code::ULONG_SMALL | code::ULONG | code::ULONG_0 => reader.field("descriptor").map(Some),
        code::SYMBOL_8 | code::SYMBOL_32 => {
            let name: super::Symbol = reader.field("descriptor")?;
            Ok(code_of_name(name.as_str()))
        }
        code::DESCRIBED => Err(DecodeError::UnknownCode(code::DESCRIBED)),
        _ => reader.field::<AmqpValue>("descriptor").map(|_| None),
    }
}

/// The numeric code of a symbolic descriptor.
fn code_of_name(name: &str) -> Option<u64> {
    Some(match name {
        "amqp:open:list" => 0x10,
        "amqp:begin:list" => 0x11,
        "amqp:attach:list" => 0x12,
        "amqp:flow:list" => 0x13,
        "amqp:transfer:list" => 0x14,
        "amqp:disposition:list" => 0x15,
        "amqp:detach:list" => 0x16,
        "amqp:end:list" => 0x17,
        "amqp:close:list" => 0x18,
        "amqp:error:list" => 0x1d,
        "amqp:received:list" => 0x23,
        "amqp:accepted:list" => 0x24,
        "amqp:rejected:list" => 0x25,
        "amqp:released:list" => 0x26,
        "amqp:modified:list" => 0x27,
        "amqp:source:list" => 0x28,
        "amqp:target:list" => 0x29,
        "amqp:coordinator:list" => 0x30,
        "amqp:declare:list" => 0x31,
        "amqp:discharge:list" => 0x32,
        "amqp:declared:list" => 0x33,
        "amqp:transactional-state:list" => 0x34,
        "amqp:sasl-mechanisms:list" => 0x40,
        "amqp:sasl-init:list" => 0x41,
        "amqp:sasl-challenge:list" => 0x42,
        "amqp:sasl-response:list" => 0x43,
        "amqp:sasl-outcome:list" => 0x44,
        "amqp:header:list" => 0x70,
        "amqp:delivery-annotations:map" => 0x71,
        "amqp:message-annotations:map" => 0x72,
        "amqp:properties:list" => 0x73,
        "amqp:application-properties:map" => 0x74,
        "amqp:data:binary" => 0x75,
        "amqp:amqp-sequence:list" => 0x76,
        "amqp:amqp-value:*" => 0x77,
        "amqp:footer:map" => 0x78,
        _ => return None,
    })
}

/// Reads the fields of a list. Fields after the last encoded one are absent.
pub(crate) struct ListFields<'r, 'a> {
    reader: &'r mut Reader<'a>,
    opened: Option<super::reader::OpenCompound>,
    left: u32,
}

impl<'r, 'a> ListFields<'r, 'a> {
    #[inline]
    pub(crate) fn open(reader: &'r mut Reader<'a>) -> Result<Self, DecodeError> {
        let opened = match reader.u8()? {
            code::LIST_0 => None,
            code::LIST_8 => Some(reader.open(false)?),
            code::LIST_32 => Some(reader.open(true)?),
            code => return Err(DecodeError::WrongType { expected: "list", code }),
        };
        let left = opened.map_or(0, |opened| opened.count);
        Ok(Self { reader, opened, left })
    }

    #[inline]
    pub(crate) fn next<T: super::Field>(&mut self, name: &'static str) -> Result<T, DecodeError> {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                self.reader.field(name)
            }
            None => T::absent(name),
        }
    }

    /// Ends the list. Skips unknown further fields.
    #[inline]
    pub(crate) fn close(self) {
        if let Some(opened) = self.opened {
            self.reader.skip_rest(opened);
        }
    }
}

/// Defines a composite type as a struct, with its decoder and its encoder, which writes all fields.
macro_rules! composite {
    (
        $(#[$about:meta])*
        $name:ident = $code:literal $expected:literal {
            $($(#[$field_about:meta])* $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $($(#[$field_about])* pub $field: $type,)*
        }

        impl $name {
            /// The descriptor code.
            pub const CODE: u8 = $code;

            /// Reads the list after the descriptor.
            pub(crate) fn decode_list(
                reader: &mut $crate::codec::Reader<'_>,
            ) -> Result<Self, $crate::codec::DecodeError> {
                let mut fields = $crate::codec::ListFields::open(reader)?;
                let read = Self { $($field: fields.next(stringify!($field))?,)* };
                fields.close();
                Ok(read)
            }
        }

        impl $crate::codec::Field for $name {
            fn decode(reader: &mut $crate::codec::Reader<'_>) -> Result<Self, $crate::codec::DecodeError> {
                match $crate::codec::descriptor_code(reader)? {
                    Some($code) => Self::decode_list(reader),
                    descriptor => Err($crate::codec::DecodeError::WrongDescriptor { expected: $expected, descriptor }),
                }
            }

            fn encode(&self, out: &mut bytes::BytesMut) {
                bytes::BufMut::put_slice(out, &[0x00, 0x53, $code]);
                let list = $crate::codec::Compound::begin(out, $crate::codec::code::LIST_32);
                let count = [$(stringify!($field)),*].len();
                $($crate::codec::Field::encode(&self.$field, out);)*
                list.end(out, count);
            }
        }
    };
}

pub(crate) use composite;
