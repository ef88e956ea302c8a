// SPDX-License-Identifier: Apache-2.0
//! Properties that hold for any input. The fuzz targets check them on generated inputs,
//! `tests/untrusted_input.rs` on seeded ones.
//!
//! - no input makes the codec, the scan of a message or a half of the engine panic;
//! - decoded values survive a round trip;
//! - however the input is split, the engine emits the same events and output, and the output can be decoded.

use std::sync::OnceLock;

use bytes::{Bytes, BytesMut};
use oxbus_amqp::client::ClientSettings;
use oxbus_amqp::codec::{AmqpValue, Field, Reader};
use oxbus_amqp::engine::EngineSettings;
use oxbus_amqp::message::{Header, Properties, Sections, data, entries, read_map, read_value_body, value_body};
use oxbus_amqp::performative::{AmqpFrameHeader, Frame, Performative, SaslFrame, TransactionRequest};

use super::application::run;
use super::caller;

/// The start of a connection of a common client: headers, SASL, open, begin, and a link in each direction.
const START: &[u8] = include_bytes!("../golden/start.bin");

/// Decodes an input as every kind of data.
pub fn codec(input: &[u8]) {
    let bytes = Bytes::copy_from_slice(input);
    if let Ok(value) = AmqpValue::from_bytes(&bytes) {
        again(&value, "value");
    }
    let mut reader = Reader::new(&bytes);
    while !reader.is_at_end() && reader.skip().is_ok() {}
    if let Ok(sections) = Sections::scan(&bytes) {
        message(&bytes, &sections);
    }
    if let Ok(Some(frame)) = Frame::read(&bytes) {
        performative(frame.performative);
    }
    match SaslFrame::read(&bytes) {
        Ok(SaslFrame::Init(init)) => again(&*init, "sasl-init"),
        Ok(SaslFrame::Mechanisms(mechanisms)) => again(&mechanisms, "sasl-mechanisms"),
        Ok(SaslFrame::Outcome(outcome)) => again(&outcome, "sasl-outcome"),
        Err(_) => {}
    }
    let _ = TransactionRequest::read(&mut Reader::new(&bytes));
}

fn message(bytes: &Bytes, sections: &Sections) {
    assert!(sections.bare().end <= bytes.len());
    for range in [
        &sections.delivery_annotations,
        &sections.message_annotations,
        &sections.application_properties,
    ] {
        let whole = read_map(bytes, range).map(|map| map.len());
        if let (Ok(pairs), Ok(Some(entries))) = (whole, entries(bytes, range)) {
            assert_eq!(entries.flatten().count(), pairs);
        }
    }
    if let Ok(header) = Header::decode(&mut Reader::within(bytes, sections.header.start, sections.header.end)) {
        again(&header, "header");
    }
    let mut reader = Reader::within(bytes, sections.properties.start, sections.properties.end);
    if let Ok(properties) = Properties::decode(&mut reader) {
        again(&properties, "properties");
    }
    let _ = data(bytes, sections).count();
    let _ = read_value_body(bytes, sections);
    let _ = value_body(bytes, sections);
}

fn performative(performative: Performative) {
    match performative {
        Performative::Open(open) => again(&*open, "open"),
        Performative::Begin(begin) => again(&*begin, "begin"),
        Performative::Attach(attach) => again(&*attach, "attach"),
        Performative::Flow(flow) => again(&*flow, "flow"),
        Performative::Transfer(transfer) => again(&transfer, "transfer"),
        Performative::Disposition(disposition) => again(&disposition, "disposition"),
        Performative::Detach(detach) => again(&*detach, "detach"),
        Performative::End(end) => again(&*end, "end"),
        Performative::Close(close) => again(&*close, "close"),
    }
}

/// Checks that encoding is stable over a round trip. Compares bytes, because NaN differs from itself and an empty array
/// is encoded as an empty list.
fn again<T: Field>(value: &T, name: &'static str) {
    let mut first = BytesMut::new();
    value.encode(&mut first);
    let first = first.freeze();
    let read: T = Reader::new(&first).field(name).expect("what was written can be read");
    let mut second = BytesMut::new();
    read.encode(&mut second);
    assert_eq!(first, second);
}

/// Feeds an input to the server half. Its first byte selects where the untrusted bytes begin, and the size of the
/// chunks.
pub fn engine(input: &[u8]) {
    let Some((whole, pieces)) = split(input, START) else {
        return;
    };
    let (events, output, is_finished) = run([whole.clone()], EngineSettings::default());
    assert_eq!(
        run(pieces, EngineSettings::default()),
        (events, output.clone(), is_finished)
    );
    readable(output);
}

/// Feeds an input to the client half, as `engine` does to the server half.
pub fn client(input: &[u8]) {
    static ANSWERS: OnceLock<Bytes> = OnceLock::new();
    let Some((whole, pieces)) = split(input, ANSWERS.get_or_init(answers)) else {
        return;
    };
    let (events, output, is_finished) = caller::run([whole], ClientSettings::default());
    assert_eq!(
        caller::run(pieces, ClientSettings::default()),
        (events, output.clone(), is_finished)
    );
    assert!(is_finished, "the end of the input ends the connection");
    readable(output);
}

/// What a server answers to `caller`: everything up to messages in both directions.
fn answers() -> Bytes {
    let mut answers = Bytes::new();
    // The client writes more with each answer: after the header, after the mechanisms, after the links.
    for _ in 0..4 {
        let (_, written, _) = caller::run([answers], ClientSettings::default());
        (_, answers, _) = run([written], EngineSettings::default());
    }
    answers
}

/// The untrusted bytes, behind the start of a connection if the first byte says so; whole and in chunks.
fn split(input: &[u8], start: &[u8]) -> Option<(Bytes, Vec<Bytes>)> {
    let (&choice, rest) = input.split_first()?;
    let mut whole = BytesMut::new();
    if choice & 1 == 1 {
        whole.extend_from_slice(start);
    }
    whole.extend_from_slice(rest);
    let whole = whole.freeze();
    let size = usize::from(choice >> 1) + 1;
    let pieces = (0..whole.len())
        .step_by(size)
        .map(|at| whole.slice(at..whole.len().min(at + size)))
        .collect();
    Some((whole, pieces))
}

fn readable(mut output: Bytes) {
    while !output.is_empty() {
        if output.starts_with(b"AMQP") {
            let _ = output.split_to(8);
            continue;
        }
        let head = AmqpFrameHeader::read(&output, u32::MAX)
            .expect("a frame")
            .expect("a whole head");
        let body = output.split_to(head.size as usize).slice(head.body_offset..);
        assert!(Frame::read(&body).is_ok() || SaslFrame::read(&body).is_ok(), "{body:?}");
    }
}
