// SPDX-License-Identifier: Apache-2.0
//! One connection: bytes out, heads in, waiting in slices.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use oxbus_model::Result;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::Failure;
use crate::NEXT_HEADER;
use crate::address::Address;

/// Bytes that are read at once, and below which pieces are written together.
const BUFFER_BYTES: usize = 64 << 10;
/// Bytes of the line and the headers of an answer: a server of ours sends a few hundred.
const HEAD_BYTES_MAX: usize = 64 << 10;
const HEADERS_MAX: usize = 64;

/// How long to wait for the network.
pub struct Patience<'a> {
    /// For each piece that is written or read.
    pub timeout: Duration,
    /// After this the caller is asked whether it wants to leave.
    pub slice: Duration,
    /// True when it does.
    pub wants_to_leave: &'a dyn Fn() -> bool,
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(tls) => &tls.sock,
        }
    }

    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(out),
            Self::Tls(tls) => tls.read(out),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(tls) => tls.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<usize> {
        match self {
            Self::Plain(_) => Ok(0),
            Self::Tls(tls) => tls.flush().map(|()| 0),
        }
    }
}

/// A connection to a server.
pub(super) struct Connection {
    stream: Stream,
    slice: Duration,
    /// What was read and not used.
    buffer: Vec<u8>,
    used: usize,
}

/// The head of an answer.
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) length: Option<u64>,
    pub(super) is_chunked: bool,
    pub(super) keeps_open: bool,
    pub(super) next: Option<String>,
}

fn broken(address: &str, error: io::Error) -> Failure {
    let text = format!("the connection to the bulk server broke; try again: {address}: {error}");
    Failure::connection_by(text, error)
}

impl Connection {
    pub(super) fn open(
        address: &Address,
        tls: Option<&Arc<ClientConfig>>,
        patience: &Patience<'_>,
    ) -> std::result::Result<Self, Failure> {
        let endpoint = address.endpoint();
        let text = |error: &dyn std::fmt::Display| {
            format!("the bulk server cannot be reached; start it or correct the Endpoint: {endpoint}: {error}")
        };
        let unreachable = |error: io::Error| Failure::connection_by(text(&error), error);
        let places = (address.host.as_str(), address.port)
            .to_socket_addrs()
            .map_err(unreachable)?;
        let mut last = io::Error::from(ErrorKind::AddrNotAvailable);
        for place in places {
            match TcpStream::connect_timeout(&place, patience.timeout) {
                Ok(socket) => {
                    socket.set_nodelay(true).map_err(unreachable)?;
                    let stream = match tls {
                        None => Stream::Plain(socket),
                        Some(config) => {
                            let name = ServerName::try_from(address.host.clone())
                                .map_err(|error| Failure::connection_by(text(&error), error))?;
                            let session = ClientConnection::new(Arc::clone(config), name)
                                .map_err(|error| Failure::connection_by(text(&error), error))?;
                            Stream::Tls(Box::new(StreamOwned::new(session, socket)))
                        }
                    };
                    let mut connection = Self {
                        stream,
                        slice: Duration::ZERO,
                        buffer: Vec::new(),
                        used: 0,
                    };
                    connection.be_patient(patience)?;
                    connection.shake_hands(patience).map_err(|failure| match failure {
                        Failure::Connection(why, effect, source) => Failure::Connection(text(&why), effect, source),
                        other => other,
                    })?;
                    return Ok(connection);
                }
                Err(error) => last = error,
            }
        }
        Err(unreachable(last))
    }

    /// Says who both are, before anything else, so that what goes wrong then is told apart.
    fn shake_hands(&mut self, patience: &Patience<'_>) -> std::result::Result<(), Failure> {
        patiently(patience, || match &mut self.stream {
            Stream::Plain(_) => Ok(0),
            Stream::Tls(tls) => {
                while tls.conn.is_handshaking() {
                    tls.conn.complete_io(&mut tls.sock)?;
                }
                Ok(0)
            }
        })?;
        Ok(())
    }

    /// Waits as the call wants it.
    pub(super) fn be_patient(&mut self, patience: &Patience<'_>) -> std::result::Result<(), Failure> {
        if self.slice == patience.slice {
            return Ok(());
        }
        let slice = Some(patience.slice.max(Duration::from_millis(1)));
        let socket = self.stream.socket();
        socket
            .set_read_timeout(slice)
            .and_then(|()| socket.set_write_timeout(slice))
            .map_err(|error| broken("", error))?;
        self.slice = patience.slice;
        Ok(())
    }

