// SPDX-License-Identifier: Apache-2.0
//! Dispositions by the client.

use bytes::Bytes;
use oxbus_amqp::EngineEvent;
use oxbus_amqp::codec::Tag;
use oxbus_amqp::engine::{DeliveryId, LinkId, OutgoingDelivery};
use oxbus_amqp::performative::{DeliveryState, Disposition, Modified, Performative, Role, condition};

use super::client::{CHANNEL, Client, detach, disposition};

const FIRST: u32 = 1 << 20;

fn sent(client: &mut Client, link: LinkId, count: u8) -> Vec<DeliveryId> {
    let ids = (0..count)
        .map(|number| {
            let tag = Tag::from([number; 16]);
            let outgoing = OutgoingDelivery {
                tag: Some(&tag),
                message_format: 0,
                settled: false,
                parts: &[b"message"],
            };
            client.engine.send(link, &outgoing).expect("credit")
        })
        .collect();
    client.take_output();
    ids
}

fn with_deliveries(count: u8) -> (Client, LinkId, Vec<DeliveryId>) {
    let (mut client, _) = Client::open();
    let link = client.receiver(0);
    client.credit(0, 1_000);
    let ids = sent(&mut client, link, count);
    (client, link, ids)
}

fn answers(client: &mut Client) -> Vec<(u32, u32, DeliveryState)> {
    let answer = |(_, performative, _)| match performative {
        Performative::Disposition(disposition) => {
            assert_eq!((disposition.role, disposition.settled), (Role::Sender, true));
            (
                disposition.first,
                disposition.last.expect("a last one"),
                disposition.state.expect("a state"),
            )
        }
        other => panic!("{other:?}"),
    };
    client.frames().into_iter().map(answer).collect()
}

/// The engine confirms nothing before the application answers.
#[test]
fn the_application_answers_a_settlement() {
    let (mut client, link, ids) = with_deliveries(2);
    client.say(CHANNEL, &disposition(FIRST + 1, FIRST + 1));
    let [settle] = <[_; 1]>::try_from(client.settles()).expect("one");
    assert_eq!(
        (settle.link, settle.delivery, settle.tag),
        (link, ids[1], Tag::from([1; 16]))
    );
    assert_eq!((settle.state, settle.settled), (Some(DeliveryState::Accepted), false));
    assert!(client.take_output().is_empty());
    client.engine.settle(ids[1], DeliveryState::Accepted);
    client.engine.settle(ids[1], DeliveryState::Accepted);
    assert_eq!(answers(&mut client), [(FIRST + 1, FIRST + 1, DeliveryState::Accepted)]);
}

#[test]
fn a_range_is_emitted_one_by_one_and_answered_in_one_frame() {
    let (mut client, _, ids) = with_deliveries(10);
    client.say(CHANNEL, &disposition(FIRST, FIRST + 9));
    let settles = client.settles();
    assert_eq!(settles.iter().map(|settle| settle.delivery).collect::<Vec<_>>(), ids);
    for settle in settles.into_iter().rev() {
        client.engine.settle(settle.delivery, DeliveryState::Accepted);
    }
    assert_eq!(answers(&mut client), [(FIRST, FIRST + 9, DeliveryState::Accepted)]);
}

/// The attack: a range of four billion deliveries. Only existing ones cost time.
#[test]
fn a_huge_range_emits_only_existing_deliveries() {
    let (mut client, _, ids) = with_deliveries(3);
    client.engine.settle(ids[1], DeliveryState::Accepted);
    client.take_output();
    let everything = Disposition {
        last: Some(u32::MAX / 2),
        ..disposition(0, 0)
    };
    client.say(CHANNEL, &everything);
    let reported: Vec<_> = client.settles().into_iter().map(|settle| settle.delivery).collect();
    assert_eq!(reported, [ids[0], ids[2]]);
    client.say(CHANNEL, &disposition(5, 4));
    assert_eq!(client.events(), []);
}

