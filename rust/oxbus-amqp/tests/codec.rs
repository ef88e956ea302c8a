// SPDX-License-Identifier: Apache-2.0
//! Round trips of values, and limits on untrusted bytes.

mod support {
    pub(crate) mod values;
}

use bytes::{BufMut, Bytes, BytesMut};
use oxbus_amqp::codec::{AmqpValue, Array, DecodeError, Entries, Field, Reader, Symbol, Tag};
use oxbus_model::caps::{AMQP_NESTING_MAX, AMQP_TAG_BYTES_MAX, AMQP_VALUES_MAX};
use proptest::prelude::*;
use support::values::value;

proptest! {
    #[test]
    fn a_value_survives_a_round_trip(value in value()) {
        prop_assert_eq!(AmqpValue::from_bytes(&value.to_bytes()), Ok(value));
    }

    #[test]
    fn a_truncated_value_is_an_error(value in value(), cut in 0.0..1.0_f64) {
        let bytes = value.to_bytes();
        let cut = (bytes.len() as f64 * cut) as usize;
        prop_assert!(AmqpValue::from_bytes(&bytes.slice(..cut)).is_err());
    }

    #[test]
    fn skip_ends_where_decode_ends(value in value(), behind in any::<[u8; 3]>()) {
        let mut bytes = BytesMut::new();
        value.encode(&mut bytes);
        let end = bytes.len();
        bytes.put_slice(&behind);
        let bytes = bytes.freeze();
        let mut reader = Reader::new(&bytes);
        prop_assert_eq!(reader.skip(), Ok(()));
        prop_assert_eq!(reader.position(), end);
    }

    /// A value decoded from any bytes encodes to bytes that decode to the same value.
    #[test]
    fn arbitrary_bytes_are_an_error_or_a_value(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(value) = AmqpValue::from_bytes(&Bytes::from(bytes)) {
            let again = AmqpValue::from_bytes(&value.to_bytes()).map(|value| value.to_bytes());
            prop_assert_eq!(again, Ok(value.to_bytes()));
        }
    }
}

fn decoded(bytes: &'static [u8]) -> Result<AmqpValue, DecodeError> {
    AmqpValue::from_bytes(&Bytes::from_static(bytes))
}

#[test]
fn every_form_of_a_number_is_read() {
    for bytes in [&b"\x70\0\0\0\x07"[..], b"\x52\x07"] {
        assert_eq!(decoded(bytes), Ok(AmqpValue::Uint(7)));
    }
    assert_eq!(decoded(b"\x43"), Ok(AmqpValue::Uint(0)));
    for bytes in [&b"\x80\0\0\0\0\0\0\0\x07"[..], b"\x53\x07"] {
        assert_eq!(decoded(bytes), Ok(AmqpValue::Ulong(7)));
    }
    assert_eq!(decoded(b"\x44"), Ok(AmqpValue::Ulong(0)));
    for bytes in [&b"\x71\xff\xff\xff\xfe"[..], b"\x54\xfe"] {
        assert_eq!(decoded(bytes), Ok(AmqpValue::Int(-2)));
    }
    for bytes in [&b"\x81\xff\xff\xff\xff\xff\xff\xff\xfe"[..], b"\x55\xfe"] {
        assert_eq!(decoded(bytes), Ok(AmqpValue::Long(-2)));
    }
    for bytes in [&b"\x41"[..], b"\x56\x01"] {
        assert_eq!(decoded(bytes), Ok(AmqpValue::Boolean(true)));
    }
    for bytes in [&b"\x42"[..], b"\x56\x00"] {
        assert_eq!(decoded(bytes), Ok(AmqpValue::Boolean(false)));
    }
}

#[test]
fn every_form_of_a_list_a_map_and_an_array_is_read() {
    let one = AmqpValue::List(vec![AmqpValue::Uint(0)]);
    assert_eq!(decoded(b"\x45"), Ok(AmqpValue::List(vec![])));
    assert_eq!(decoded(b"\xc0\x02\x01\x43"), Ok(one.clone()));
    assert_eq!(decoded(b"\xd0\0\0\0\x05\0\0\0\x01\x43"), Ok(one));
    let map = AmqpValue::Map([(AmqpValue::Uint(0), AmqpValue::Boolean(true))].into_iter().collect());
    assert_eq!(decoded(b"\xc1\x03\x02\x43\x41"), Ok(map.clone()));
    assert_eq!(decoded(b"\xd1\0\0\0\x06\0\0\0\x02\x43\x41"), Ok(map));
    let array = Array::new(vec![AmqpValue::Ubyte(3), AmqpValue::Ubyte(4)]).map(AmqpValue::Array);
    assert_eq!(decoded(b"\xe0\x04\x02\x50\x03\x04").ok(), array);
    assert_eq!(decoded(b"\xf0\0\0\0\x07\0\0\0\x02\x50\x03\x04").ok(), array);
    let described = AmqpValue::described(AmqpValue::Ulong(1), AmqpValue::Ubyte(3));
    assert_eq!(
        decoded(b"\xe0\x06\x01\0\x53\x01\x50\x03").ok(),
        Array::new(vec![described]).map(AmqpValue::Array)
    );
}

