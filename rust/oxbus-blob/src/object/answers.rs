// SPDX-License-Identifier: Apache-2.0
//! What the answers of object storage mean.

use std::error::Error;
use std::fmt;

use crate::BlobError;
use crate::text::{clean, with_causes};

/// A request that was not a success.
#[derive(Debug)]
pub(super) struct Failure {
    /// The host that it was sent to.
    pub(super) host: String,
    /// The path of its URL.
    pub(super) path: String,
    /// The answer; none if there was no complete one.
    pub(super) refusal: Option<Refusal>,
    /// What the store or the connection says.
    pub(super) text: String,
}

/// An answer that was not a success.
#[derive(Debug)]
pub(super) struct Refusal {
    /// The status of HTTP.
    pub(super) status: u16,
    /// The code of the store; empty if it gives none.
    pub(super) code: String,
    /// Where the bucket lies, if the store says it.
    pub(super) region: Option<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { refusal, text, .. } = self;
        match refusal {
            None => f.write_str(text),
            Some(Refusal { status, code, region }) => {
                write!(f, "{status}")?;
                for part in [code, text].into_iter().filter(|part| !part.is_empty()) {
                    write!(f, " {part}")?;
                }
                region
                    .as_ref()
                    .map_or(Ok(()), |region| write!(f, " (its region is {region})"))
            }
        }
    }
}

impl Error for Failure {}

/// The kinds of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    Create,
    Swap,
    Read,
    List,
    Delete,
}

/// What an error means. `container` is the name of the bucket or container.
pub(super) fn meaning(request: Request, error: &object_store::Error, container: &str, secrets: &[String]) -> BlobError {
    let Some(failure) = failure_of(error) else {
        return without_answer(request, error, secrets);
    };
    let text = clean(&failure.to_string(), secrets);
    if !is_of_container(failure, container) {
        return of_credentials(failure, &text);
    }
    match &failure.refusal {
        None => BlobError::Unavailable(text),
        Some(Refusal { status, code, .. }) => of_store(request, *status, code, text),
    }
}

fn failure_of(error: &object_store::Error) -> Option<&Failure> {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref::<Failure>() {
            return Some(found);
        }
        cause = error.source();
    }
    None
}

/// True if a request was one to the container, and not one for credentials.
fn is_of_container(failure: &Failure, container: &str) -> bool {
    let host = failure.host.strip_prefix(container);
    host.is_some_and(|rest| rest.starts_with('.')) || failure.path.split('/').any(|part| part == container)
}

/// What it means that credentials could not be had.
fn of_credentials(failure: &Failure, text: &str) -> BlobError {
    let text = format!("no credentials are given, and {} has none: {text}", failure.host);
    match failure.refusal.as_ref().map(|refusal| refusal.status) {
        None | Some(408 | 429 | 500..) => BlobError::Unavailable(text),
        Some(_) => BlobError::Denied(text),
    }
}

/// What an answer of the store means.
fn of_store(request: Request, status: u16, code: &str, text: String) -> BlobError {
    match code {
        "NoSuchBucket"
        | "ContainerNotFound"
        | "ContainerBeingDeleted"
        | "ContainerDisabled"
        | "PermanentRedirect"
        | "AuthorizationHeaderMalformed"
        | "IllegalLocationConstraintException"
        | "InvalidBucketName" => {
            return BlobError::NoContainer(text);
        }
        "ExpiredToken"
        | "InvalidToken"
        | "InvalidAccessKeyId"
        | "TokenRefreshRequired"
        | "PublicAccessNotPermitted" => {
            return BlobError::Denied(text);
        }
        "SlowDown" | "ServerBusy" | "RequestTimeout" | "OperationTimedOut" | "OperationAborted" => {
            return BlobError::Unavailable(text);
        }
        _ if status == 507 || code.contains("StorageFull") => return BlobError::Full(text),
        _ if status != 429 && (code.contains("Quota") || code == "InsufficientStorage") => {
            return BlobError::Full(text);
        }
        _ => {}
    }
    match (status, request) {
        (301 | 302 | 307 | 308, _) => BlobError::NoContainer(text),
        (401 | 403 | 407, _) => BlobError::Denied(text),
        (304 | 412, Request::Create) if !code.contains("Lease") => BlobError::Exists,
        (409, Request::Create) if code.ends_with("AlreadyExists") => BlobError::Exists,
        (412, Request::Swap) if !code.contains("Lease") => BlobError::Changed,
        // Another server's 404, or one about a user, says nothing about the object.
        (404, _) if !matches!(code, "NoSuchKey" | "BlobNotFound") => BlobError::Other(text),
        (404, Request::Swap) => BlobError::Changed,
        (404, Request::Read | Request::Delete) => BlobError::Missing,
        // 409: another conditional request was under way; this one may have had its effect.
        (408 | 409 | 425 | 429 | 500 | 502..=506 | 508.., _) => BlobError::Unavailable(text),
        _ => BlobError::Other(text),
    }
}

