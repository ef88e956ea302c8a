// SPDX-License-Identifier: Apache-2.0
//! Locating, reading and writing the sections of messages.

mod support {
    pub(crate) mod values;
}

use bytes::{BufMut, Bytes, BytesMut};
use oxbus_amqp::codec::{AmqpTimestamp, AmqpValue, DecodeError, Field, Map, Reader, Symbol, Uuid};
use oxbus_amqp::message::{
    AmqpBodyKind, AmqpMessageId, Header, Properties, Sections, data, entries, put_application_properties, put_data,
    put_delivery_annotations, put_message_annotations, put_value_body, read_map, read_value_body, value_body,
};
use oxbus_amqp::performative::TransactionRequest;
use proptest::prelude::*;
use support::values::{scalar, value};

fn properties() -> Properties {
    Properties {
        message_id: Some("id".into()),
        subject: Some("subject".into()),
        correlation_id: Some(AmqpMessageId::Uuid(Uuid([7; 16]))),
        content_type: Some("text/plain".into()),
        absolute_expiry_time: Some(AmqpTimestamp(1_000)),
        group_id: Some("".into()),
        group_sequence: Some(5),
        ..Properties::NONE
    }
}

/// All sections, and where each begins.
fn message() -> (Bytes, Vec<usize>) {
    let mut out = BytesMut::new();
    let mut starts = Vec::new();
    let mut note = |out: &BytesMut| starts.push(out.len());
    note(&out);
    Header::of(3, Some(60_000)).encode(&mut out);
    note(&out);
    put_delivery_annotations(&mut out, &Map::new().with("x-opt-lock-token", Uuid([1; 16])));
    note(&out);
    put_message_annotations(&mut out, &Map::new().with("x-opt-sequence-number", 5_i64));
    note(&out);
    properties().encode(&mut out);
    note(&out);
    put_application_properties(
        &mut out,
        &[(AmqpValue::from("key"), AmqpValue::from(1_i32))].into_iter().collect(),
    );
    note(&out);
    put_data(&mut out, &Bytes::from_static(b"first"));
    put_data(&mut out, &Bytes::from_static(b"second"));
    note(&out);
    out.put_slice(b"\0\x53\x78\xc1\x01\x00");
    note(&out);
    (out.freeze(), starts)
}

#[test]
fn every_section_is_found() {
    let (message, starts) = message();
    let sections = Sections::scan(&message).expect("a message");
    let ranges = [
        &sections.header,
        &sections.delivery_annotations,
        &sections.message_annotations,
        &sections.properties,
        &sections.application_properties,
        &sections.body,
        &sections.footer,
    ];
    for (range, bounds) in ranges.into_iter().zip(starts.windows(2)) {
        assert_eq!(*range, bounds[0]..bounds[1]);
    }
    assert_eq!((sections.body_kind, sections.body_sections), (AmqpBodyKind::Data, 2));
    assert_eq!(sections.bare(), starts[3]..starts[7]);
}

#[test]
fn sections_survive_a_round_trip() {
    let (message, _) = message();
    let sections = Sections::scan(&message).expect("a message");
    let reader = |range: &std::ops::Range<usize>| Reader::within(&message, range.start, range.end);
    assert_eq!(
        Header::decode(&mut reader(&sections.header)),
        Ok(Header::of(3, Some(60_000)))
    );
    assert_eq!(Properties::decode(&mut reader(&sections.properties)), Ok(properties()));
    let annotations = read_map(&message, &sections.message_annotations).expect("a map");
    assert_eq!(annotations.get("x-opt-sequence-number"), Some(&AmqpValue::Long(5)));
    let own: Vec<_> = entries(&message, &sections.application_properties)
        .expect("a map")
        .expect("some")
        .collect();
    assert_eq!(own, [Ok((AmqpValue::from("key"), AmqpValue::Int(1)))]);
    let parts: Vec<_> = data(&message, &sections).collect();
    assert_eq!(
        parts,
        [Ok(Bytes::from_static(b"first")), Ok(Bytes::from_static(b"second"))]
    );
}