/// Common clients cannot read an empty array.
#[test]
fn empty_array_is_written_as_empty_list_or_null() {
    assert_eq!(&AmqpValue::Array(Array::default()).to_bytes()[..], b"\x45");
    let mut out = BytesMut::new();
    Vec::<Symbol>::new().encode(&mut out);
    assert_eq!(&out[..], b"\x40");
    assert_eq!(decoded(b"\xe0\x02\x00\x50"), Ok(AmqpValue::Array(Array::default())));
}

#[test]
fn an_array_of_several_types_is_rejected() {
    assert_eq!(Array::new(vec![AmqpValue::Uint(1), AmqpValue::Int(1)]), None);
    let twice = AmqpValue::described(AmqpValue::Null, AmqpValue::described(AmqpValue::Null, AmqpValue::Null));
    assert_eq!(Array::new(vec![twice]), None);
    assert!(Array::new(vec![AmqpValue::Uint(0), AmqpValue::Uint(70_000)]).is_some());
}

#[test]
fn binaries_and_texts_share_the_input_buffer() {
    let bytes = AmqpValue::List(vec![
        AmqpValue::from("text"),
        AmqpValue::Binary(Bytes::from_static(b"binary")),
    ])
    .to_bytes();
    let range = bytes.as_ptr_range();
    let Ok(AmqpValue::List(items)) = AmqpValue::from_bytes(&bytes) else {
        panic!("a list");
    };
    let [AmqpValue::String(text), AmqpValue::Binary(binary)] = &items[..] else {
        panic!("a text and a binary");
    };
    assert!(range.contains(&text.as_ptr()) && range.contains(&binary.as_ptr()));
}

/// The attack: nesting that would overflow the stack of a recursive decode.
#[test]
fn levels_are_limited() {
    let levels = |depth: usize| {
        let mut bytes = BytesMut::new();
        for _ in 0..depth {
            bytes.put_slice(b"\0\x43");
        }
        bytes.put_u8(0x40);
        AmqpValue::from_bytes(&bytes.freeze())
    };
    assert!(levels(AMQP_NESTING_MAX as usize).is_ok());
    assert_eq!(levels(AMQP_NESTING_MAX as usize + 1), Err(DecodeError::TooDeep));
    assert_eq!(levels(1_000_000), Err(DecodeError::TooDeep));
    let mut skipped = BytesMut::new();
    skipped.put_bytes(0, 1_000_000);
    assert_eq!(Reader::new(&skipped.freeze()).skip(), Err(DecodeError::TooDeep));
}

/// The attack: a dozen bytes that declare four billion values of no bytes.
#[test]
fn counts_are_limited() {
    assert_eq!(
        decoded(b"\xf0\0\0\0\x05\xff\xff\xff\xff\x40"),
        Err(DecodeError::TooMany)
    );
    assert_eq!(decoded(b"\xd0\0\0\0\x04\xff\xff\xff\xff"), Err(DecodeError::TooMany));
    let mut nested = BytesMut::new();
    for _ in 0..=AMQP_VALUES_MAX / 1_000 {
        nested.put_slice(b"\xf0\0\0\0\x05\0\0\x03\xe8\x40");
    }
    let mut list = BytesMut::new();
    list.put_u8(0xd0);
    list.put_u32(nested.len() as u32 + 4);
    list.put_u32(AMQP_VALUES_MAX / 1_000 + 1);
    list.put_slice(&nested);
    assert_eq!(AmqpValue::from_bytes(&list.freeze()), Err(DecodeError::TooMany));
}

#[test]
fn wrong_sizes_are_errors() {
    assert_eq!(decoded(b"\xc0\x03\x01\x43\x43"), Err(DecodeError::BadSize));
    assert_eq!(decoded(b"\xc1\x02\x01\x43"), Err(DecodeError::BadSize));
    assert_eq!(decoded(b"\xc0\x02\x02\x43"), Err(DecodeError::Truncated));
    assert_eq!(decoded(b"\xb0\xff\xff\xff\xff\0"), Err(DecodeError::Truncated));
    assert_eq!(decoded(b"\xc0\xff\x01\x43"), Err(DecodeError::Truncated));
    assert_eq!(decoded(b"\xa1\x01\xff"), Err(DecodeError::NotText));
    assert_eq!(decoded(b"\xa3\x02\xc3\xa4"), Err(DecodeError::NotText));
    assert_eq!(decoded(b"\x73\0\0\xd8\0"), Err(DecodeError::NotACharacter(0xd800)));
    assert_eq!(decoded(b"\x99"), Err(DecodeError::UnknownCode(0x99)));
}

#[test]
fn tag_is_limited() {
    assert!(Tag::new(&[7; AMQP_TAG_BYTES_MAX]).is_ok());
    assert_eq!(
        Tag::new(&[7; AMQP_TAG_BYTES_MAX + 1]),
        Err(DecodeError::TagTooLong(AMQP_TAG_BYTES_MAX + 1))
    );
}

#[test]
fn entries_of_a_map_come_one_by_one() {
    let map: oxbus_amqp::codec::Map = (0..5_u32)
        .map(|key| (AmqpValue::from(key), AmqpValue::from("value")))
        .collect();
    let bytes = AmqpValue::Map(map.clone()).to_bytes();
    let pairs: Result<oxbus_amqp::codec::Map, _> = Entries::new(&bytes, 0).and_then(Iterator::collect);
    assert_eq!(pairs, Ok(map));
    let cut = bytes.slice(..bytes.len() - 1);
    assert!(Entries::new(&cut, 0).is_err());
}
