// SPDX-License-Identifier: Apache-2.0
//! Tunnels through HTTP proxies (RFC 9110, 9.3.6).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::error::{ClientError, Result};
use crate::options::Proxy;

/// Bytes of a proxy's answer.
const ANSWER_BYTES_MAX: usize = 16 << 10;

/// Asks the proxy for a tunnel to the server.
pub(super) async fn tunnel(mut socket: TcpStream, proxy: &Proxy, host: &str, port: u16) -> Result<TcpStream> {
    let broken = |error: std::io::Error| {
        let detail = format!(
            "the proxy closed the connection; check its address: {}:{}: {error}",
            proxy.host, proxy.port
        );
        ClientError::connection(detail).with_source(error)
    };
    socket
        .write_all(request(proxy, host, port).as_bytes())
        .await
        .map_err(broken)?;
    let mut answer = Vec::new();
    // Byte by byte: what follows the empty line belongs to the server.
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() >= ANSWER_BYTES_MAX {
            return Err(ClientError::connection(
                "the proxy does not speak HTTP; check its address",
            ));
        }
        answer.push(socket.read_u8().await.map_err(broken)?);
    }
    let first = String::from_utf8_lossy(&answer);
    let first = first.lines().next().unwrap_or_default();
    match status(first) {
        Some(200..=299) => Ok(socket),
        Some(407) => Err(ClientError::connection(
            "the proxy wants a name and a password; set those of the proxy",
        )),
        _ => {
            let detail = format!("the proxy refuses to connect to {host}:{port}; ask who runs it: {first}");
            Err(ClientError::connection(detail))
        }
    }
}

fn request(proxy: &Proxy, host: &str, port: u16) -> String {
    let host = if host.contains(':') {
        format!("[{host}]")
    } else {
        host.to_owned()
    };
    let credentials = proxy.credentials.as_ref().map_or_else(String::new, |(name, password)| {
        let encoded = STANDARD.encode(format!("{name}:{password}"));
        format!("Proxy-Authorization: Basic {encoded}\r\n")
    });
    format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n{credentials}\r\n")
}

/// The status of `HTTP/1.1 200 Connection established`.
fn status(line: &str) -> Option<u16> {
    let mut words = line.split(' ');
    words.next().filter(|version| version.starts_with("HTTP/1."))?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{request, status};
    use crate::options::Proxy;

    #[test]
    fn the_request_names_the_server_and_the_credentials() {
        let proxy = Proxy {
            host: "proxy".to_owned(),
            port: 3128,
            credentials: Some(("user".to_owned(), "pass".to_owned())),
        };
        assert_eq!(
            request(&proxy, "::1", 443),
            "CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\nProxy-Authorization: Basic dXNlcjpwYXNz\r\n\r\n"
        );
    }

    #[test]
    fn the_status_is_read() {
        assert_eq!(status("HTTP/1.1 200 Connection established"), Some(200));
        assert_eq!(status("HTTP/1.0 407"), Some(407));
        assert_eq!(status("220 smtp"), None);
    }
}
