// SPDX-License-Identifier: Apache-2.0
//! Blobs in a table of PostgreSQL: `oxbus_blobs`, which is created if it does not exist.
//!
//! A create is one INSERT, and a swap is one UPDATE, each its own transaction. The version is the next number of a
//! sequence. A commit waits for the disk, whatever the server's default is.

mod place;
mod pool;
mod tls;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, Row};

use crate::key::{check_key, check_prefix};
use crate::open::OpenError;
use crate::text::{clean, with_causes};
use crate::{Answer, Blob, BlobError, BlobListing, BlobStore, Version};
use place::Place;
use pool::Pool;

const CREATE: &str = "INSERT INTO oxbus_blobs (key, bytes) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING version";

const SWAP: &str = "UPDATE oxbus_blobs SET bytes = $2, version = DEFAULT, modified = DEFAULT
    WHERE key = $1 AND version = $3 RETURNING version";

const READ: &str =
    "SELECT bytes, version, (extract(epoch FROM modified) * 1000)::bigint FROM oxbus_blobs WHERE key = $1";

const READ_RANGE: &str = "SELECT substring(bytes FROM $2 FOR $3) FROM oxbus_blobs WHERE key = $1";

const LIST: &str = "SELECT key, octet_length(bytes)::bigint FROM oxbus_blobs
    WHERE key COLLATE \"C\" >= $1 AND key COLLATE \"C\" < $2 ORDER BY key COLLATE \"C\"";

const DELETE: &str = "DELETE FROM oxbus_blobs WHERE key = $1";

/// A parameter and its type.
type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// Blobs in a table of PostgreSQL.
pub struct PostgresStore {
    pool: Pool,
    namespace: String,
    timeout: Duration,
    url: String,
    secrets: Vec<String>,
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresStore").field(&self.url).finish()
    }
}

impl PostgresStore {
    /// Opens a namespace in a table, without a connection: the first request makes one. Reads certificates.
    pub fn open(url: &str, options: &[(String, String)]) -> Result<Self, OpenError> {
        let place = Place::of(url, options)?;
        let tls = tls::MakeTls(Arc::new(tls::config(place.check, place.ca_file.as_deref())?));
        Ok(Self {
            pool: Pool::new(place.config, tls, place.timeout, place.connections),
            namespace: place.namespace,
            timeout: place.timeout,
            url: place.url,
            secrets: place.secrets,
        })
    }

    fn key(&self, key: &str) -> Result<String, BlobError> {
        check_key(key)?;
        Ok(format!("{}{key}", self.namespace))
    }

    /// Sends one statement. Whatever fails but a statement ends the connection.
    async fn ask(&self, statement: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, BlobError> {
        let asked = async {
            let lent = self.pool.lend().await?;
            let answer = lent.client().query_typed(statement, parameters).await;
            if answer.as_ref().err().is_none_or(|error| error.as_db_error().is_some()) {
                lent.give_back();
            }
            answer
        };
        match tokio::time::timeout(self.timeout, asked).await {
            Ok(answer) => answer.map_err(|error| self.error(&error)),
            Err(_) => Err(BlobError::Unavailable(format!("no answer in {:?}", self.timeout))),
        }
    }

    /// What an error means, by its SQLSTATE.
    fn error(&self, error: &Error) -> BlobError {
        let Some(answer) = error.as_db_error() else {
            let text = clean(&with_causes(error), &self.secrets);
            // Without an answer of the server: the client has no password, or trusts the server with none.
            let of_client = ["authentication error", "invalid configuration"];
            if of_client.iter().any(|part| text.starts_with(part)) {
                return BlobError::Denied(text);
            }
            // The connection failed: at a request, at its start or at its encryption.
            return BlobError::Unavailable(text);
        };
        let code = answer.code().code();
        let text = clean(&format!("{code} {}", answer.message()), &self.secrets);
        meaning(code, text)
    }

    fn value<'a, T: tokio_postgres::types::FromSql<'a>>(&self, row: &'a Row, column: usize) -> Result<T, BlobError> {
        row.try_get(column)
            .map_err(|error| BlobError::Other(clean(&with_causes(&error), &self.secrets)))
    }

    fn version(&self, row: &Row, column: usize) -> Result<Version, BlobError> {
        Ok(Version(self.value::<i64>(row, column)?.to_string()))
    }
}

/// What a SQLSTATE means.
fn meaning(code: &str, text: String) -> BlobError {
    match code {
        // disk_full
        "53100" => BlobError::Full(text),
        // insufficient_privilege, and the class of invalid_authorization_specification
        "42501" => BlobError::Denied(text),
        _ if code.starts_with("28") => BlobError::Denied(text),
        // invalid_catalog_name, undefined_table, invalid_schema_name
        "3D000" | "42P01" | "3F000" => BlobError::NoContainer(text),
        // read_only_sql_transaction: a standby
        "25006" => BlobError::Unavailable(text),
        // Connections, conflicts of transactions, resources, the operator, the system.
        _ if ["08", "40", "53", "55", "57", "58"].contains(&&code[..2]) => BlobError::Unavailable(text),
        _ => BlobError::Other(text),
    }
}

/// The least text that is greater than each text with this beginning. The beginning is ASCII and not empty.
fn after(prefix: &str) -> String {
    let (rest, last) = prefix.split_at(prefix.len() - 1);
    let last = last.bytes().next().expect("one character");
    format!("{rest}{}", char::from(last + 1))
}

impl BlobStore for PostgresStore {
    fn create<'a>(&'a self, key: &'a str, bytes: Bytes) -> Answer<'a, Version> {
        Box::pin(async move {
            let (key, bytes) = (self.key(key)?, bytes.as_ref());
            let rows = self.ask(CREATE, &[(&key, Type::TEXT), (&bytes, Type::BYTEA)]).await?;
            self.version(rows.first().ok_or(BlobError::Exists)?, 0)
        })
    }

