// SPDX-License-Identifier: Apache-2.0
//! A proxy between client and server that fails after a number of bytes.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use oxbus_client::{Client, ClientOptions};

use super::server::{Server, pause};

/// What happens when the bytes are used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The part that still passes arrives, and both sides are closed.
    Cut,
    /// The rest arrives later.
    Delay,
    /// Nothing arrives any more, and nothing is closed.
    Silence,
}

/// A proxy. All connections share the number of bytes that pass, in both directions together.
#[derive(Clone)]
pub(crate) struct Proxy(Arc<ProxyState>);

struct ProxyState {
    port: u16,
    failure: Failure,
    left: AtomicUsize,
    open: Mutex<Vec<TcpStream>>,
    is_over: AtomicBool,
}

/// As good as any number of bytes.
const ALL: usize = usize::MAX / 2;
const DELAY: Duration = Duration::from_millis(3);

impl Proxy {
    pub(crate) fn new(server: &Server, failure: Failure) -> Self {
        let target = server.server.ports().first();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let proxy = Self(Arc::new(ProxyState {
            port: listener.local_addr().expect("an address").port(),
            failure,
            left: AtomicUsize::new(ALL),
            open: Mutex::default(),
            is_over: AtomicBool::new(false),
        }));
        let accepting = proxy.clone();
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                if accepting.0.is_over.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(far) = TcpStream::connect(("127.0.0.1", target)) else {
                    return;
                };
                // Without it, each short answer waits for the next acknowledgement.
                let _ = (near.set_nodelay(true), far.set_nodelay(true));
                let copy = |socket: &TcpStream| socket.try_clone().expect("a socket");
                let mut open = accepting.0.open.lock().expect("no panic");
                open.extend([copy(&near), copy(&far)]);
                for (from, to) in [(copy(&near), copy(&far)), (far, near)] {
                    let proxy = accepting.clone();
                    std::thread::spawn(move || proxy.copy(from, to));
                }
            }
        });
        proxy
    }

    fn copy(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = [0; 4_096];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let left = self.0.left.load(Ordering::Relaxed);
            let passed = count.min(left);
            self.0.left.fetch_sub(passed, Ordering::Relaxed);
            if to.write_all(&buffer[..passed]).is_err() {
                break;
            }
            if passed == count {
                continue;
            }
            match self.0.failure {
                Failure::Cut => break,
                Failure::Silence => {}
                Failure::Delay => {
                    pause(DELAY);
                    self.heal();
                    if to.write_all(&buffer[passed..count]).is_err() {
                        break;
                    }
                }
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }

    /// Fails after this many bytes.
    pub(crate) fn after(&self, bytes: usize) {
        self.0.left.store(bytes, Ordering::Relaxed);
    }

    /// Cuts all open connections now, and lets new ones pass.
    pub(crate) fn cut(&self) {
        self.heal();
        for socket in self.0.open.lock().expect("no panic").drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Cuts all connections, and accepts no more.
    pub(crate) fn end(&self) {
        self.0.is_over.store(true, Ordering::Relaxed);
        self.cut();
        let _ = TcpStream::connect(("127.0.0.1", self.0.port));
    }

    fn heal(&self) {
        self.0.left.store(ALL, Ordering::Relaxed);
    }

    /// Settings of a client that connects through the proxy.
    pub(crate) fn options(&self, server: &Server) -> ClientOptions {
        ClientOptions {
            custom_endpoint: Some(("127.0.0.1".to_owned(), Some(self.0.port))),
            ..server.options()
        }
    }

    pub(crate) fn client(&self, server: &Server) -> Client {
        Client::new(self.options(server)).expect("valid settings")
    }
}
