// SPDX-License-Identifier: Apache-2.0
//! The invariant for any input on a port: the server answers in HTTP or closes the connection, and continues to serve.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::sync::Mutex;
use std::time::Duration;

use oxbus_broker::{Namespace, NamespaceOptions};
use oxbus_model::message::AssignedId;
use oxbus_server::{BulkLimits, BusOptions, BusServer, BusTls, Ports};

/// Created by azure-servicebus 7.15 with the development key for `sb://localhost/`, valid until the year 2096.
const TOKEN: &str = "SharedAccessSignature sr=sb%3A%2F%2Flocalhost%2F&sig=0N1zqyUgUwB12lL5zcr56SeDPnz0by9IoPpky9mWG8k%3D\
                     &se=4000000000&skn=RootManageSharedAccessKey";
/// The number of requests after which the server is replaced, so that their effects do not add up.
const REQUESTS: u32 = 2_000;
/// The read timeout for a complete request; an incomplete one then gets the end of its input.
const MOMENT: Duration = Duration::from_millis(5);
/// The time limit for closing a connection that has no more input; not a measure of speed.
const PATIENCE: Duration = Duration::from_secs(60);

struct Target {
    server: BusServer,
    left: u32,
}

/// Never dropped, because a server must be closed on a live thread.
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
        console: None,
    };
    Target {
        server: BusServer::start(namespace, options).expect("a port"),
        left: REQUESTS,
    }
}

/// The port of a server that has requests left.
fn port() -> u16 {
    let mut target = TARGET.lock().expect("no thread panics while it holds the lock");
    let target = target.get_or_insert_with(start);
    if target.left == 0 {
        target.server.close();
        *target = start();
    }
    target.left -= 1;
    target.server.ports().first()
}

/// Sends a request, with a token if the first byte is even, and checks the answer. In the fuzzer a panic of the server
/// aborts the process by its hook; here the server stops answering.
pub fn http(input: &[u8]) {
    let Some((choice, input)) = input.split_first() else {
        return;
    };
    let port = port();
    let answer = ask(port, &request(choice % 2 == 0, input));
    // Input that begins like AMQP or TLS is not HTTP.
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

/// Inserts a token and `Connection: close` after the request line.
fn request(is_known: bool, input: &[u8]) -> Vec<u8> {
    let end = input.windows(2).position(|two| two == b"\r\n");
    let Some(end) = end.filter(|_| is_known) else {
        return input.to_vec();
    };
    let head = format!("\r\nhost: localhost\r\nauthorization: {TOKEN}\r\nconnection: close");
    [&input[..end], head.as_bytes(), &input[end..]].concat()
}

/// Returns the answer to a request that may be incomplete: ends the input if no answer comes.
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
    stream.read_to_end(&mut answer).expect("the server is healthy");
    answer
}

fn written(port: u16, request: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
    // The server may close the connection before everything is written.
    let _ = stream.write_all(request);
    stream
}