    fn swap<'a>(&'a self, key: &'a str, bytes: Bytes, version: &'a Version) -> Answer<'a, Version> {
        Box::pin(async move {
            let (key, bytes) = (self.key(key)?, bytes.as_ref());
            // What is no number is no version of this table.
            let version: i64 = version.0.parse().map_err(|_| BlobError::Changed)?;
            let parameters: [Parameter<'_>; 3] = [(&key, Type::TEXT), (&bytes, Type::BYTEA), (&version, Type::INT8)];
            let rows = self.ask(SWAP, &parameters).await?;
            self.version(rows.first().ok_or(BlobError::Changed)?, 0)
        })
    }

    fn read<'a>(&'a self, key: &'a str) -> Answer<'a, Blob> {
        Box::pin(async move {
            let rows = self.ask(READ, &[(&self.key(key)?, Type::TEXT)]).await?;
            let row = rows.first().ok_or(BlobError::Missing)?;
            let modified = u64::try_from(self.value::<i64>(row, 2)?).ok();
            Ok(Blob {
                bytes: Bytes::copy_from_slice(self.value(row, 0)?),
                version: self.version(row, 1)?,
                modified: modified.map(|ms| SystemTime::UNIX_EPOCH + Duration::from_millis(ms)),
            })
        })
    }

    fn read_range<'a>(&'a self, key: &'a str, range: Range<u64>) -> Answer<'a, Bytes> {
        Box::pin(async move {
            let outside = || BlobError::Other("the range is not in the object".to_owned());
            let first = i32::try_from(range.start + 1).map_err(|_| outside())?;
            let length = i32::try_from(range.end.saturating_sub(range.start)).map_err(|_| outside())?;
            let parameters: [Parameter<'_>; 3] = [
                (&self.key(key)?, Type::TEXT),
                (&first, Type::INT4),
                (&length, Type::INT4),
            ];
            let rows = self.ask(READ_RANGE, &parameters).await?;
            let bytes: &[u8] = self.value(rows.first().ok_or(BlobError::Missing)?, 0)?;
            if bytes.len() != length as usize {
                return Err(outside());
            }
            Ok(Bytes::copy_from_slice(bytes))
        })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Answer<'a, Vec<BlobListing>> {
        Box::pin(async move {
            check_prefix(prefix)?;
            let first = format!("{}{prefix}", self.namespace);
            let rows = self
                .ask(LIST, &[(&first, Type::TEXT), (&after(&first), Type::TEXT)])
                .await?;
            let listing = |row| {
                let key: &str = self.value(row, 0)?;
                Ok(BlobListing {
                    key: key[self.namespace.len()..].to_owned(),
                    bytes: u64::try_from(self.value::<i64>(row, 1)?).unwrap_or_default(),
                })
            };
            rows.iter().map(listing).collect()
        })
    }

    fn delete<'a>(&'a self, key: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            self.ask(DELETE, &[(&self.key(key)?, Type::TEXT)]).await?;
            Ok(())
        })
    }

    fn url(&self) -> String {
        self.url.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::{after, meaning};
    use crate::BlobError;

    #[test]
    fn states_have_a_meaning() {
        let text = || "text".to_owned();
        assert_eq!(meaning("53100", text()), BlobError::Full(text()));
        for code in ["28P01", "28000", "42501"] {
            assert_eq!(meaning(code, text()), BlobError::Denied(text()));
        }
        for code in ["3D000", "42P01"] {
            assert_eq!(meaning(code, text()), BlobError::NoContainer(text()));
        }
        for code in ["08006", "57P01", "57014", "53300", "40001", "40P01", "25006", "58030"] {
            assert_eq!(meaning(code, text()), BlobError::Unavailable(text()));
        }
        assert_eq!(meaning("22001", text()), BlobError::Other(text()));
    }

    #[test]
    fn a_listing_ends_after_its_prefix() {
        assert_eq!(after("oxbus/"), "oxbus0");
        assert_eq!(after("oxbus/a~"), "oxbus/a\u{7f}");
    }
}
