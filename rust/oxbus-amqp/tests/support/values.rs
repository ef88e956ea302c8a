// SPDX-License-Identifier: Apache-2.0
//! Generates nested values of all types.

use bytes::Bytes;
use oxbus_amqp::codec::{AmqpTimestamp, AmqpValue, Array, Map, Symbol, Uuid};
use proptest::prelude::*;

/// Values without nested values.
pub(crate) fn scalar() -> impl Strategy<Value = AmqpValue> {
    prop_oneof![
        Just(AmqpValue::Null),
        any::<bool>().prop_map(AmqpValue::from),
        any::<u8>().prop_map(AmqpValue::from),
        any::<u16>().prop_map(AmqpValue::from),
        prop_oneof![Just(0), 0..300_u32, any::<u32>()].prop_map(AmqpValue::from),
        prop_oneof![Just(0), 0..300_u64, any::<u64>()].prop_map(AmqpValue::from),
        any::<i8>().prop_map(AmqpValue::from),
        any::<i16>().prop_map(AmqpValue::from),
        prop_oneof![-200..200_i32, any::<i32>()].prop_map(AmqpValue::from),
        prop_oneof![-200..200_i64, any::<i64>()].prop_map(AmqpValue::from),
        (-1e9_f32..1e9).prop_map(AmqpValue::from),
        (-1e9_f64..1e9).prop_map(AmqpValue::from),
        any::<[u8; 4]>().prop_map(AmqpValue::Decimal32),
        any::<[u8; 8]>().prop_map(AmqpValue::Decimal64),
        any::<[u8; 16]>().prop_map(AmqpValue::Decimal128),
        any::<char>().prop_map(AmqpValue::from),
        any::<i64>().prop_map(|at| AmqpValue::from(AmqpTimestamp(at))),
        any::<[u8; 16]>().prop_map(|bytes| AmqpValue::from(Uuid(bytes))),
        prop::collection::vec(any::<u8>(), 0..300).prop_map(|bytes| AmqpValue::from(Bytes::from(bytes))),
        ".{0,90}".prop_map(|text| AmqpValue::from(text.as_str())),
        "[ -~]{0,300}".prop_map(|text| AmqpValue::from(Symbol::new(&text))),
    ]
}

/// Values of any type, without empty arrays, which are encoded as empty lists.
pub(crate) fn value() -> impl Strategy<Value = AmqpValue> {
    scalar().prop_recursive(4, 48, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(AmqpValue::List),
            prop::collection::vec((inner.clone(), inner.clone()), 0..6)
                .prop_map(|pairs| AmqpValue::Map(pairs.into_iter().collect::<Map>())),
            (inner.clone(), inner.clone()).prop_map(|(descriptor, value)| AmqpValue::described(descriptor, value)),
            prop::collection::vec(inner, 1..8).prop_map(|items| {
                // All items have the type of the first.
                let first = items[0].clone();
                let same = |item: &AmqpValue| Array::new(vec![first.clone(), item.clone()]).is_some();
                let items: Vec<_> = items.iter().filter(|item| same(item)).cloned().collect();
                if items.is_empty() {
                    // Arrays cannot contain items that are described twice.
                    return first;
                }
                Array::new(items).map_or(first, AmqpValue::Array)
            }),
        ]
    })
}
