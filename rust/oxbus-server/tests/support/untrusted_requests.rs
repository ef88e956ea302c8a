// SPDX-License-Identifier: Apache-2.0
//! What must hold whatever a client writes to a port: the server answers in HTTP or hangs up, and goes on.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::sync::Mutex;
use std::time::Duration;

use oxbus_broker::{Namespace, NamespaceOptions};
use oxbus_model::message::AssignedId;
use oxbus_server::{BulkLimits, BusOptions, BusServer, BusTls, Ports};

/// Made by azure-servicebus 7.15 with the development key for `sb://localhost/`, until the year 2096.
const TOKEN: &str = "SharedAccessSignature sr=sb%3A%2F%2Flocalhost%2F&sig=0N1zqyUgUwB12lL5zcr56SeDPnz0by9IoPpky9mWG8k%3D\
                     &se=4000000000&skn=RootManageSharedAccessKey";
/// Requests after which a server is exchanged for a new one, so that what they made does not add up.
const REQUESTS: u32 = 2_000;
/// How long a whole request may take to be answered; then more is awaited, and there is none.
const MOMENT: Duration = Duration::from_millis(5);
/// How long a connection without anything to read on may take to end; never a measure of speed.
const PATIENCE: Duration = Duration::from_secs(60);

struct Target {
    server: BusServer,
    left: u32,
}

/// Never dropped: a server ends on a thread that still lives.
static TARGET: Mutex<Option<Target>> = Mutex::new(None);

fn start() -> Target {
    let namespace = Namespace::open(NamespaceOptions::default()).expect("memory");
    let options = BusOptions {
        host: Ipv4Addr::LOCALHOST.to_string(),
        ports: Ports {
            amqp: Some(0),
            ..Ports::default()
        },
        rules: Vec::new(),
        tls: BusTls::Development { issuer_out: None },
        bulk: BulkLimits::default(),
        new_id: |_| AssignedId::new(1, 1),
    };
    Target {
        server: BusServer::start(namespace, options).expect("a port"),
        left: REQUESTS,
    }
}

/// Where a server listens that has not had too many requests.
fn port() -> u16 {
    let mut target = TARGET.lock().expect("nobody panics with it");
    let target = target.get_or_insert_with(start);
    if target.left == 0 {
        target.server.close();
        *target = start();
    }
    target.left -= 1;
    target.server.ports().first()
}

/// A request, known by a token if the first byte is even. A panic within the server ends the fuzzer by its hook; here it shows
/// as a server that does not answer any more.
pub fn http(input: &[u8]) {
    let Some((choice, input)) = input.split_first() else {
        return;
    };
    let port = port();
    let answer = ask(port, &request(choice % 2 == 0, input));
    // What is no HTTP begins as AMQP or as TLS does.
    if !input.starts_with(b"AMQP") && input.first() != Some(&0x16) {
        assert!(
            answer.is_empty() || answer.starts_with(b"HTTP/1."),
            "{}",
            answer.escape_ascii()
        );
    }
    if *choice == 0 {
        let health = health(port);
        assert!(health.starts_with(b"HTTP/1.1 200 "), "{}", health.escape_ascii());
    }
}

/// With a token, and the wish to hang up afterwards, behind its first line.
fn request(is_known: bool, input: &[u8]) -> Vec<u8> {
    let end = input.windows(2).position(|two| two == b"\r\n");
    let Some(end) = end.filter(|_| is_known) else {
        return input.to_vec();
    };
    let head = format!("\r\nhost: localhost\r\nauthorization: {TOKEN}\r\nconnection: close");
    [&input[..end], head.as_bytes(), &input[end..]].concat()
}

/// Says what the server answers to something that may not be whole: a client that has nothing to add ends it.
fn ask(port: u16, request: &[u8]) -> Vec<u8> {
    let mut stream = written(port, request);
    let mut answer = Vec::new();
    stream.set_read_timeout(Some(MOMENT)).expect("a time");
    if stream.read_to_end(&mut answer).is_err() {
        let _ = stream.shutdown(Shutdown::Write);
        stream.set_read_timeout(Some(PATIENCE)).expect("a time");
        if let Err(error) = stream.read_to_end(&mut answer) {
            let is_reset = error.kind() == std::io::ErrorKind::ConnectionReset;
            assert!(is_reset, "the connection does not end: {error}");
        }
    }
    answer
}

fn health(port: u16) -> Vec<u8> {
    let mut stream = written(port, b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it is well");
    answer
}

fn written(port: u16, request: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
    // It may hang up before everything is written.
    let _ = stream.write_all(request);
    stream
}
