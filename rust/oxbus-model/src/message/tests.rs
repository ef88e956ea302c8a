// SPDX-License-Identifier: Apache-2.0
use proptest::option::of;
use proptest::prelude::*;

use super::*;

fn value() -> impl Strategy<Value = OwnedValue> {
    prop_oneof![
        Just(OwnedValue::Null),
        any::<bool>().prop_map(OwnedValue::Bool),
        any::<i64>().prop_map(OwnedValue::Int),
        (-1e300f64..1e300).prop_map(OwnedValue::Double),
        ".{0,40}".prop_map(OwnedValue::Text),
        any::<Vec<u8>>().prop_map(OwnedValue::Bytes),
        any::<[u8; 16]>().prop_map(OwnedValue::Uuid),
        any::<i64>().prop_map(OwnedValue::Time),
        any::<i64>().prop_map(OwnedValue::Timespan),
        any::<Vec<u8>>().prop_map(OwnedValue::Amqp),
    ]
}

#[derive(Debug, Clone)]
enum OwnedValue {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
    Uuid([u8; 16]),
    Time(i64),
    Timespan(i64),
    Amqp(Vec<u8>),
}

impl OwnedValue {
    fn borrow(&self) -> StoredValue<'_> {
        StoredValue::Plain(match self {
            Self::Amqp(it) => return StoredValue::Amqp(it),
            Self::Null => Value::Null,
            Self::Bool(it) => Value::Bool(*it),
            Self::Int(it) => Value::Int(*it),
            Self::Double(it) => Value::Double(*it),
            Self::Text(it) => Value::Text(it),
            Self::Bytes(it) => Value::Bytes(it),
            Self::Uuid(it) => Value::Uuid(*it),
            Self::Time(it) => Value::Time(*it),
            Self::Timespan(it) => Value::Timespan(*it),
        })
    }
}

fn encoded(fields: &Fields<'_>) -> Vec<u8> {
    let mut bytes = vec![0; fields.encoded_len()];
    fields.encode(&mut bytes);
    let mut appended = vec![7];
    fields.push_to(&mut appended);
    assert_eq!(appended.split_first(), Some((&7, &bytes[..])));
    bytes
}

