// SPDX-License-Identifier: Apache-2.0
//! The options of object storage: given ones, those of the environment, and those of a profile.

use std::collections::BTreeMap;
use std::time::Duration;

use super::http::CONNECT;
use super::place::Cloud;
use super::profile;
use crate::open::{OpenError, duration};

/// Options of this crate, for each cloud.
const OWN: [&str; 3] = ["ca_file", "connect_timeout", "timeout"];

/// Options of S3 that are credentials, or choose them.
const S3_CREDENTIALS: [&str; 8] = [
    "access_key_id",
    "secret_access_key",
    "session_token",
    "role_arn",
    "web_identity_token_file",
    "container_credentials_relative_uri",
    "container_credentials_full_uri",
    "profile",
];

/// The other options of S3.
const S3: [&str; 16] = [
    "checksum_algorithm",
    "container_authorization_token_file",
    "endpoint",
    "endpoint_url_sts",
    "imdsv1_fallback",
    "metadata_endpoint",
    "region",
    "request_payer",
    "role_session_name",
    "s3_express",
    "server_side_encryption",
    "skip_signature",
    "sse_bucket_key_enabled",
    "sse_customer_key_base64",
    "sse_kms_key_id",
    "virtual_hosted_style_request",
];

/// Options of Azure that are credentials, or choose them.
const AZURE_CREDENTIALS: [&str; 9] = [
    "account_key",
    "bearer_token",
    "client_id",
    "client_secret",
    "connection_string",
    "federated_token_file",
    "sas_token",
    "use_azure_cli",
    "credential_type",
];

/// The other options of Azure.
const AZURE: [&str; 10] = [
    "account_name",
    "authority_host",
    "encryption_key",
    "endpoint",
    "identity_endpoint",
    "msi_resource_id",
    "object_id",
    "skip_signature",
    "tenant_id",
    "use_emulator",
];

/// Options of Google that are credentials, or choose them.
const GOOGLE_CREDENTIALS: [&str; 4] = [
    "application_credentials",
    "bearer_token",
    "service_account",
    "service_account_key",
];

/// The other options of Google.
const GOOGLE: [&str; 2] = ["endpoint", "skip_signature"];

/// Options that are URLs.
const URLS: [&str; 4] = ["authority_host", "endpoint", "endpoint_url_sts", "metadata_endpoint"];

/// Options whose values no text may contain.
const SECRETS: [&str; 9] = [
    "secret_access_key",
    "session_token",
    "sse_customer_key_base64",
    "account_key",
    "bearer_token",
    "client_secret",
    "encryption_key",
    "sas_token",
    "service_account_key",
];

impl Cloud {
    fn credentials(self) -> &'static [&'static str] {
        match self {
            Self::S3 => &S3_CREDENTIALS,
            Self::Azure => &AZURE_CREDENTIALS,
            Self::Google => &GOOGLE_CREDENTIALS,
        }
    }

    fn others(self) -> &'static [&'static str] {
        match self {
            Self::S3 => &S3,
            Self::Azure => &AZURE,
            Self::Google => &GOOGLE,
        }
    }

    /// The name of an option without what an environment puts before it, in one of its spellings.
    fn plain(self, name: &str) -> String {
        let name = name.to_ascii_lowercase();
        let prefixes: &[&str] = match self {
            Self::S3 => &["aws_"],
            Self::Azure => &["azure_storage_", "azure_"],
            Self::Google => &["google_"],
        };
        let plain = prefixes
            .iter()
            .find_map(|prefix| name.strip_prefix(prefix))
            .unwrap_or(&name);
        let same = match (self, plain) {
            (Self::S3, "token") => "session_token",
            (Self::S3, "default_region") => "region",
            (_, "endpoint_url" | "endpoint_url_s3" | "base_url") => "endpoint",
            (Self::Azure, "account") => "account_name",
            (Self::Azure, "access_key" | "master_key" | "key") => "account_key",
            (Self::Azure, "sas_key") => "sas_token",
            (Self::Azure, "token") => "bearer_token",
            (Self::Azure, "authority_id") => "tenant_id",
            (Self::Azure, "msi_endpoint") => "identity_endpoint",
            (Self::Google, "service_account_path") => "service_account",
            _ => plain,
        };
        same.to_owned()
    }

    /// True if an environment variable may be an option of this cloud.
    fn owns_variable(self, name: &str) -> bool {
        match self {
            Self::S3 => name.starts_with("AWS_"),
            Self::Azure => name.starts_with("AZURE_") || name == "IDENTITY_ENDPOINT",
            Self::Google => name.starts_with("GOOGLE_") || name == "SERVICE_ACCOUNT",
        }
    }
}

/// The options of a store.
#[derive(Clone)]
pub(super) struct Settings {
    /// The values by the plain names of the options.
    pub(super) values: BTreeMap<String, String>,
    pub(super) timeout: Duration,
    pub(super) connect_timeout: Duration,
    pub(super) ca_file: Option<String>,
}

