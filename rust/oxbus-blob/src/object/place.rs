// SPDX-License-Identifier: Apache-2.0
//! The places of object storage, by their URLs.

use crate::key::check_key;
use crate::open::OpenError;

/// The clouds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cloud {
    S3,
    Azure,
    Google,
}

/// A place in object storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) cloud: Cloud,
    /// The bucket or container.
    pub(super) container: String,
    /// The account of Azure, if the URL names it, with its host.
    pub(super) host: Option<String>,
    /// What the keys begin with: empty, or with a `/` at its end.
    pub(super) prefix: String,
}

impl Place {
    /// Reads a URL.
    pub(super) fn of(url: &str) -> Result<Self, OpenError> {
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let scheme = scheme.to_ascii_lowercase();
        let cloud = match scheme.as_str() {
            "s3" => Cloud::S3,
            "gs" => Cloud::Google,
            _ => Cloud::Azure,
        };
        if rest.contains(['?', '#']) {
            let text = "the URL of object storage has no query and no fragment; give options beside the URL";
            return Err(OpenError::new(text));
        }
        let (authority, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let (container, host) = match authority.split_once('@') {
            Some((container, host)) if cloud == Cloud::Azure => (container, Some(host.to_owned())),
            Some(_) => {
                return Err(OpenError::new(
                    "the URL of a bucket has no user; give credentials as options",
                ));
            }
            None => (authority, None),
        };
        let named = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if container.is_empty() || !container.bytes().all(named) {
            return Err(OpenError::new(format!(
                "the URL names no bucket or container: `{scheme}://name/prefix`"
            )));
        }
        let prefix = prefix.trim_end_matches('/');
        if !prefix.is_empty() {
            check_key(prefix).map_err(|error| OpenError::new(format!("the prefix of the URL: {error}")))?;
        }
        Ok(Self {
            cloud,
            container: container.to_owned(),
            host,
            prefix: if prefix.is_empty() {
                String::new()
            } else {
                format!("{prefix}/")
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Cloud, Place};

    #[test]
    fn urls_name_places() {
        let place = |url| Place::of(url).expect("a place");
        let found = place("s3://bucket/a/b/");
        assert_eq!(
            (found.cloud, found.container.as_str(), found.prefix.as_str()),
            (Cloud::S3, "bucket", "a/b/")
        );
        let found = place("abfss://files@account.dfs.core.windows.net/a");
        assert_eq!(found.host.as_deref(), Some("account.dfs.core.windows.net"));
        assert_eq!(
            (found.cloud, found.container.as_str(), found.prefix.as_str()),
            (Cloud::Azure, "files", "a/")
        );
        let found = place("gs://my.bucket");
        assert_eq!(
            (found.cloud, found.container.as_str(), found.prefix.as_str()),
            (Cloud::Google, "my.bucket", "")
        );
        for wrong in [
            "s3://",
            "s3:///a",
            "s3://key:SECRET@bucket",
            "s3://b/p?sig=SECRET",
            "s3://b/../c",
            "az://c/a//b",
        ] {
            let text = Place::of(wrong).expect_err("no place").to_string();
            assert!(!text.contains("SECRET"), "{text}");
        }
    }
}