proptest! {
    #[test]
    fn an_encoded_message_decodes_to_the_same_fields(
        body in of((any::<bool>(), any::<Vec<u8>>())),
        amqp: Vec<u8>,
        id in of(prop_oneof![".{0,20}".prop_map(Ok), any::<[u8; 16]>().prop_map(Err)]),
        texts in any::<[Option<String>; 8]>(),
        ttl: Option<u64>,
        scheduled: Option<u64>,
        number: Option<u64>,
        hops: Option<u8>,
        source in of(".{0,20}"),
        properties in of(prop::collection::btree_map(".{0,10}", value(), 0..5)),
    ) {
        let mut builder = PropertiesBuilder::default();
        for (key, value) in properties.iter().flatten() {
            builder.push_stored(key, value.borrow());
        }
        let fields = Fields {
            body: body.as_ref().map_or(Body::Null, |(is_data, bytes)| if *is_data { Body::Data(bytes) } else { Body::Sections(bytes) }),
            message_id: id.as_ref().map(|id| match id {
                Ok(text) => MessageId::Given(text),
                Err(bytes) => MessageId::Assigned(AssignedId::from_bytes(*bytes)),
            }),
            session_id: texts[0].as_deref(),
            partition_key: texts[1].as_deref(),
            subject: texts[2].as_deref(),
            correlation_id: texts[3].as_deref(),
            content_type: texts[4].as_deref(),
            to: texts[5].as_deref(),
            reply_to: texts[6].as_deref(),
            reply_to_session_id: texts[7].as_deref(),
            time_to_live_ms: ttl,
            scheduled_enqueue_time: scheduled.map(Timestamp),
            application_properties: properties.is_some().then(|| builder.properties()),
            enqueued_number: number.map(SequenceNumber),
            hops,
            dead_letter_source: source.as_deref(),
            amqp: &amqp,
        };
        let bytes = encoded(&fields);
        let read = Fields::decode(&bytes).expect("it was encoded");
        prop_assert_eq!(read, fields);
        for (key, value) in properties.iter().flatten() {
            prop_assert_eq!(builder.properties().get(key), Some(value.borrow().plain()));
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
        if let Ok(fields) = Fields::decode(&bytes) {
            prop_assert!(fields.encoded_len() <= bytes.len() + 20);
        }
    }

    #[test]
    fn a_plain_message_has_only_an_assigned_id_and_a_body(
        id: Option<[u8; 16]>, body: Vec<u8>, kind in 0..3, subject in of(".{0,9}"), given in of(".{0,9}"), amqp in of(Just(&[1])),
    ) {
        let id = id.map(AssignedId::from_bytes);
        let fields = Fields {
            body: [Body::Data(&body), Body::Null, Body::Sections(&body)][kind as usize],
            message_id: given.as_deref().map(MessageId::Given).or(id.map(MessageId::Assigned)),
            subject: subject.as_deref(),
            amqp: amqp.map_or(&[], |it| &it[..]),
            ..Fields::default()
        };
        if let (Some(id), 0 | 1) = (id, kind) {
            let body = (kind == 0).then_some(&body[..]);
            let plain = Fields {
                body: body.map_or(Body::Null, Body::Data),
                message_id: Some(MessageId::Assigned(id)),
                ..Fields::default()
            };
            let head = Fields::plain_head(id, body);
            prop_assert_eq!([&head, body.unwrap_or_default()].concat(), encoded(&plain));
        }
        let is_plain = kind == 0 && subject.is_none() && given.is_none() && amqp.is_none();
        let bytes = encoded(&fields);
        prop_assert_eq!(Fields::decode_plain(&bytes), is_plain.then_some((id, &body[..])));
        for cut in 0..bytes.len() {
            // A shorter message has a shorter body, or does not decode.
            let found = Fields::decode_plain(&bytes[..cut]);
            let read = Fields::decode(&bytes[..cut]).ok().filter(|_| is_plain);
            let plain = read.map(|it| (it.message_id, it.body));
            prop_assert_eq!(found.map(|(id, body)| (id.map(MessageId::Assigned), Body::Data(body))), plain);
        }
    }

    #[test]
    fn a_truncated_message_never_gains_fields(subject in ".{1,30}", cut in 0usize..40) {
        let bytes = encoded(&Fields { subject: Some(&subject), ..Fields::default() });
        let cut = cut.min(bytes.len() - 1);
        prop_assert!(Fields::decode(&bytes[..cut]).is_err());
    }
}

#[test]
fn the_key_is_the_session_id_then_the_partition_key() {
    let both = |session_id, partition_key| {
        Fields {
            session_id,
            partition_key,
            ..Fields::default()
        }
        .key()
    };
    assert_eq!(both(None, None).expect("no key"), None);
    assert_eq!(both(None, Some("p")).expect("key"), Some("p"));
    assert_eq!(both(Some("s"), None).expect("key"), Some("s"));
    assert_eq!(both(Some("s"), Some("s")).expect("key"), Some("s"));
    assert_eq!(
        both(Some("s"), Some("p")).expect_err("differ").kind(),
        ErrorKind::KeyMismatch
    );
}

#[test]
fn merge_replaces_the_value_of_a_key_and_keeps_the_others() {
    let mut stored = PropertiesBuilder::default();
    stored.push("a", Value::Int(1));
    stored.push("b", Value::Text("x"));
    let merged = PropertiesBuilder::merge(
        Some(stored.properties()),
        &[("b", Value::Bool(true)), ("c", Value::Null)],
    );
    let entries: Vec<_> = merged.properties().iter().collect();
    assert_eq!(
        entries,
        [("a", Value::Int(1)), ("b", Value::Bool(true)), ("c", Value::Null)]
    );
}