    /// False when the server ended the connection, or says something that nobody asked for.
    pub(super) fn is_open(&self) -> bool {
        let socket = self.stream.socket();
        if self.used != self.buffer.len() || socket.set_nonblocking(true).is_err() {
            return false;
        }
        let is_silent = matches!(socket.peek(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock);
        is_silent && socket.set_nonblocking(false).is_ok()
    }

    /// Writes pieces one after the other, small ones together.
    pub(super) fn write(&mut self, pieces: &[&[u8]], patience: &Patience<'_>) -> std::result::Result<(), Failure> {
        let mut together = Vec::new();
        for piece in pieces {
            if together.len() + piece.len() <= BUFFER_BYTES {
                together.extend_from_slice(piece);
            } else {
                self.write_all(&together, patience)?;
                together.clear();
                if piece.len() < BUFFER_BYTES {
                    together.extend_from_slice(piece);
                } else {
                    self.write_all(piece, patience)?;
                }
            }
        }
        self.write_all(&together, patience)?;
        patiently(patience, || self.stream.flush())?;
        Ok(())
    }

    fn write_all(&mut self, mut bytes: &[u8], patience: &Patience<'_>) -> std::result::Result<(), Failure> {
        while !bytes.is_empty() {
            let written = patiently(patience, || self.stream.write(bytes))?;
            if written == 0 {
                return Err(broken("", io::Error::from(ErrorKind::WriteZero)));
            }
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// Writes what `next` returns in chunks, and the end.
    pub(super) fn write_stream<B: AsRef<[u8]>>(
        &mut self,
        next: &mut impl FnMut() -> Result<Option<Vec<B>>>,
        patience: &Patience<'_>,
    ) -> std::result::Result<(), Failure> {
        // The connection is dropped when this fails, and the server does nothing with a body without its end.
        while let Some(pieces) = next()? {
            let bytes: usize = pieces.iter().map(|piece| piece.as_ref().len()).sum();
            if bytes == 0 {
                continue;
            }
            let size = format!("{bytes:x}\r\n");
            let mut all = Vec::with_capacity(pieces.len() + 2);
            all.push(size.as_bytes());
            all.extend(pieces.iter().map(AsRef::as_ref));
            all.push(b"\r\n");
            self.write(&all, patience)?;
        }
        self.write(&[b"0\r\n\r\n"], patience)
    }

    /// Reads the head of an answer.
    pub(super) fn read_head(&mut self, patience: &Patience<'_>) -> std::result::Result<Head, Failure> {
        loop {
            let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
            let mut response = httparse::Response::new(&mut headers);
            match response.parse(&self.buffer[self.used..]) {
                Ok(httparse::Status::Complete(length)) => {
                    let head = Head::of(&response);
                    self.used += length;
                    return Ok(head);
                }
                Ok(httparse::Status::Partial) if self.buffer.len() - self.used < HEAD_BYTES_MAX => {}
                Ok(httparse::Status::Partial) | Err(_) => {
                    let detail = "what answers there is no bulk server of oxbus; correct the Endpoint";
                    return Err(Failure::connection(detail));
                }
            }
            self.read_more(patience)?;
        }
    }

    /// Reads something into the buffer.
    fn read_more(&mut self, patience: &Patience<'_>) -> std::result::Result<(), Failure> {
        self.buffer.drain(..self.used);
        self.used = 0;
        let length = self.buffer.len();
        self.buffer.resize(length + BUFFER_BYTES, 0);
        let (stream, buffer) = (&mut self.stream, &mut self.buffer);
        let read = patiently(patience, || stream.read(&mut buffer[length..]));
        self.buffer.truncate(length + read.as_ref().map_or(0, |read| *read));
        match read? {
            0 => Err(broken("", io::Error::from(ErrorKind::UnexpectedEof))),
            _ => Ok(()),
        }
    }

    /// Reads bytes of a body; at least one.
    pub(super) fn read(&mut self, out: &mut [u8], patience: &Patience<'_>) -> std::result::Result<usize, Failure> {
        if self.used == self.buffer.len() {
            if out.len() >= BUFFER_BYTES {
                return match patiently(patience, || self.stream.read(out))? {
                    0 => Err(broken("", io::Error::from(ErrorKind::UnexpectedEof))),
                    read => Ok(read),
                };
            }
            self.read_more(patience)?;
        }
        let here = (self.buffer.len() - self.used).min(out.len());
        out[..here].copy_from_slice(&self.buffer[self.used..self.used + here]);
        self.used += here;
        Ok(here)
    }

    /// Reads a line without its end.
    pub(super) fn read_line(&mut self, patience: &Patience<'_>) -> std::result::Result<Vec<u8>, Failure> {
        let mut line = Vec::new();
        let mut byte = [0];
        while self.read(&mut byte, patience)? == 1 && byte[0] != b'\n' {
            line.push(byte[0]);
            if line.len() > HEAD_BYTES_MAX {
                return Err(broken("", io::Error::from(ErrorKind::InvalidData)));
            }
        }
        line.pop_if(|last| *last == b'\r');
        Ok(line)
    }
}

impl Head {
    fn of(response: &httparse::Response<'_, '_>) -> Self {
        let header = |name: &str| {
            let found = response
                .headers
                .iter()
                .find(|header| header.name.eq_ignore_ascii_case(name));
            found.and_then(|header| std::str::from_utf8(header.value).ok())
        };
        let says = |name: &str, what: &str| header(name).is_some_and(|value| value.eq_ignore_ascii_case(what));
        Self {
            status: response.code.unwrap_or(0),
            length: header("content-length").and_then(|value| value.parse().ok()),
            is_chunked: says("transfer-encoding", "chunked"),
            keeps_open: response.version == Some(1) && !says("connection", "close"),
            next: header(NEXT_HEADER).map(str::to_owned),
        }
    }
}

/// Repeats `work` while it would wait, until the time is over or the caller wants to leave.
fn patiently(
    patience: &Patience<'_>,
    mut work: impl FnMut() -> io::Result<usize>,
) -> std::result::Result<usize, Failure> {
    let mut waited = Duration::ZERO;
    loop {
        match work() {
            Ok(done) => return Ok(done),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                waited += patience.slice;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(broken("", error)),
        }
        if (patience.wants_to_leave)() {
            return Err(Failure::Left);
        }
        if waited >= patience.timeout {
            let detail = format!(
                "the bulk server did not answer within {:.1} s; try again, or raise timeout",
                patience.timeout.as_secs_f64()
            );
            return Err(Failure::Timeout(detail, None));
        }
    }
}
