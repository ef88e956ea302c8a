// SPDX-License-Identifier: Apache-2.0
//! Values of every type, nested.

use bytes::Bytes;
use oxbus_amqp::codec::{Array, Map, Symbol, Timestamp, Uuid, Value};
use proptest::prelude::*;

/// Values that hold no others.
pub(crate) fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u8>().prop_map(Value::from),
        any::<u16>().prop_map(Value::from),
        prop_oneof![Just(0), 0..300_u32, any::<u32>()].prop_map(Value::from),
        prop_oneof![Just(0), 0..300_u64, any::<u64>()].prop_map(Value::from),
        any::<i8>().prop_map(Value::from),
        any::<i16>().prop_map(Value::from),
        prop_oneof![-200..200_i32, any::<i32>()].prop_map(Value::from),
        prop_oneof![-200..200_i64, any::<i64>()].prop_map(Value::from),
        (-1e9_f32..1e9).prop_map(Value::from),
        (-1e9_f64..1e9).prop_map(Value::from),
        any::<[u8; 4]>().prop_map(Value::Decimal32),
        any::<[u8; 8]>().prop_map(Value::Decimal64),
        any::<[u8; 16]>().prop_map(Value::Decimal128),
        any::<char>().prop_map(Value::from),
        any::<i64>().prop_map(|at| Value::from(Timestamp(at))),
        any::<[u8; 16]>().prop_map(|bytes| Value::from(Uuid(bytes))),
        prop::collection::vec(any::<u8>(), 0..300).prop_map(|bytes| Value::from(Bytes::from(bytes))),
        ".{0,90}".prop_map(|text| Value::from(text.as_str())),
        "[ -~]{0,300}".prop_map(|text| Value::from(Symbol::new(&text))),
    ]
}

/// Values of any type. An empty array is written as an empty list, so there is none.
pub(crate) fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(4, 48, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::List),
            prop::collection::vec((inner.clone(), inner.clone()), 0..6)
                .prop_map(|pairs| Value::Map(pairs.into_iter().collect::<Map>())),
            (inner.clone(), inner.clone()).prop_map(|(descriptor, value)| Value::described(descriptor, value)),
            prop::collection::vec(inner, 1..8).prop_map(|items| {
                // One type only: that of the first item.
                let first = items[0].clone();
                let same = |item: &Value| Array::new(vec![first.clone(), item.clone()]).is_some();
                let items: Vec<_> = items.iter().filter(|item| same(item)).cloned().collect();
                if items.is_empty() {
                    // Described twice: no array can have it.
                    return first;
                }
                Array::new(items).map_or(first, Value::Array)
            }),
        ]
    })
}
