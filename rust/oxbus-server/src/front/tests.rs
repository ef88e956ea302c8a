// SPDX-License-Identifier: Apache-2.0
//! Connections of clients and attackers. The tests control the time and never sleep.

use oxbus_store::Wait;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use oxbus_broker::{Namespace, NamespaceOptions};
use oxbus_model::caps::{
    HTTP_BODY_IDLE_MS_MAX, HTTP_DRAIN_BYTES_MAX, HTTP_DRAIN_MS_MAX, HTTP_HEAD_BYTES_MAX, HTTP_HEAD_MS_MAX,
    HTTP_HEADERS_MAX, HTTP_REQUESTS_MAX, SERVER_FIRST_BYTES_MS_MAX, WEBSOCKET_BYTES_MAX,
};
use oxbus_model::message::AssignedId;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::certificate;
use super::connection::handle;
use super::context::Context;
use super::sniff::{Protocol, sniff};
use crate::bulk::BulkLimits;
use crate::sas::development_rule;

struct TestServer {
    context: Context,
    tls: TlsAcceptor,
    stop: watch::Sender<bool>,
}

impl TestServer {
    fn new() -> Self {
        let namespace = Namespace::open(NamespaceOptions::default()).expect("a namespace in memory");
        let (stop, stopped) = watch::channel(false);
        let new_id = |_| AssignedId::new(1, 1);
        Self {
            context: Context::new(
                namespace,
                vec![development_rule()],
                new_id,
                ("127.0.0.1".to_owned(), true),
                BulkLimits::default(),
                None,
                stopped,
            )
            .expect("a context"),
            tls: certificate::generate("localhost")
                .and_then(|development| development.acceptor())
                .expect("a certificate"),
            stop,
        }
    }

    /// Opens a connection: the client's end, and the task that serves the other one.
    fn connect(&self) -> (DuplexStream, JoinHandle<()>) {
        let (near, far) = tokio::io::duplex(64 << 10);
        let serving = tokio::spawn(handle(far, None, self.tls.clone(), self.context.clone()));
        (near, serving)
    }
}

