// SPDX-License-Identifier: Apache-2.0
//! The interface of a conditional blob store.
//!
//! An operation either happened, did not happen, or has an unknown outcome ([`BlobError::is_unknown`]). A store never
//! repeats a write by itself: a repeated create would find the blob of the first attempt and report that it exists.

use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::time::SystemTime;

use bytes::Bytes;

/// The answer to a request.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, BlobError>> + Send + 'a>>;

/// The version of a blob: an entity tag or a number of the store. It changes with every write of other bytes.
///
/// Some stores compute the version from the bytes. If a blob gets its earlier bytes again, it then has its earlier
/// version again, and a swap cannot see that it changed in between. So never write the same bytes twice under one key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Version(pub String);

/// A blob and its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// The content.
    pub bytes: Bytes,
    /// The version of the content.
    pub version: Version,
    /// When the store says that it was written.
    pub modified: Option<SystemTime>,
}

/// A name in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobListing {
    /// The key.
    pub key: String,
    /// Bytes of the content.
    pub bytes: u64,
}

/// Why a request failed. The texts say what the store answered and never contain a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlobError {
    /// There is no such blob.
    Missing,
    /// The blob exists already.
    Exists,
    /// The blob has another version, or is gone.
    Changed,
    /// The credentials are missing, wrong or expired, or do not allow the request.
    Denied(String),
    /// The bucket, container or table does not exist, or lies elsewhere.
    NoContainer(String),
    /// The store has no space left, or its quota is used up.
    Full(String),
    /// The store did not answer, or asked to try later. The request may have had its effect.
    Unavailable(String),
    /// Something else. The request may have had its effect.
    Other(String),
}

impl BlobError {
    /// True if the request may have had its effect, now or later.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Other(_))
    }
}

impl fmt::Display for BlobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("there is no such object"),
            Self::Exists => f.write_str("the object exists already"),
            Self::Changed => f.write_str("the object has changed"),
            Self::Denied(answer) => write!(f, "the store refused the credentials: {answer}"),
            Self::NoContainer(answer) => write!(f, "the bucket, container or table was not found: {answer}"),
            Self::Full(answer) => write!(f, "the store is full: {answer}"),
            Self::Unavailable(answer) => write!(f, "the store does not answer: {answer}"),
            Self::Other(answer) => f.write_str(answer),
        }
    }
}

impl std::error::Error for BlobError {}

/// A conditional blob store. Keys are relative to the place that the store was opened with; parts are separated by `/`.
///
/// A part has ASCII letters, digits and `-_.=+@~,`, and does not begin with a dot. A key has at most 900 bytes, and is
/// not the beginning of another key up to a `/`. A request with another key fails with [`BlobError::Other`].
pub trait BlobStore: Send + Sync + fmt::Debug {
    /// Creates a blob. Fails with [`BlobError::Exists`] if there is one.
    fn create<'a>(&'a self, key: &'a str, bytes: Bytes) -> Answer<'a, Version>;

    /// Replaces a blob that has this version. Fails with [`BlobError::Changed`] if it has another one or is gone.
    fn swap<'a>(&'a self, key: &'a str, bytes: Bytes, version: &'a Version) -> Answer<'a, Version>;

    /// Reads a blob. Fails with [`BlobError::Missing`] if there is none.
    fn read<'a>(&'a self, key: &'a str) -> Answer<'a, Blob>;

    /// Reads a part of a blob. Fails with [`BlobError::Missing`] if there is no blob. The range lies in the blob.
    fn read_range<'a>(&'a self, key: &'a str, range: Range<u64>) -> Answer<'a, Bytes>;

    /// The blobs whose key begins with `prefix`, in the order of their keys.
    fn list<'a>(&'a self, prefix: &'a str) -> Answer<'a, Vec<BlobListing>>;

    /// Deletes a blob. Succeeds if there is none.
    fn delete<'a>(&'a self, key: &'a str) -> Answer<'a, ()>;

    /// The place of the store, as a URL without credentials.
    fn url(&self) -> String;
}