#[test]
fn missing_sections_are_empty() {
    let message = Bytes::from_static(b"\0\x53\x75\xa0\x02ab");
    let sections = Sections::scan(&message).expect("a message");
    assert!(sections.header.is_empty() && sections.properties.is_empty() && sections.footer.is_empty());
    assert_eq!(sections.bare(), 0..7);
    assert_eq!(read_map(&message, &sections.message_annotations), Ok(Map::new()));
    assert!(
        entries(&message, &sections.message_annotations)
            .expect("none")
            .is_none()
    );
    assert!(read_value_body(&message, &sections).is_err());
    let empty = Sections::scan(&Bytes::new()).expect("no sections");
    assert_eq!((empty.body_kind, empty.bare()), (AmqpBodyKind::None, 0..0));
    assert_eq!(data(&Bytes::new(), &empty).count(), 0);
}

#[test]
fn descriptors_are_read_in_every_encoding() {
    let long = Bytes::from_static(b"\0\x80\0\0\0\0\0\0\0\x77\xa1\x02hi");
    let named = Bytes::from_static(b"\0\xa3\x11amqp:amqp-value:*\xa1\x02hi");
    for message in [long, named] {
        let sections = Sections::scan(&message).expect("a message");
        assert_eq!(read_value_body(&message, &sections), Ok(AmqpValue::from("hi")));
        assert!(value_body(&message, &sections).is_ok());
    }
}

#[test]
fn delivery_annotations_may_be_last() {
    // Regression: azure-servicebus writes them last, and a server rejected the message as out of order.
    let scan = |bytes: &'static [u8]| Sections::scan(&Bytes::from_static(bytes));
    let sections = scan(b"\0\x53\x70\x45\0\x53\x75\xa0\x00\0\x53\x71\xc1\x01\0").expect("a message");
    assert_eq!(sections.delivery_annotations, 9..15);
    assert_eq!(sections.bare(), 4..9);
    let refused = |section| Err(DecodeError::SectionOrder(section));
    let twice = b"\0\x53\x71\xc1\x01\0\0\x53\x75\xa0\x00\0\x53\x71\xc1\x01\0";
    assert_eq!(scan(twice), refused(0x71));
    assert_eq!(
        scan(b"\0\x53\x75\xa0\x00\0\x53\x71\xc1\x01\0\0\x53\x71\xc1\x01\0"),
        refused(0x71)
    );
    assert_eq!(
        scan(b"\0\x53\x75\xa0\x00\0\x53\x71\xc1\x01\0\0\x53\x75\xa0\x00"),
        refused(0x75)
    );
}

#[test]
fn invalid_messages_are_errors() {
    let scan = |bytes: &'static [u8]| Sections::scan(&Bytes::from_static(bytes));
    assert_eq!(
        scan(b"\0\x53\x75\xa0\x00\0\x53\x70\x45"),
        Err(DecodeError::SectionOrder(0x70))
    );
    assert_eq!(
        scan(b"\0\x53\x70\x45\0\x53\x70\x45"),
        Err(DecodeError::SectionOrder(0x70))
    );
    assert_eq!(
        scan(b"\0\x53\x75\xa0\x00\0\x53\x77\x40"),
        Err(DecodeError::SectionOrder(0x77))
    );
    assert_eq!(
        scan(b"\0\x53\x77\x40\0\x53\x77\x40"),
        Err(DecodeError::SectionOrder(0x77))
    );
    assert_eq!(scan(b"\0\x53\x75\xa0\x05"), Err(DecodeError::Truncated));
    assert_eq!(scan(b"\0\x53"), Err(DecodeError::Truncated));
    let wrong = |expected, code| Err(DecodeError::WrongType { expected, code });
    assert_eq!(scan(b"\0\x53\x75\xa1\x00"), wrong("binary", 0xa1));
    assert_eq!(scan(b"\0\x53\x72\x45"), wrong("map", 0x45));
    assert_eq!(scan(b"\0\x53\x73\xc1\x01\0"), wrong("list", 0xc1));
    assert_eq!(scan(b"hello"), wrong("described value", b'h'));
    assert!(matches!(
        scan(b"\0\x53\x79\x45"),
        Err(DecodeError::WrongDescriptor { .. })
    ));
}