impl Settings {
    /// The given options, then the environment, then the profile of AWS. Credentials come from one of them only.
    pub(super) fn of(
        cloud: Cloud,
        given: &[(String, String)],
        variables: &BTreeMap<String, String>,
    ) -> Result<Self, OpenError> {
        let mut values = BTreeMap::new();
        for (name, value) in given {
            let plain = cloud.plain(name);
            let known = [cloud.credentials(), cloud.others(), &OWN];
            if !known.iter().any(|names| names.contains(&plain.as_str())) {
                let mut names = known.concat();
                names.sort_unstable();
                let name = name.escape_default();
                return Err(OpenError::new(format!(
                    "there is no option `{name}` for this store; the options are {}",
                    names.join(", ")
                )));
            }
            values.insert(plain, value.clone());
        }
        let chosen =
            |values: &BTreeMap<String, String>| cloud.credentials().iter().any(|name| values.contains_key(*name));
        let with_credentials = !chosen(&values);
        // In reverse, the more special name comes first: `AWS_ENDPOINT_URL_S3`, `AWS_REGION` and not the default one.
        for (name, value) in variables.iter().rev().filter(|(name, _)| cloud.owns_variable(name)) {
            let plain = match name.as_str() {
                "AWS_PROFILE" => continue,
                _ => cloud.plain(name),
            };
            let credential = cloud.credentials().contains(&plain.as_str());
            if (credential && with_credentials) || cloud.others().contains(&plain.as_str()) {
                values.entry(plain).or_insert_with(|| value.clone());
            }
        }
        if let Some(text) = values.remove("connection_string") {
            add_connection_string(&mut values, &text);
        }
        let profile_named = values.remove("profile");
        if cloud == Cloud::S3 {
            let with_keys = !chosen(&values);
            for (name, value) in profile::read(profile_named.as_deref(), |name| variables.get(name).cloned()) {
                if with_keys || name == "region" {
                    values.entry(name).or_insert(value);
                }
            }
            if profile_named.is_some() && !chosen(&values) {
                let text = "the profile has no keys; a profile with a role or a sign-in is not supported";
                return Err(OpenError::new(text));
            }
        }
        for name in URLS {
            values.get(name).map_or(Ok(()), |value| check_url(name, value))?;
        }
        let mut time = |name: &str, default| values.remove(name).map_or(Ok(default), |value| duration(name, &value));
        Ok(Self {
            timeout: time("timeout", Duration::from_secs(10))?,
            connect_timeout: time("connect_timeout", CONNECT)?,
            ca_file: values.remove("ca_file"),
            values,
        })
    }

    /// True if the store is reached without TLS: an endpoint that says so, and the emulator of Azure.
    pub(super) fn is_plain_http(&self) -> bool {
        let endpoint = self.values.get("endpoint");
        let is_plain = |endpoint: &String| endpoint.to_ascii_lowercase().starts_with("http://");
        self.uses_emulator() || endpoint.is_some_and(is_plain)
    }

    /// True if the store is the emulator of Azure. The client takes the same words for yes.
    pub(super) fn uses_emulator(&self) -> bool {
        let value = self.values.get("use_emulator").map(|value| value.to_ascii_lowercase());
        matches!(value.as_deref(), Some("1" | "true" | "on" | "yes" | "y"))
    }

    /// The values that no text may contain, also as they stand in URLs.
    pub(super) fn secrets(&self) -> Vec<String> {
        let found = SECRETS.iter().filter_map(|name| self.values.get(*name));
        let parts = found.flat_map(|value| {
            let decoded = percent_encoding::percent_decode_str(value)
                .decode_utf8_lossy()
                .into_owned();
            let encoded = percent_encoding::utf8_percent_encode(&decoded, percent_encoding::NON_ALPHANUMERIC);
            [value.clone(), encoded.to_string(), decoded]
        });
        parts.collect()
    }
}

/// Checks a URL, which the client takes as it is.
fn check_url(name: &str, value: &str) -> Result<(), OpenError> {
    let uri = value.parse::<http::Uri>().ok();
    let valid = uri
        .as_ref()
        .and_then(http::Uri::authority)
        .is_some_and(|host| !host.as_str().contains('@'));
    let scheme = uri.as_ref().and_then(http::Uri::scheme_str);
    if valid && matches!(scheme, Some("http" | "https")) && !value.contains('?') {
        return Ok(());
    }
    Err(OpenError::new(format!(
        "the option `{name}` is a URL such as https://host:port, without a user and a query"
    )))
}

/// Adds the parts of a connection string of Azure that are not given yet.
fn add_connection_string(values: &mut BTreeMap<String, String>, text: &str) {
    for (name, value) in text.split(';').filter_map(|part| part.split_once('=')) {
        let option = match name.trim().to_ascii_lowercase().as_str() {
            "accountname" => "account_name",
            "accountkey" => "account_key",
            "sharedaccesssignature" => "sas_token",
            "blobendpoint" => "endpoint",
            _ => continue,
        };
        values
            .entry(option.to_owned())
            .or_insert_with(|| value.trim().to_owned());
    }
}

#[cfg(test)]
mod tests;
