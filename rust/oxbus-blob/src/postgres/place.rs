// SPDX-License-Identifier: Apache-2.0
//! The URL and the options of a store in PostgreSQL.

use std::collections::BTreeMap;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use super::tls::Check;
use crate::key::check_key;
use crate::open::{OpenError, duration};
use crate::text::{clean, with_causes};

/// Options that this crate reads, in the URL or beside it.
const OWN: [&str; 8] = [
    "connect_timeout",
    "connections",
    "namespace",
    "password",
    "sslmode",
    "sslrootcert",
    "timeout",
    "user",
];

/// Options that are passed on.
const PASSED_ON: [&str; 7] = [
    "application_name",
    "keepalives",
    "keepalives_idle",
    "options",
    "port",
    "host",
    "target_session_attrs",
];

/// Where a store is, and how to reach it.
pub(super) struct Place {
    pub(super) config: Config,
    pub(super) check: Check,
    pub(super) ca_file: Option<String>,
    /// What the keys begin with.
    pub(super) namespace: String,
    pub(super) timeout: Duration,
    pub(super) connections: usize,
    pub(super) secrets: Vec<String>,
    /// Without credentials.
    pub(super) url: String,
}

impl Place {
    /// Reads a URL and options; an option comes before the same one in the URL.
    pub(super) fn of(url: &str, given: &[(String, String)]) -> Result<Self, OpenError> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let mut values = BTreeMap::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent_decode_str(value).decode_utf8_lossy();
            values.insert(name.to_ascii_lowercase(), value.into_owned());
        }
        values.extend(
            given
                .iter()
                .map(|(name, value)| (name.to_ascii_lowercase(), value.clone())),
        );
        if let Some(name) = values
            .keys()
            .find(|name| !OWN.iter().chain(&PASSED_ON).any(|known| known == *name))
        {
            let mut names = [&OWN[..], &PASSED_ON].concat();
            names.sort_unstable();
            return Err(OpenError::new(format!(
                "there is no option `{}` for PostgreSQL; the options are {}",
                name.escape_default(),
                names.join(", ")
            )));
        }
        let mut secrets: Vec<String> = values.get("password").cloned().into_iter().collect();
        let mut config = parsed(base, &values, &secrets)?;
        if let Some(user) = values
            .remove("user")
            .or_else(|| variable_if(config.get_user().is_none(), "PGUSER"))
        {
            config.user(user);
        }
        if let Some(password) = values
            .remove("password")
            .or_else(|| variable_if(config.get_password().is_none(), "PGPASSWORD"))
        {
            config.password(password);
        }
        secrets.extend(
            config
                .get_password()
                .map(|password| String::from_utf8_lossy(password).into_owned()),
        );
        let (mode, check) = ssl_mode(values.get("sslmode").map_or("prefer", String::as_str))?;
        config.ssl_mode(mode);
        let mut time = |name: &str, default| values.remove(name).map_or(Ok(default), |value| duration(name, &value));
        let timeout = time("timeout", Duration::from_secs(10))?;
        config.connect_timeout(time("connect_timeout", Duration::from_secs(3))?);
        if config.get_target_session_attrs() == TargetSessionAttrs::Any {
            // A standby, too, answers; writes go to the primary.
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        let namespace = values.remove("namespace").unwrap_or_else(|| "oxbus".to_owned());
        check_key(&namespace).map_err(|error| OpenError::new(format!("the option `namespace`: {error}")))?;
        let connections = values.get("connections").map_or(Ok(6), |text| text.parse());
        let connections = connections.ok().filter(|number| (1..=100).contains(number));
        let connections =
            connections.ok_or_else(|| OpenError::new("the option `connections` is a number from 1 to 100"))?;
        Ok(Self {
            url: url_of(&config, &namespace),
            config,
            check,
            ca_file: values.remove("sslrootcert"),
            namespace: format!("{namespace}/"),
            timeout,
            connections,
            secrets,
        })
    }
}

fn variable_if(missing: bool, name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|_| missing)
}

