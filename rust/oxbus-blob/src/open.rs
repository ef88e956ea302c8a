// SPDX-License-Identifier: Apache-2.0
//! Opening a store by its URL.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::BlobStore;

/// The schemes of stores, each with the store that it names.
const SCHEMES: [(&str, Kind); 8] = [
    ("s3", Kind::Cloud),
    ("az", Kind::Cloud),
    ("abfs", Kind::Cloud),
    ("abfss", Kind::Cloud),
    ("gs", Kind::Cloud),
    ("postgresql", Kind::Postgres),
    ("postgres", Kind::Postgres),
    ("objects", Kind::Directory),
];

/// The kinds of stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Cloud,
    Postgres,
    Directory,
}

/// Why a store cannot be opened. The text says what to change and has no credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenError(String);

impl OpenError {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OpenError {}

fn kind(url: &str) -> Option<Kind> {
    let (scheme, _) = url.split_once("://")?;
    let found = SCHEMES.iter().find(|(known, _)| scheme.eq_ignore_ascii_case(known));
    found.map(|(_, kind)| *kind)
}

/// Opens the store of a URL. No request is sent yet, except to the file system.
///
/// - `s3://bucket/prefix`, `az://container/prefix` (also `abfs` and `abfss`), `gs://bucket/prefix`: object storage
/// - `postgresql://user:password@host/database?namespace=name`: a table in PostgreSQL
/// - `objects:///path`: a directory of this machine
///
/// The options are names and values, as `region` or `timeout`. An unknown name is an error that lists the valid ones.
#[cfg_attr(
    not(any(feature = "cloud", feature = "directory", feature = "postgres")),
    expect(unused_variables, reason = "this build has no store")
)]
pub async fn open(url: &str, options: &[(String, String)]) -> Result<Arc<dyn BlobStore>, OpenError> {
    match kind(url) {
        #[cfg(feature = "cloud")]
        Some(Kind::Cloud) => {
            // Reads files: profiles and certificates.
            let (url, options) = (url.to_owned(), options.to_vec());
            let opened = tokio::task::spawn_blocking(move || crate::ObjectStorage::open(&url, &options));
            Ok(Arc::new(opened.await.expect("opening does not panic")?))
        }
        #[cfg(feature = "postgres")]
        Some(Kind::Postgres) => Ok(Arc::new(crate::PostgresStore::open(url, options)?)),
        #[cfg(feature = "directory")]
        Some(Kind::Directory) => open_directory(url, options).await,
        #[allow(unreachable_patterns, reason = "reached if a kind of store is not built in")]
        Some(_) => Err(OpenError::new("this build has no store of this kind")),
        None => {
            let schemes = SCHEMES.map(|(scheme, _)| format!("{scheme}://")).join(", ");
            let scheme = url.split_once("://").map_or("no scheme", |(scheme, _)| scheme);
            let scheme: String = scheme.chars().take(20).collect();
            Err(OpenError::new(format!(
                "the URL of a store begins with one of {schemes}; this one has `{}`",
                scheme.escape_default()
            )))
        }
    }
}

/// The URL of a store as an error may show it: up to its query, and without the user and the password of a database.
pub fn shown_url(url: &str) -> String {
    let shown = url.split(['?', '#']).next().unwrap_or_default();
    match shown.split_once("://") {
        Some((scheme, rest)) => {
            let (place, path) = rest
                .split_once('/')
                .map_or((rest, None), |(place, path)| (place, Some(path)));
            // In `abfss://container@account` the first part is the container.
            let has_user = scheme.to_ascii_lowercase().starts_with("postgres");
            let place = place
                .rsplit_once('@')
                .filter(|_| has_user)
                .map_or(place, |(_, host)| host);
            match path {
                Some(path) => format!("{scheme}://{place}/{path}"),
                None => format!("{scheme}://{place}"),
            }
        }
        None => shown.to_owned(),
    }
}

#[cfg(feature = "directory")]
async fn open_directory(url: &str, options: &[(String, String)]) -> Result<Arc<dyn BlobStore>, OpenError> {
    if let Some((name, _)) = options.first() {
        return Err(OpenError::new(format!(
            "a directory has no option `{name}`, and no other one"
        )));
    }
    let (_, path) = url.split_once("://").expect("a URL with a scheme");
    if !path.starts_with('/') || path.contains(['?', '#']) {
        let text =
            "the URL of a directory is `objects:///` with an absolute path, without a host, a query or a fragment";
        return Err(OpenError::new(text));
    }
    let path = percent_encoding::percent_decode_str(path).decode_utf8();
    let path = path.map_err(|_| OpenError::new("the path of the URL is not UTF-8"))?;
    let path = oxbus_system::path_of_address(&path);
    Ok(Arc::new(crate::DirectoryStore::open(path).await?))
}

/// The duration of an option: a number with `ms`, `s` or `m`; a bare number means seconds.
#[cfg_attr(
    not(any(feature = "cloud", feature = "postgres")),
    allow(dead_code, reason = "a directory has no options; the tests use this")
)]
pub(crate) fn duration(name: &str, value: &str) -> Result<Duration, OpenError> {
    let digits = value.trim_end_matches(|last: char| !last.is_ascii_digit());
    let number = digits
        .parse::<u64>()
        .ok()
        .filter(|number| (1..=1_000_000).contains(number));
    let found = match (number, value[digits.len()..].trim()) {
        (Some(number), "ms") => Some(Duration::from_millis(number)),
        (Some(number), "s" | "" | "sec" | "second" | "seconds") => Some(Duration::from_secs(number)),
        (Some(number), "m" | "min" | "minute" | "minutes") => Some(Duration::from_secs(number * 60)),
        _ => None,
    };
    found.ok_or_else(|| OpenError::new(format!("the option `{name}` is a duration such as `10s` or `500ms`")))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use oxbus_model::store_url::STORE_SCHEMES;

    use super::{SCHEMES, duration, open, shown_url};

    #[test]
    fn every_scheme_of_a_store_has_a_kind() {
        assert_eq!(SCHEMES.map(|(scheme, _)| scheme), STORE_SCHEMES);
    }

    #[test]
    fn a_shown_url_has_no_credential() {
        for (url, shown) in [
            (
                "postgresql://user:SECRET@host/db?password=SECRET",
                "postgresql://host/db",
            ),
            ("postgres://host", "postgres://host"),
            ("s3://bucket/a/b?secret=SECRET#SECRET", "s3://bucket/a/b"),
            (
                "abfss://box@account.dfs.core.windows.net/p",
                "abfss://box@account.dfs.core.windows.net/p",
            ),
        ] {
            assert_eq!(shown_url(url), shown);
        }
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("timeout", "10"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("timeout", "10s"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("timeout", "250 ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("timeout", "2m"), Ok(Duration::from_secs(120)));
        for wrong in ["", "s", "0", "-1s", "1h", "1.5s", "99999999999999999999"] {
            assert!(duration("timeout", wrong).is_err(), "{wrong}");
        }
    }

    #[tokio::test]
    async fn errors_say_what_is_valid() {
        let text = open("ftp://user:SECRET@host/x", &[])
            .await
            .expect_err("no store")
            .to_string();
        assert!(
            text.contains("s3://, az://") && text.contains("`ftp`") && !text.contains("SECRET"),
            "{text}"
        );
        let text = open("objects://host/x", &[]).await.expect_err("no store").to_string();
        assert!(text.contains("objects:///"), "{text}");
        let options = [("region".to_owned(), "x".to_owned())];
        let text = open("objects:///x", &options).await.expect_err("no store").to_string();
        assert!(text.contains("`region`"), "{text}");
    }
}
