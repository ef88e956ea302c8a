// SPDX-License-Identifier: Apache-2.0
//! Connections: TCP, TLS, WebSocket, proxies, credentials.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use oxbus_client::{
    AccessToken, Client, ClientErrorKind, ClientOptions, Credential, Proxy, RetryOptions, TransportKind, block_on,
};
use oxbus_model::{ErrorKind, Timestamp};
use oxbus_server::Ports;
use oxbus_wire::shared_access_signature;

use super::server::{Server, bodies, clock, error, none, receive, receiver, send, soon};

/// A message makes it there and back.
fn works(client: &Client) {
    send(&client.sender("orders"), "hello");
    let receiver = receiver(client, "orders");
    assert_eq!(bodies(&receive(&receiver, 1)), ["hello"]);
    block_on(async {
        receiver.close(soon()).await;
        Ok(())
    })
    .expect("closes");
}

fn key(options: &ClientOptions) -> (String, String) {
    match &options.credential {
        Credential::SharedKey { name, key } => (name.clone(), key.clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_connection_string_is_enough() {
    let server = Server::start();
    works(&server.client());
}

#[test]
fn a_token_that_was_made_before_is_accepted() {
    let server = Server::start();
    let options = server.options();
    let (name, key) = key(&options);
    let authority = format!("sb://localhost:{}/orders", options.port.expect("a port"));
    let token = shared_access_signature(&authority, clock().plus_ms(60_000), &name, &key);
    let client = Client::new(ClientOptions {
        credential: Credential::Token(token),
        ..options
    });
    works(&client.expect("valid settings"));
}

#[test]
fn a_function_gives_tokens() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let server = Server::start();
    let options = server.options();
    let (name, key) = key(&options);
    let authority = format!("sb://localhost:{}/", options.port.expect("a port"));
    let give = move |scope: &str| {
        assert_eq!(scope, oxbus_client::TOKEN_SCOPE);
        CALLS.fetch_add(1, Ordering::Relaxed);
        let expires_at = clock().plus_ms(60_000);
        Ok(AccessToken {
            token: shared_access_signature(&authority, expires_at, &name, &key),
            expires_at,
        })
    };
    let client = Client::new(ClientOptions {
        credential: Credential::Function(Arc::new(give)),
        ..options
    });
    works(&client.expect("valid settings"));
    assert_eq!(CALLS.load(Ordering::Relaxed), 1, "one entity, one token");
}

#[test]
fn a_token_is_renewed_before_it_ends() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let server = Server::start();
    let options = server.options();
    let (name, key) = key(&options);
    let authority = format!("sb://localhost:{}/", options.port.expect("a port"));
    let give = move |_: &str| {
        CALLS.fetch_add(1, Ordering::Relaxed);
        // A signature counts seconds.
        let expires_at = Timestamp((clock().0 / 1_000 + 4) * 1_000);
        Ok(AccessToken {
            token: shared_access_signature(&authority, expires_at, &name, &key),
            expires_at,
        })
    };
    let client = Client::new(ClientOptions {
        credential: Credential::Function(Arc::new(give)),
        ..options
    });
    let client = client.expect("valid settings");
    let receiver = receiver(&client, "orders");
    // Waits on one link: nothing asks for a token but the renewal.
    while CALLS.load(Ordering::Relaxed) < 2 {
        none(&receiver);
    }
    send(&client.sender("orders"), "hello");
    assert_eq!(bodies(&receive(&receiver, 1)), ["hello"]);
}

/// As after a night in standby: the server took back the rights before the client could renew them.
#[test]
fn a_token_that_has_ended_is_replaced_with_the_link() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let server = Server::start();
    let options = server.options();
    let (name, key) = key(&options);
    let authority = format!("sb://localhost:{}/", options.port.expect("a port"));
    let give = move |_: &str| {
        let is_first = CALLS.fetch_add(1, Ordering::Relaxed) == 0;
        let expires_at = clock().plus_ms(if is_first { 2_000 } else { 60_000 });
        Ok(AccessToken {
            token: shared_access_signature(&authority, expires_at, &name, &key),
            expires_at: clock().plus_ms(60_000),
        })
    };
    let client = Client::new(ClientOptions {
        credential: Credential::Function(Arc::new(give)),
        ..options
    });
    let client = client.expect("valid settings");
    let receiver = receiver(&client, "orders");
    while CALLS.load(Ordering::Relaxed) < 2 {
        none(&receiver);
    }
    send(&client.sender("orders"), "hello");
    assert_eq!(bodies(&receive(&receiver, 1)), ["hello"]);
}

