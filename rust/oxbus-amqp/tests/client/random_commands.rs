// SPDX-License-Identifier: Apache-2.0
//! Random commands of both sides over a pipe: however the pipe is cut, both sides see the same events, and every message
//! arrives once, in order, and is settled once.

use oxbus_amqp::client::{ClientSettings, LinkId, LinkRequest, ReceivedId};
use oxbus_amqp::codec::Tag;
use oxbus_amqp::engine::{self, EngineSettings, OutgoingDelivery, SessionId};
use oxbus_amqp::performative::DeliveryState;
use oxbus_amqp::{ClientEvent, EngineEvent};
use proptest::prelude::*;

use super::pair::{Pair, receiver, sender};

/// A command of either side.
#[derive(Debug, Clone)]
enum Command {
    Begin,
    End(usize),
    AttachSender(usize),
    AttachReceiver(usize, u32),
    Detach(usize),
    DetachByServer(usize),
    Send(usize, usize),
    SetCredit(usize, u32),
    Drain(usize),
    Deliver(usize, usize),
    Settle(usize, bool),
    Exchange,
    Close,
}

fn command() -> impl Strategy<Value = Command> {
    let pick = || 0..8_usize;
    let size = || prop_oneof![0..2_000_usize, 8_000..20_000_usize];
    prop_oneof![
        2 => Just(Command::Begin),
        1 => pick().prop_map(Command::End),
        4 => pick().prop_map(Command::AttachSender),
        4 => (pick(), 0..6_u32).prop_map(|(session, credit)| Command::AttachReceiver(session, credit)),
        2 => pick().prop_map(Command::Detach),
        1 => pick().prop_map(Command::DetachByServer),
        12 => (pick(), size()).prop_map(|(link, size)| Command::Send(link, size)),
        4 => (pick(), 0..6_u32).prop_map(|(link, credit)| Command::SetCredit(link, credit)),
        1 => pick().prop_map(Command::Drain),
        12 => (pick(), size()).prop_map(|(link, size)| Command::Deliver(link, size)),
        6 => (pick(), any::<bool>()).prop_map(|(message, is_unconfirmed)| Command::Settle(message, is_unconfirmed)),
        10 => Just(Command::Exchange),
        1 => Just(Command::Close),
    ]
}

/// What a run has seen.
#[derive(Debug, Default, PartialEq)]
struct History {
    client: Vec<String>,
    server: Vec<String>,
    results: Vec<String>,
}

/// The state that picks the objects of commands.
#[derive(Default)]
struct Objects {
    sessions: Vec<SessionId>,
    links: Vec<LinkId>,
    server_links: Vec<engine::LinkId>,
    messages: Vec<ReceivedId>,
    names: usize,
}

fn run(commands: &[Command], pieces: Vec<usize>) -> History {
    let small = EngineSettings {
        max_frame_size: 4_096,
        ..EngineSettings::default()
    };
    let mut pair = Pair::with_server(ClientSettings::default(), small);
    pair.pieces = pieces;
    pair.credit = 5;
    let mut objects = Objects::default();
    let mut history = History::default();
    for command in commands {
        let result = act(&mut pair, &mut objects, &mut history, command);
        history.results.push(result);
    }
    exchange(&mut pair, &mut objects, &mut history);
    history
}

fn pick<T: Copy>(items: &[T], index: usize) -> Option<T> {
    (!items.is_empty()).then(|| items[index % items.len()])
}

