// SPDX-License-Identifier: Apache-2.0
//! Requests of the client to a server with given answers, which counts them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::ObjectStorage;
use crate::{BlobError, BlobStore, Version};

/// A server that gives one answer to each request. An empty answer closes the connection.
async fn serve(status: &'static str, headers: &'static str, body: &'static str) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let requests = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&requests);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, Arc::clone(&counter), status, headers, body));
        }
    });
    (address, requests)
}

async fn answer(mut stream: TcpStream, requests: Arc<AtomicUsize>, status: &str, headers: &str, body: &str) {
    let mut received = Vec::new();
    loop {
        let mut part = [0; 4096];
        match stream.read(&mut part).await {
            Ok(0) | Err(_) => return,
            Ok(read) => received.extend_from_slice(&part[..read]),
        }
        // The requests of these tests end with this content, or have none.
        let text = String::from_utf8_lossy(&received);
        let complete = text.ends_with("content") || (text.ends_with("\r\n\r\n") && !text.starts_with("PUT"));
        if !complete {
            continue;
        }
        received.clear();
        requests.fetch_add(1, Ordering::SeqCst);
        match status {
            "" => return,
            "silence" => std::future::pending().await,
            _ => {}
        }
        let length = body.len();
        let answer = format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n{body}");
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

fn store(url: &str, options: &[(&str, &str)]) -> ObjectStorage {
    let options: Vec<_> = options
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    ObjectStorage::open(url, &options).expect("a store")
}

fn s3(endpoint: &str) -> ObjectStorage {
    let keys = [
        ("access_key_id", "id-of-a-key"),
        ("secret_access_key", "SECRET"),
        ("region", "eu-west-1"),
    ];
    store(
        "s3://bucket/p",
        &[&keys[..], &[("endpoint", endpoint), ("timeout", "500ms")]].concat(),
    )
}

async fn create(store: &ObjectStorage) -> Result<Version, BlobError> {
    store.create("key", Bytes::from_static(b"content")).await
}

async fn swap(store: &ObjectStorage) -> Result<Version, BlobError> {
    store
        .swap("key", Bytes::from_static(b"content"), &Version("\"1\"".to_owned()))
        .await
}

#[tokio::test]
async fn no_request_is_repeated() {
    let conflict = "<Error><Code>ConditionalRequestConflict</Code><Message>Try again.</Message></Error>";
    let cases = [
        ("503 Slow Down", "<Error><Code>SlowDown</Code></Error>"),
        ("500 Internal Server Error", ""),
        ("409 Conflict", conflict),
        ("429 Too Many Requests", ""),
        ("408 Request Timeout", ""),
        ("", ""),
        ("silence", ""),
    ];
    for (status, body) in cases {
        let (endpoint, requests) = serve(status, "", body).await;
        let store = s3(&endpoint);
        let created = create(&store).await;
        assert!(
            matches!(created, Err(BlobError::Unavailable(_))),
            "{status}: {created:?}"
        );
        assert_eq!(requests.load(Ordering::SeqCst), 1, "{status}");
        let swapped = swap(&store).await;
        assert!(
            matches!(swapped, Err(BlobError::Unavailable(_))),
            "{status}: {swapped:?}"
        );
        assert_eq!(requests.load(Ordering::SeqCst), 2, "{status}");
        let read = store.read("key").await;
        assert!(matches!(read, Err(BlobError::Unavailable(_))), "{status}: {read:?}");
        assert_eq!(requests.load(Ordering::SeqCst), 3, "{status}");
    }
}

#[tokio::test]
async fn answers_have_their_meaning() {
    let (endpoint, _) = serve(
        "412 Precondition Failed",
        "",
        "<Error><Code>PreconditionFailed</Code></Error>",
    )
    .await;
    assert_eq!(create(&s3(&endpoint)).await, Err(BlobError::Exists));
    assert_eq!(swap(&s3(&endpoint)).await, Err(BlobError::Changed));
    let (endpoint, _) = serve("200 OK", "etag: \"2\"\r\n", "").await;
    assert_eq!(create(&s3(&endpoint)).await, Ok(Version("\"2\"".to_owned())));
    let (endpoint, _) = serve("200 OK", "", "").await;
    assert!(matches!(create(&s3(&endpoint)).await, Err(BlobError::Other(_))));
    let headers = "location: http://127.0.0.1:1/\r\nx-amz-bucket-region: eu-north-1\r\n";
    let (endpoint, requests) = serve("301 Moved Permanently", headers, "").await;
    let elsewhere = BlobError::NoContainer("301 (its region is eu-north-1)".to_owned());
    assert_eq!(create(&s3(&endpoint)).await, Err(elsewhere));
    assert_eq!(requests.load(Ordering::SeqCst), 1);
    let (endpoint, _) = serve("404 Not Found", "", "<html>nothing here</html>").await;
    assert!(matches!(s3(&endpoint).read("key").await, Err(BlobError::Other(_))));
}

#[tokio::test]
async fn no_text_has_a_credential() {
    let body = "<Error><Code>AuthenticationFailed</Code><Message>For https://h/c?sv=1&amp;sig=SECRET and U0VDUkVUS0VZ\n\
                StringToSign SECRET</Message></Error>";
    let (endpoint, _) = serve("403 Forbidden", "", body).await;
    let sas = [
        ("account_name", "me"),
        ("endpoint", &endpoint),
        ("sas_token", "sv=1&sig=SECRET"),
    ];
    let account = [
        ("account_name", "me"),
        ("endpoint", &endpoint),
        ("account_key", "U0VDUkVUS0VZ"),
    ];
    let google = [("endpoint", endpoint.as_str()), ("bearer_token", "U0VDUkVUS0VZ")];
    for store in [
        store("az://c/p", &sas),
        store("az://c/p", &account),
        store("gs://c/p", &google),
    ] {
        let error = create(&store).await.expect_err("refused");
        assert!(matches!(error, BlobError::Denied(_)), "{error:?}");
        for text in [format!("{error:?}"), format!("{store:?}"), store.url()] {
            assert!(!text.contains("sig=SECRET") && !text.contains("StringToSign"), "{text}");
        }
        let used = if format!("{store:?}").contains("gs:") {
            "U0VDUkVUS0VZ"
        } else {
            "sig=SECRET"
        };
        assert!(!error.to_string().contains(used), "{error}");
    }
    let gone = store(
        "az://c/p",
        &[&sas[..1], &sas[2..], &[("endpoint", "http://127.0.0.1:1")]].concat(),
    );
    let error = create(&gone).await.expect_err("no server");
    assert!(
        matches!(&error, BlobError::Unavailable(text) if !text.contains("SECRET")),
        "{error}"
    );
}

#[tokio::test]
async fn http_needs_an_endpoint_that_says_so() {
    let error = create(&store(
        "s3://bucket",
        &[
            ("access_key_id", "a"),
            ("secret_access_key", "b"),
            ("endpoint", "https://127.0.0.1:1"),
        ],
    ))
    .await
    .expect_err("no server");
    assert!(matches!(error, BlobError::Unavailable(_)), "{error}");
}