/// A message that a client resends has binaries as annotations.
#[test]
fn binary_in_an_annotation_is_read_as_text() {
    let map = Map::new().with("x-opt-partition-key", Bytes::from_static(b"key"));
    assert_eq!(map.get("x-opt-partition-key").and_then(AmqpValue::as_text), Some("key"));
}

#[test]
fn requests_to_the_coordinator_are_read() {
    let mut declare = BytesMut::new();
    declare.put_slice(b"\0\x53\x77\0\x53\x31\x45");
    let mut discharge = BytesMut::new();
    let fields = AmqpValue::List(vec![
        AmqpValue::Binary(Bytes::from_static(b"id")),
        AmqpValue::Boolean(true),
    ]);
    put_value_body(&mut discharge, &AmqpValue::described(AmqpValue::Ulong(0x32), fields));
    let read = |message: BytesMut| {
        let message = message.freeze();
        let sections = Sections::scan(&message).expect("a message");
        TransactionRequest::read(&mut value_body(&message, &sections).expect("a value"))
    };
    assert!(matches!(read(declare), Ok(TransactionRequest::Declare(_))));
    let Ok(TransactionRequest::Discharge(discharge)) = read(discharge) else {
        panic!("a discharge");
    };
    assert_eq!((&discharge.txn_id[..], discharge.fail), (&b"id"[..], true));
}

fn message_id() -> impl Strategy<Value = AmqpMessageId> {
    prop_oneof![
        any::<u64>().prop_map(AmqpMessageId::Ulong),
        any::<[u8; 16]>().prop_map(|id| AmqpMessageId::Uuid(Uuid(id))),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(|id| AmqpMessageId::Binary(id.into())),
        ".{0,40}".prop_map(|id| AmqpMessageId::String(id.into())),
    ]
}

proptest! {
    #[test]
    fn properties_keep_their_types(
        message_id in prop::option::of(message_id()),
        to in prop::option::of(".{0,40}"),
        content_type in prop::option::of("[ -~]{0,40}"),
        creation_time in prop::option::of(any::<i64>()),
        group_sequence in prop::option::of(any::<u32>()),
    ) {
        let properties = Properties {
            message_id,
            to: to.map(|to| AmqpValue::from(to.as_str())),
            content_type: content_type.map(|name| Symbol::new(&name)),
            creation_time: creation_time.map(AmqpTimestamp),
            group_sequence,
            ..Properties::NONE
        };
        let mut out = BytesMut::new();
        properties.encode(&mut out);
        let bytes = out.freeze();
        prop_assert_eq!(Properties::decode(&mut Reader::new(&bytes)), Ok(properties));
    }

    #[test]
    fn any_body_is_located_and_kept(
        body in value(),
        pairs in prop::collection::vec(("[a-z]{1,9}", scalar()), 0..6),
    ) {
        let mut out = BytesMut::new();
        let pairs = pairs.into_iter().map(|(key, value)| (AmqpValue::from(key), value));
        let own: Map = pairs.collect();
        put_application_properties(&mut out, &own);
        put_value_body(&mut out, &body);
        let message = out.freeze();
        let sections = Sections::scan(&message).expect("a message");
        prop_assert_eq!(read_map(&message, &sections.application_properties), Ok(own));
        prop_assert_eq!(read_value_body(&message, &sections), Ok(body));
        prop_assert_eq!(sections.bare(), 0..message.len());
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let bytes = Bytes::from(bytes);
        if let Ok(sections) = Sections::scan(&bytes) {
            prop_assert!(sections.bare().end <= bytes.len());
            let _ = data(&bytes, &sections).count();
        }
    }
}