/// The URL and the options that are passed on, as the client reads them.
fn parsed(base: &str, values: &BTreeMap<String, String>, secrets: &[String]) -> Result<Config, OpenError> {
    let passed_on = values.iter().filter(|(name, _)| PASSED_ON.contains(&name.as_str()));
    let query: Vec<String> = passed_on
        .map(|(name, value)| {
            let value = percent_encoding::utf8_percent_encode(value, percent_encoding::NON_ALPHANUMERIC);
            format!("{name}={value}")
        })
        .collect();
    format!("{base}?{}", query.join("&")).parse().map_err(|error| {
        let text = clean(&with_causes(&error), secrets);
        OpenError::new(format!(
            "this is no URL of PostgreSQL, postgresql://user:password@host:port/database: {text}"
        ))
    })
}

fn ssl_mode(text: &str) -> Result<(SslMode, Check), OpenError> {
    match text {
        "disable" => Ok((SslMode::Disable, Check::Nothing)),
        "allow" | "prefer" => Ok((SslMode::Prefer, Check::Nothing)),
        "require" => Ok((SslMode::Require, Check::Nothing)),
        "verify-ca" => Ok((SslMode::Require, Check::Certificate)),
        "verify-full" => Ok((SslMode::Require, Check::CertificateAndName)),
        _ => Err(OpenError::new(
            "the option `sslmode` is disable, prefer, require, verify-ca or verify-full",
        )),
    }
}

/// The URL without credentials.
fn url_of(config: &Config, namespace: &str) -> String {
    let port = |index: usize| match config.get_ports() {
        [one] => *one,
        ports => ports.get(index).copied().unwrap_or(5432),
    };
    let hosts = config.get_hosts().iter().enumerate().map(|(index, host)| match host {
        Host::Tcp(name) if name.contains(':') => format!("[{name}]:{}", port(index)),
        Host::Tcp(name) => format!("{name}:{}", port(index)),
        #[cfg(unix)]
        Host::Unix(path) => format!("{}:{}", path.display().to_string().replace('/', "%2F"), port(index)),
    });
    let hosts = hosts.collect::<Vec<_>>().join(",");
    let database = config.get_dbname().unwrap_or_default();
    format!("postgresql://{hosts}/{database}?namespace={namespace}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio_postgres::config::SslMode;

    use super::{Check, Place};

    fn place(url: &str) -> Place {
        Place::of(url, &[]).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    #[test]
    fn a_url_names_a_place_without_its_credentials() {
        let found = place("postgresql://me:SECRET@db.example:6000/base?namespace=a/b&sslmode=verify-full&timeout=2s");
        assert_eq!(found.url, "postgresql://db.example:6000/base?namespace=a/b");
        assert_eq!(
            (found.namespace.as_str(), found.timeout),
            ("a/b/", Duration::from_secs(2))
        );
        assert_eq!(
            (found.config.get_ssl_mode(), found.check),
            (SslMode::Require, Check::CertificateAndName)
        );
        assert!(found.secrets.contains(&"SECRET".to_owned()));
        let found = place("postgres://one,two:6001/base");
        assert_eq!(found.url, "postgresql://one:5432,two:6001/base?namespace=oxbus");
        #[cfg(unix)]
        assert_eq!(
            place("postgresql:///base?host=/tmp&port=7").url,
            "postgresql://%2Ftmp:7/base?namespace=oxbus"
        );
    }

    #[test]
    fn wrong_urls_say_what_is_wrong() {
        let cases = [
            ("postgresql://me:SECRET@h/d?sslmod=require", "`sslmod`"),
            ("postgresql://me:SECRET@h/d?sslmode=yes", "verify-full"),
            ("postgresql://me:SECRET@h/d?namespace=../x", "`namespace`"),
            ("postgresql://me:SECRET@h/d?connections=0", "`connections`"),
            ("postgresql://me:SECRET@h:port/d", "no URL of PostgreSQL"),
            ("postgresql://h/d?password=SECRET&timeout=x", "`timeout`"),
        ];
        for (url, part) in cases {
            let text = Place::of(url, &[]).err().expect("no place").to_string();
            assert!(text.contains(part) && !text.contains("SECRET"), "{text}");
        }
    }
}