#[test]
fn a_function_that_fails_is_an_error_of_authentication() {
    let server = Server::start();
    let client = Client::new(ClientOptions {
        credential: Credential::Function(Arc::new(|_| Err("no network".to_owned()))),
        ..server.options()
    });
    let client = client.expect("valid settings");
    let failed = error(block_on(client.connect("orders", soon())));
    assert_eq!(failed.kind(), ClientErrorKind::Unauthenticated);
    assert!(failed.detail().contains("no network"), "{failed}");
}

#[test]
fn a_wrong_key_is_an_error_of_authentication() {
    let server = Server::start();
    let client = Client::new(ClientOptions {
        credential: Credential::SharedKey {
            name: "RootManageSharedAccessKey".to_owned(),
            key: "wrong".to_owned(),
        },
        ..server.options()
    });
    let failed = error(block_on(client.expect("valid settings").connect("orders", soon())));
    assert_eq!(failed.kind(), ClientErrorKind::Unauthenticated);
}

#[test]
fn a_missing_entity_is_named() {
    let server = Server::start();
    let client = server.client();
    let failed = error(block_on(client.sender("nothing").limits(soon())));
    assert_eq!(failed.kind(), ClientErrorKind::Broker(ErrorKind::EntityNotFound));
    assert!(failed.detail().contains("nothing"), "{failed}");
}

/// Writes the development issuer's certificate.
fn issuer(server: &Server) -> (tempfile::TempPath, String) {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    let issuer = server.server.issuer().expect("a development certificate");
    file.write_all(issuer.as_bytes()).expect("written");
    let path = file.into_temp_path();
    let text = path.to_str().expect("a plain path").to_owned();
    (path, text)
}

#[test]
fn tls_verifies_the_server() {
    let server = Server::with_ports(Ports {
        amqps: Some(0),
        ..Ports::default()
    });
    let (_kept, ca_file) = issuer(&server);
    for transport in [TransportKind::Tcp, TransportKind::WebSocket] {
        let client = Client::new(ClientOptions {
            tls: true,
            ca_file: Some(ca_file.clone()),
            transport,
            ..server.options()
        });
        works(&client.expect("valid settings"));
    }
    let other = Server::with_ports(Ports {
        amqps: Some(0),
        ..Ports::default()
    });
    let distrusting = Client::new(ClientOptions {
        tls: true,
        ca_file: Some(ca_file),
        ..other.options()
    });
    let failed = error(block_on(distrusting.expect("valid settings").connect("orders", soon())));
    assert_eq!(failed.kind(), ClientErrorKind::Connection);
    assert!(failed.detail().contains("connection_verify"), "{failed}");
}

#[test]
fn amqp_travels_over_a_websocket() {
    let server = Server::start();
    let client = Client::new(ClientOptions {
        transport: TransportKind::WebSocket,
        ..server.options()
    });
    works(&client.expect("valid settings"));
}

/// A proxy that tunnels one connection, if the request has this line.
fn proxy(wanted: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for near in listener.incoming().flatten() {
            std::thread::spawn(move || tunnel(near, wanted));
        }
    });
    port
}