#[test]
fn states_arrive_as_sent() {
    let modified = |undeliverable_here| {
        DeliveryState::from(Modified {
            delivery_failed: true,
            undeliverable_here,
            message_annotations: None,
        })
    };
    let transactional = DeliveryState::Transactional {
        transaction_id: Bytes::from_static(b"txn"),
        outcome: Some(Box::new(DeliveryState::Accepted)),
    };
    for state in [
        modified(false),
        modified(true),
        DeliveryState::Rejected(None),
        DeliveryState::Released,
        transactional,
    ] {
        let (mut client, _, ids) = with_deliveries(1);
        let said = Disposition {
            state: Some(state.clone()),
            ..disposition(FIRST, FIRST)
        };
        client.say(CHANNEL, &said);
        assert_eq!(client.settles()[0].state, Some(state.clone()));
        client.engine.settle(ids[0], state.clone());
        assert_eq!(answers(&mut client), [(FIRST, FIRST, state)]);
    }
}

/// `released, settled`: the client expects no answer.
#[test]
fn a_settled_disposition_is_emitted_and_not_answered() {
    let (mut client, _, ids) = with_deliveries(2);
    let released = Disposition {
        state: Some(DeliveryState::Released),
        settled: true,
        ..disposition(FIRST, FIRST)
    };
    client.say(CHANNEL, &released);
    let [settle] = <[_; 1]>::try_from(client.settles()).expect("one");
    assert!(settle.settled && settle.delivery == ids[0]);
    client.engine.settle(ids[0], DeliveryState::Released);
    client.say(CHANNEL, &released);
    assert_eq!(client.events(), []);
    assert!(client.take_output().is_empty());
}

#[test]
fn a_second_outcome_is_ignored_until_the_first_is_answered() {
    let (mut client, _, ids) = with_deliveries(1);
    client.say(CHANNEL, &disposition(FIRST, FIRST));
    client.say(CHANNEL, &disposition(FIRST, FIRST));
    assert_eq!(client.settles().len(), 1);
    client.engine.settle(ids[0], DeliveryState::Accepted);
    assert_eq!(answers(&mut client).len(), 1);
}

#[test]
fn a_state_that_is_not_an_outcome_changes_nothing() {
    let (mut client, _, _) = with_deliveries(1);
    let received = Disposition {
        state: Some(DeliveryState::Received {
            section_number: 0,
            section_offset: 0,
        }),
        ..disposition(FIRST, FIRST)
    };
    client.say(CHANNEL, &received);
    assert_eq!(client.events(), []);
    client.say(CHANNEL, &disposition(FIRST, FIRST));
    assert_eq!(client.settles().len(), 1);
}

#[test]
fn an_unknown_delivery_is_rejected_unless_settled() {
    let (mut client, _, ids) = with_deliveries(2);
    client.engine.settle(ids[0], DeliveryState::Accepted);
    client.take_output();
    for number in [FIRST + 50, FIRST, 7] {
        client.say(CHANNEL, &disposition(number, number));
        assert_eq!(client.events(), []);
        let [(first, last, DeliveryState::Rejected(Some(error)))] = &answers(&mut client)[..] else {
            panic!("rejected");
        };
        assert_eq!(
            (*first, *last, error.condition.as_str()),
            (number, number, condition::NOT_FOUND)
        );
    }
    let settled = Disposition {
        settled: true,
        ..disposition(FIRST + 50, FIRST + 50)
    };
    client.say(CHANNEL, &settled);
    assert_eq!(client.events(), []);
    assert!(client.take_output().is_empty());
}

/// A common client settles after its detach, and treats an answer as a failure of the link.
#[test]
fn a_settlement_after_a_detach_is_ignored() {
    let (mut client, link, ids) = with_deliveries(2);
    client.say(CHANNEL, &detach(0));
    client.say(CHANNEL, &disposition(FIRST, FIRST + 1));
    assert!(matches!(client.event(), EngineEvent::Detach { .. }));
    client.engine.detach(link, None);
    client.say(CHANNEL, &disposition(FIRST, FIRST));
    assert_eq!(client.events(), []);
    client.engine.settle(ids[0], DeliveryState::Accepted);
    assert!(matches!(client.frame(), Performative::Detach(_)));
}

#[test]
fn deliveries_of_other_links_stay() {
    let (mut client, first, _) = with_deliveries(2);
    let second = client.receiver(1);
    client.credit(1, 10);
    let kept = sent(&mut client, second, 1);
    client.engine.detach(first, None);
    client.take_output();
    client.say(CHANNEL, &disposition(FIRST, FIRST + 2));
    let reported: Vec<_> = client.settles().into_iter().map(|settle| settle.delivery).collect();
    assert_eq!(reported, kept);
}