/// Carries out a command. Returns what it returned.
fn act(pair: &mut Pair, objects: &mut Objects, history: &mut History, command: &Command) -> String {
    match *command {
        Command::Begin => {
            let session = pair.client.begin();
            objects.sessions.extend(session);
            format!("{session:?}")
        }
        Command::End(index) => pick(&objects.sessions, index).map_or_else(String::new, |session| {
            pair.client.end(session, None);
            format!("{session:?}")
        }),
        Command::AttachSender(index) => attach(pair, objects, index, sender("")),
        Command::AttachReceiver(index, credit) => attach(pair, objects, index, LinkRequest { credit, ..receiver("") }),
        Command::Detach(index) => pick(&objects.links, index).map_or_else(String::new, |link| {
            pair.client.detach(link, true, None);
            format!("{link:?}")
        }),
        Command::DetachByServer(index) => pick(&objects.server_links, index).map_or_else(String::new, |link| {
            pair.server.detach(link, None);
            format!("{link:?}")
        }),
        Command::Send(index, size) => pick(&objects.links, index).map_or_else(String::new, |link| {
            format!("{:?}", pair.send(link, &vec![size as u8; size]))
        }),
        Command::SetCredit(index, credit) => pick(&objects.links, index).map_or_else(String::new, |link| {
            pair.client.set_credit(link, credit);
            format!("{}", pair.client.credit(link))
        }),
        Command::Drain(index) => pick(&objects.links, index).map_or_else(String::new, |link| {
            pair.client.drain(link);
            format!("{}", pair.client.credit(link))
        }),
        Command::Deliver(index, size) => pick(&objects.server_links, index).map_or_else(String::new, |link| {
            let message = vec![size as u8; size];
            let outgoing = OutgoingDelivery {
                tag: Some(&Tag::from_number(size as u32)),
                message_format: 0,
                settled: false,
                parts: &[&message],
            };
            format!("{:?}", pair.server.send(link, &outgoing))
        }),
        Command::Settle(index, is_unconfirmed) => pick(&objects.messages, index).map_or_else(String::new, |message| {
            let done = pair.client.settle(message, DeliveryState::Accepted, is_unconfirmed);
            format!("{done:?}")
        }),
        Command::Exchange => {
            exchange(pair, objects, history);
            String::new()
        }
        Command::Close => {
            pair.client.close(None, 0);
            String::new()
        }
    }
}

fn attach(pair: &mut Pair, objects: &mut Objects, index: usize, request: LinkRequest) -> String {
    let Some(session) = pick(&objects.sessions, index) else {
        return String::new();
    };
    objects.names += 1;
    let name = format!("link-{}", objects.names).into();
    let link = pair.client.attach(session, LinkRequest { name, ..request });
    objects.links.extend(link);
    format!("{link:?}")
}

fn exchange(pair: &mut Pair, objects: &mut Objects, history: &mut History) {
    for event in pair.exchange() {
        if let ClientEvent::Received(received) = &event {
            objects.messages.extend(received.id);
        }
        history.client.push(format!("{event:?}"));
    }
    for event in pair.server_events.drain(..) {
        if let EngineEvent::Attach(request) = &event {
            objects.server_links.push(request.link);
        }
        history.server.push(format!("{event:?}"));
    }
}

/// The events of a kind, without the order between them and others.
fn only(events: &[String], kind: &str) -> Vec<String> {
    events.iter().filter(|event| event.starts_with(kind)).cloned().collect()
}

proptest! {
    #[test]
    fn the_cuts_of_the_pipe_change_nothing(
        commands in prop::collection::vec(command(), 1..60),
        pieces in prop::collection::vec(1..5_000_usize, 1..6),
    ) {
        let whole = run(&commands, Vec::new());
        prop_assert_eq!(run(&commands, pieces), whole);
    }

    #[test]
    fn what_is_sent_arrives_once_and_has_one_outcome(commands in prop::collection::vec(command(), 1..60)) {
        // Without an end of anything, nothing may be missing.
        let commands: Vec<_> = [Command::Begin, Command::Exchange].into_iter().chain(commands.into_iter().filter(|command| {
            !matches!(command, Command::End(_) | Command::Detach(_) | Command::DetachByServer(_) | Command::Close)
        })).collect();
        let history = run(&commands, Vec::new());
        for events in [&history.client, &history.server] {
            for failed in ["Failed", "LinkFailed", "SessionFailed", "Detach"] {
                prop_assert_eq!(only(events, failed), Vec::<String>::new());
            }
        }
        let accepted = |wanted: fn(&Command) -> bool| commands.iter().zip(&history.results)
            .filter(|(command, result)| wanted(command) && result.starts_with("Ok")).count();
        let sent = accepted(|command| matches!(command, Command::Send(..)));
        prop_assert_eq!(only(&history.server, "Incoming").len(), sent);
        prop_assert_eq!(only(&history.client, "Outcome").len(), sent);
        let delivered = accepted(|command| matches!(command, Command::Deliver(..)));
        prop_assert_eq!(only(&history.client, "Received").len(), delivered);
        let settled = accepted(|command| matches!(command, Command::Settle(..)));
        let confirmed = accepted(|command| matches!(command, Command::Settle(_, false)));
        prop_assert_eq!(only(&history.server, "Disposition").len(), settled);
        prop_assert_eq!(only(&history.client, "Settled").len(), confirmed);
    }
}