fn tunnel(mut near: TcpStream, wanted: &str) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if near.read(&mut byte).unwrap_or(0) == 0 {
            return;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    if !head.contains(wanted) {
        let _ = near.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n");
        return;
    }
    let target = head.split(' ').nth(1).expect("a target");
    let Ok(mut far) = TcpStream::connect(target) else {
        return;
    };
    let _ = near.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n");
    let (mut near_reader, mut far_writer) = (near.try_clone().expect("a socket"), far.try_clone().expect("a socket"));
    let forth = std::thread::spawn(move || std::io::copy(&mut near_reader, &mut far_writer));
    let _ = std::io::copy(&mut far, &mut near);
    let _ = forth.join();
}

#[test]
fn a_proxy_tunnels_the_connection() {
    let server = Server::start();
    let through = |credentials: Option<(String, String)>| {
        Client::new(ClientOptions {
            proxy: Some(Proxy {
                host: "127.0.0.1".to_owned(),
                port: proxy("Proxy-Authorization: Basic dXNlcjpwYXNz"),
                credentials,
            }),
            ..server.options()
        })
        .expect("valid settings")
    };
    works(&through(Some(("user".to_owned(), "pass".to_owned()))));
    let failed = error(block_on(through(None).connect("orders", soon())));
    assert!(failed.detail().contains("name and a password"), "{failed}");
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    let server = Server::start();
    let client = Client::new(ClientOptions {
        custom_endpoint: Some(("127.0.0.1".to_owned(), Some(port))),
        ..server.options()
    });
    let failed = error(block_on(client.expect("valid settings").connect("orders", soon())));
    assert_eq!(failed.kind(), ClientErrorKind::Connection);
    assert!(failed.is_transient());
    assert!(failed.detail().contains(&port.to_string()), "{failed}");
}

#[test]
fn a_peer_that_is_no_server_is_recognised() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for mut near in listener.incoming().flatten() {
            let _ = near.write_all(b"220 mail ready\r\n");
        }
    });
    let server = Server::start();
    let client = Client::new(ClientOptions {
        custom_endpoint: Some(("127.0.0.1".to_owned(), Some(port))),
        ..server.options()
    });
    let failed = error(block_on(client.expect("valid settings").connect("orders", soon())));
    assert!(failed.detail().contains("does not speak AMQP"), "{failed}");
}

#[test]
fn a_connection_that_does_not_open_in_time_is_closed() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let server = Server::start();
    let client = Client::new(ClientOptions {
        custom_endpoint: Some(("127.0.0.1".to_owned(), Some(port))),
        connect_timeout: Duration::from_millis(50),
        retry: RetryOptions {
            total: 0,
            ..server.options().retry
        },
        ..server.options()
    })
    .expect("valid settings");
    let failed = error(block_on(client.connect("orders", soon())));
    assert_eq!(failed.broker_kind(), Some(ErrorKind::Timeout));
    let (mut silent, _) = listener.accept().expect("a connection");
    silent
        .set_read_timeout(Some(Duration::from_secs(10)))
        .expect("a valid time");
    let mut sent = Vec::new();
    silent.read_to_end(&mut sent).expect("the client closes it");
    assert!(sent.starts_with(b"AMQP"));
}

#[test]
fn settings_that_exclude_each_other_are_refused() {
    let server = Server::start();
    let options = ClientOptions {
        ca_file: Some("issuer.pem".to_owned()),
        ..server.options()
    };
    let failed = error(Client::new(options));
    assert_eq!(failed.kind(), ClientErrorKind::Broker(ErrorKind::InvalidArgument));
}

#[test]
fn a_closed_client_says_so() {
    let server = Server::start();
    let client = server.client();
    let sender = client.sender("orders");
    send(&sender, "one");
    block_on(async {
        client.close().await;
        Ok(())
    })
    .expect("closes");
    let failed = error(block_on(sender.send(&super::server::message("two"), None, soon())));
    assert_eq!(failed.kind(), ClientErrorKind::Broker(ErrorKind::Closed));
    assert_eq!(server.active("orders"), 1);
}
