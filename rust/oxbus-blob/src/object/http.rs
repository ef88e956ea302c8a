// SPDX-License-Identifier: Apache-2.0
//! The HTTP client of object storage: HTTP/1.1 with rustls and ring.
//!
//! It sends each request at most once: the pool of connections takes another connection only for a request of which it
//! has not sent a byte. An answer that is not a success is an error here, so that what it means is decided in one place
//! (`answers`) and not by its status alone.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::USER_AGENT;
use http::{HeaderMap, HeaderValue, Response, Uri};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector as Tcp;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse, HttpResponseBody,
    HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};
use rustls::ClientConfig;

use super::answers::{Failure, Refusal};
use crate::open::duration;
use crate::text::with_causes;

/// A server may close an idle connection; stores do so after 20 seconds or more.
const IDLE: Duration = Duration::from_secs(15);

/// How long a connection is attempted if the options do not say.
pub(super) const CONNECT: Duration = Duration::from_secs(3);

/// The text of an error that is read.
const TEXT_MAX: usize = 64 << 10;

/// Makes clients.
#[derive(Debug)]
pub(super) struct Connector(pub(super) ClientConfig);

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let option = |key| options.get_config_value(&key);
        let connect = option(ClientConfigKey::ConnectTimeout).and_then(|text| duration("", &text).ok());
        let mut tcp = Tcp::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(Duration::from_secs(30)));
        tcp.set_connect_timeout(Some(connect.map_or(CONNECT, |connect| connect.min(CONNECT))));
        let tls = HttpsConnectorBuilder::new().with_tls_config(self.0.clone());
        let tls = match option(ClientConfigKey::AllowHttp).as_deref() {
            Some("true") => tls.https_or_http(),
            _ => tls.https_only(),
        };
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_timer(TokioTimer::new())
            .build(tls.enable_http1().wrap_connector(tcp));
        Ok(HttpClient::new(Sender(client)))
    }
}

/// Sends requests.
#[derive(Debug)]
struct Sender(Client<HttpsConnector<Tcp>, HttpRequestBody>);

#[async_trait]
impl HttpService for Sender {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let uri = request.uri().clone();
        let agent = HeaderValue::from_static(concat!("oxbus/", env!("CARGO_PKG_VERSION")));
        request.headers_mut().entry(USER_AGENT).or_insert(agent);
        let answered = self.0.request(request).await;
        let answer = answered.map_err(|error| {
            let kind = if error.is_connect() {
                HttpErrorKind::Connect
            } else {
                HttpErrorKind::Request
            };
            lost(kind, &uri, &error)
        })?;
        if !answer.status().is_success() {
            return Err(refusal(&uri, answer).await);
        }
        let body = answer.map(|body| {
            let body = body.map_err(move |error| lost(HttpErrorKind::Interrupted, &uri, &error));
            HttpResponseBody::new(body)
        });
        Ok(body)
    }
}

fn lost(kind: HttpErrorKind, uri: &Uri, error: &(dyn std::error::Error + 'static)) -> HttpError {
    let failure = Failure {
        host: uri.host().unwrap_or_default().to_owned(),
        path: uri.path().to_owned(),
        refusal: None,
        text: with_causes(error),
    };
    HttpError::new(kind, failure)
}

/// An answer that is not a success, with the code and the text that the store gives.
async fn refusal(uri: &Uri, answer: Response<Incoming>) -> HttpError {
    let (parts, body) = answer.into_parts();
    // An error while reading leaves the status.
    let body = match Limited::new(body, TEXT_MAX).collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => Bytes::new(),
    };
    let body = String::from_utf8_lossy(&body);
    let header = |name: &str| text_of(&parts.headers, name);
    let code = header("x-ms-error-code")
        .or_else(|| element(&body, "Code"))
        .or_else(|| member(&body, "error"))
        .unwrap_or_default();
    let message = element(&body, "Message").or_else(|| member(&body, "error_description"));
    let message = message.or_else(|| member(&body, "message"));
    let refusal = Refusal {
        status: parts.status.as_u16(),
        code,
        region: header("x-amz-bucket-region"),
    };
    let failure = Failure {
        host: uri.host().unwrap_or_default().to_owned(),
        path: uri.path().to_owned(),
        refusal: Some(refusal),
        text: message.unwrap_or_default(),
    };
    HttpError::new(HttpErrorKind::Unknown, failure)
}

fn text_of(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?;
    Some(value.to_owned())
}

/// The content of an XML element, and its first line only: the later ones of Azure repeat the request.
fn element(body: &str, name: &str) -> Option<String> {
    let (_, after) = body.split_once(&format!("<{name}>"))?;
    let (content, _) = after.split_once(&format!("</{name}>"))?;
    let line = content.lines().next().unwrap_or_default();
    let marks = [
        ("&quot;", "\""),
        ("&#34;", "\""),
        ("&apos;", "'"),
        ("&#39;", "'"),
        ("&lt;", "<"),
        ("&gt;", ">"),
    ];
    let plain = marks
        .iter()
        .fold(line.to_owned(), |line, (code, mark)| line.replace(code, mark));
    Some(plain.replace("&amp;", "&"))
}

/// The text of a member of a JSON object, wherever it is.
fn member(body: &str, name: &str) -> Option<String> {
    let (_, after) = body.split_once(&format!("\"{name}\""))?;
    let value = after.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    let (content, _) = value.split_once('"')?;
    Some(content.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{element, member};

    #[test]
    fn the_text_of_an_error_is_found() {
        let body =
            "<?xml version=\"1.0\"?><Error><Code>ServerBusy</Code><Message>It&apos;s busy.\nTime:1</Message></Error>";
        assert_eq!(element(body, "Code").as_deref(), Some("ServerBusy"));
        assert_eq!(element(body, "Message").as_deref(), Some("It's busy."));
        assert_eq!(element(body, "Region"), None);
        let body = "{\"error\": \"invalid_client\", \"error_description\" :\"no such application\"}";
        assert_eq!(member(body, "error").as_deref(), Some("invalid_client"));
        assert_eq!(
            member(body, "error_description").as_deref(),
            Some("no such application")
        );
        assert_eq!(member("{\"error\":{\"message\":\"no\"}}", "error"), None);
        assert_eq!(
            member("{\"error\":{\"message\":\"no\"}}", "message").as_deref(),
            Some("no")
        );
    }
}