/// What an error means that no answer caused.
fn without_answer(request: Request, error: &object_store::Error, secrets: &[String]) -> BlobError {
    let text = clean(&with_causes(error), secrets);
    match (error, request) {
        (object_store::Error::AlreadyExists { .. }, Request::Create) => BlobError::Exists,
        (object_store::Error::Precondition { .. } | object_store::Error::NotFound { .. }, Request::Swap) => {
            BlobError::Changed
        }
        (object_store::Error::NotFound { .. }, Request::Read | Request::Delete) => BlobError::Missing,
        (object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. }, _) => {
            BlobError::Denied(text)
        }
        _ => BlobError::Other(text),
    }
}

#[cfg(test)]
mod tests {
    use object_store::client::{HttpError, HttpErrorKind};

    use super::{Failure, Refusal, Request, meaning};
    use crate::BlobError;

    fn error(host: &str, refusal: Option<(u16, &str)>, text: &str) -> object_store::Error {
        let refusal = refusal.map(|(status, code)| Refusal {
            status,
            code: code.to_owned(),
            region: (status == 301).then(|| "eu-west-1".to_owned()),
        });
        let failure = Failure {
            host: host.to_owned(),
            path: if host == "s3.example" { "/bucket/key" } else { "/latest" }.to_owned(),
            refusal,
            text: text.to_owned(),
        };
        object_store::Error::Generic {
            store: "S3",
            source: Box::new(HttpError::new(HttpErrorKind::Unknown, failure)),
        }
    }

    fn of(request: Request, status: u16, code: &str) -> BlobError {
        meaning(
            request,
            &error("s3.example", Some((status, code)), "text"),
            "bucket",
            &[],
        )
    }

    fn name(error: &BlobError) -> String {
        let name = format!("{error:?}");
        name.split('(').next().unwrap_or_default().to_owned()
    }

    #[test]
    fn answers_have_a_meaning() {
        let cases = [
            (Request::Create, 412, "PreconditionFailed", "Exists"),
            (Request::Create, 409, "BlobAlreadyExists", "Exists"),
            (Request::Create, 409, "ConditionalRequestConflict", "Unavailable"),
            (Request::Create, 409, "", "Unavailable"),
            (Request::Create, 404, "NoSuchBucket", "NoContainer"),
            (Request::Create, 404, "ContainerNotFound", "NoContainer"),
            (Request::Create, 301, "PermanentRedirect", "NoContainer"),
            (Request::Create, 400, "AuthorizationHeaderMalformed", "NoContainer"),
            (Request::Create, 507, "XMinioStorageFull", "Full"),
            (Request::Create, 403, "QuotaExceeded", "Full"),
            (Request::Create, 429, "userRateQuotaExceeded", "Unavailable"),
            (Request::Create, 501, "NotImplemented", "Other"),
            (Request::Swap, 412, "ConditionNotMet", "Changed"),
            (Request::Swap, 412, "LeaseIdMissing", "Other"),
            (Request::Swap, 404, "NoSuchKey", "Changed"),
            (Request::Swap, 404, "NoSuchBucket", "NoContainer"),
            (Request::Swap, 409, "ConditionalRequestConflict", "Unavailable"),
            (Request::Read, 404, "NoSuchKey", "Missing"),
            (Request::Read, 416, "InvalidRange", "Other"),
            (Request::List, 404, "NoSuchBucket", "NoContainer"),
            (Request::Read, 404, "", "Other"),
            (Request::Read, 404, "XAdminUserNotFound", "Other"),
            (Request::Swap, 404, "", "Other"),
            (Request::Delete, 404, "BlobNotFound", "Missing"),
            (Request::Read, 401, "", "Denied"),
            (Request::Read, 403, "SignatureDoesNotMatch", "Denied"),
            (Request::Read, 400, "ExpiredToken", "Denied"),
            (Request::Read, 400, "RequestTimeout", "Unavailable"),
            (Request::Swap, 503, "SlowDown", "Unavailable"),
            (Request::Swap, 500, "InternalError", "Unavailable"),
            (Request::Swap, 429, "", "Unavailable"),
        ];
        for (request, status, code, expected) in cases {
            assert_eq!(
                name(&of(request, status, code)),
                expected,
                "{request:?} {status} {code}"
            );
        }
    }

    #[test]
    fn texts_say_what_the_store_answered() {
        let expected = "301 PermanentRedirect text (its region is eu-west-1)".to_owned();
        assert_eq!(
            of(Request::Read, 301, "PermanentRedirect"),
            BlobError::NoContainer(expected)
        );
        let lost = error(
            "s3.example",
            None,
            "connection reset at https://u:SECRET@s3.example?sig=SECRET",
        );
        let lost = meaning(Request::Swap, &lost, "bucket", &[]);
        assert!(
            matches!(&lost, BlobError::Unavailable(text) if !text.contains("SECRET")),
            "{lost}"
        );
    }

    #[test]
    fn failures_of_credentials_are_no_answers_of_the_store() {
        let missing = error("169.254.169.254", Some((404, "")), "");
        assert_eq!(name(&meaning(Request::Read, &missing, "bucket", &[])), "Denied");
        let lost = error("169.254.169.254", None, "timed out");
        let lost = meaning(Request::Create, &lost, "bucket", &[]);
        assert_eq!(name(&lost), "Unavailable");
        assert!(lost.to_string().contains("no credentials are given"), "{lost}");
    }
}