async fn read_to_end(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn first_bytes_identify_the_protocol() {
    for (bytes, protocol) in [
        (&b"AMQP\x03\x01\x00\x00"[..], Some(Protocol::Amqp)),
        (b"GET / HTTP/1.1", Some(Protocol::Http)),
        (b"AMQX", Some(Protocol::Http)),
        (b"\x16\x03\x01", Some(Protocol::Tls)),
        (b"AM", None),
        (b"", None),
    ] {
        let mut bytes = bytes;
        let found = sniff(&mut bytes).await.expect("memory is readable");
        assert_eq!(found.map(|(protocol, _)| protocol), protocol);
    }
}

#[tokio::test]
async fn only_health_is_readable_without_a_token() {
    let server = TestServer::new();
    let (mut client, _serving) = server.connect();
    let requests =
        b"GET /health HTTP/1.1\r\nhost: x\r\n\r\nGET /orders HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    client.write_all(requests).await.expect("written");
    let answer = read_to_end(&mut client).await;
    assert!(
        answer.contains("200 OK") && answer.contains("{\"status\":\"healthy\"}"),
        "{answer}"
    );
    assert!(
        answer.contains("401 Unauthorized") && answer.contains("SubCode=40102"),
        "{answer}"
    );
}

#[tokio::test(start_paused = true)]
async fn half_open_connection_is_closed() {
    // A client that connects and sends nothing, half a protocol header, or half a handshake.
    for first in [&b""[..], b"AM", b"\x16\x03\x01\x02"] {
        let server = TestServer::new();
        let (mut client, serving) = server.connect();
        client.write_all(first).await.expect("written");
        tokio::time::sleep(Duration::from_millis(SERVER_FIRST_BYTES_MS_MAX - 1)).await;
        assert!(!serving.is_finished());
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert_eq!(read_to_end(&mut client).await, "");
        serving.await.expect("the connection ended");
    }
}

#[tokio::test(start_paused = true)]
async fn slow_request_head_is_cut_off() {
    // "Slowloris": a header every second, and never the last one.
    let server = TestServer::new();
    let (mut client, serving) = server.connect();
    client.write_all(b"GET /health HTTP/1.1\r\n").await.expect("written");
    let mut written = 0;
    while !serving.is_finished() {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let _ = client.write_all(b"x: y\r\n").await;
        written += 1000;
        assert!(written <= HTTP_HEAD_MS_MAX + 2000, "the connection is closed");
    }
}

#[tokio::test(start_paused = true)]
async fn slow_request_body_is_cut_off() {
    let server = TestServer::new();
    server
        .context
        .namespace()
        .create_queue_with("q", Vec::new(), &Wait::FOREVER)
        .expect("a queue");
    let (mut client, serving) = server.connect();
    let token = token();
    let head =
        format!("POST /q/messages HTTP/1.1\r\nhost: x\r\nauthorization: {token}\r\ncontent-length: 100\r\n\r\nab");
    client.write_all(head.as_bytes()).await.expect("written");
    tokio::time::sleep(Duration::from_millis(HTTP_BODY_IDLE_MS_MAX + 1000)).await;
    let answer = read_to_end(&mut client).await;
    assert!(answer.contains(" 408 "), "{answer}");
    serving.await.expect("the connection ended");
}

#[tokio::test]
async fn headers_are_limited_in_size_and_number() {
    let huge = format!("x: {}\r\n", "y".repeat(HTTP_HEAD_BYTES_MAX));
    let many = "x: y\r\n".repeat(HTTP_HEADERS_MAX + 1);
    for headers in [huge, many] {
        let server = TestServer::new();
        let (client, serving) = server.connect();
        let (mut reading, mut writing) = tokio::io::split(client);
        let attack = tokio::spawn(async move {
            let _ = writing.write_all(b"GET /health HTTP/1.1\r\n").await;
            let _ = writing.write_all(headers.as_bytes()).await;
            let _ = writing.write_all(b"\r\n").await;
        });
        let answer = read_to_end(&mut reading).await;
        assert!(answer.contains(" 431 "), "{answer}");
        serving.await.expect("the connection ended");
        attack.await.expect("the attack ended");
    }
}

#[tokio::test]
async fn oversized_body_is_rejected_before_it_is_read() {
    // ATOM_BODY_BYTES_MAX.
    let server = TestServer::new();
    let (mut client, _serving) = server.connect();
    let token = token();
    let head = format!("PUT /q HTTP/1.1\r\nhost: x\r\nauthorization: {token}\r\ncontent-length: 99999999\r\n\r\n");
    client.write_all(head.as_bytes()).await.expect("written");
    let mut answer = vec![0; 1000];
    let count = client.read(&mut answer).await.expect("an answer");
    let answer = String::from_utf8_lossy(&answer[..count]);
    assert!(answer.contains(" 403 ") && answer.contains("too large"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn rejected_body_is_drained_up_to_a_limit() {
    // HTTP_DRAIN_BYTES_MAX: an endless body. HTTP_DRAIN_MS_MAX: a body that stalls.
    for is_endless in [true, false] {
        let server = TestServer::new();
        let (client, serving) = server.connect();
        let (mut reading, mut writing) = tokio::io::split(client);
        let attack = tokio::spawn(async move {
            let head = b"PUT /q HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
            let mut chunk = b"400\r\n".to_vec();
            chunk.resize(chunk.len() + 0x400, b'x');
            chunk.extend_from_slice(b"\r\n");
            let mut written = head.len();
            writing.write_all(head).await.expect("the server reads");
            while writing.write_all(&chunk).await.is_ok() {
                written += chunk.len();
                if !is_endless {
                    tokio::time::sleep(Duration::from_millis(HTTP_DRAIN_MS_MAX)).await;
                }
            }
            written
        });
        let began = tokio::time::Instant::now();
        let answer = read_to_end(&mut reading).await;
        assert!(answer.contains(" 401 "), "{answer}");
        serving.await.expect("the connection ended");
        let most = HTTP_DRAIN_BYTES_MAX + (1 << 20);
        let written = attack.await.expect("the client was cut off");
        assert!(written < most, "{written} of {most}");
        assert_eq!(written > HTTP_DRAIN_BYTES_MAX, is_endless);
        assert_eq!(began.elapsed() >= Duration::from_millis(HTTP_DRAIN_MS_MAX), !is_endless);
    }
}

#[tokio::test]
async fn billion_laughs_are_rejected_over_http() {
    let server = TestServer::new();
    let (mut client, _serving) = server.connect();
    let body = "<!DOCTYPE x [<!ENTITY a \"ha\"><!ENTITY b \"&a;&a;\">]><entry><content>&b;</content></entry>";
    let token = token();
    let request = format!(
        "PUT /q HTTP/1.1\r\nhost: x\r\nauthorization: {token}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    client.write_all(request.as_bytes()).await.expect("written");
    let answer = read_to_end(&mut client).await;
    assert!(answer.contains(" 400 ") && answer.contains("document type"), "{answer}");
}

#[tokio::test]
async fn stopping_server_closes_idle_connections() {
    let server = TestServer::new();
    let (mut client, serving) = server.connect();
    client
        .write_all(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .expect("written");
    let mut answer = vec![0; 1000];
    assert!(client.read(&mut answer).await.expect("an answer") > 0);
    server.stop.send_replace(true);
    serving.await.expect("the connection ended");
}

#[tokio::test]
async fn requests_beyond_the_limit_are_answered_with_server_busy() {
    let server = TestServer::new();
    let all_permits = u32::try_from(HTTP_REQUESTS_MAX).expect("few");
    let _taken = server
        .context
        .requests()
        .acquire_many(all_permits)
        .await
        .expect("permits");
    for line in ["POST /q/messages", "GET /q"] {
        let (mut client, _serving) = server.connect();
        let request = format!("{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
        client.write_all(request.as_bytes()).await.expect("written");
        let answer = read_to_end(&mut client).await;
        assert!(answer.contains(" 503 ") && answer.contains("SubCode=50004"), "{answer}");
    }
}

/// Requests a WebSocket upgrade. Returns the head of the response.
async fn switch(client: &mut DuplexStream, protocol: &str) -> String {
    let request = format!(
        "GET /$servicebus/websocket HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         sec-websocket-protocol: {protocol}\r\n\r\n"
    );
    client.write_all(request.as_bytes()).await.expect("written");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.expect("an answer"));
    }
    String::from_utf8(head).expect("ASCII")
}

#[tokio::test]
async fn websocket_upgrade_echoes_the_offered_protocol() {
    // B-407: the protocol names of the Python and JavaScript SDKs, and of the specification.
    for protocol in ["AMQPWSB10", "amqp", "other, AMQPWSB10"] {
        let server = TestServer::new();
        let (mut client, _serving) = server.connect();
        let head = switch(&mut client, protocol).await.to_ascii_lowercase();
        assert!(
            head.contains(" 101 ") && head.contains("s3pplmbitxaq9kygzzhzrbk+xoo="),
            "{head}"
        );
        let spoken = protocol.rsplit(' ').next().unwrap_or_default().to_ascii_lowercase();
        assert!(
            head.contains(&format!("sec-websocket-protocol: {spoken}\r\n")),
            "{head}"
        );
    }
    let server = TestServer::new();
    let (mut client, _serving) = server.connect();
    assert!(switch(&mut client, "mqtt").await.contains(" 400 "));
}

#[tokio::test]
async fn websocket_rejects_messages_larger_than_the_limit() {
    let server = TestServer::new();
    let (mut client, _serving) = server.connect();
    switch(&mut client, "AMQPWSB10").await;
    let mut socket = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
    // A frame whose head announces more than the limit.
    let attack = Message::binary(vec![0; WEBSOCKET_BYTES_MAX + 1]);
    let _ = socket.send(attack).await;
    while let Some(Ok(message)) = socket.next().await {
        assert!(!message.is_binary(), "nothing of it reached AMQP");
    }
}

fn token() -> String {
    use base64::Engine as _;
    use oxbus_model::Clock;
    let expiry = oxbus_broker::SystemClock::new().now().0 / 1000 + 60;
    let rule = development_rule();
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, rule.primary_key.as_bytes());
    let tag = ring::hmac::sign(&key, format!("sb%3A%2F%2Fx\n{expiry}").as_bytes());
    let sig = base64::engine::general_purpose::STANDARD.encode(tag);
    let sig = percent_encoding::utf8_percent_encode(&sig, percent_encoding::NON_ALPHANUMERIC).to_string();
    format!(
        "SharedAccessSignature sr=sb%3A%2F%2Fx&sig={sig}&se={expiry}&skn={}",
        rule.key_name
    )
}
