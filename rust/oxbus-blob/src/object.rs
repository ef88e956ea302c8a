// SPDX-License-Identifier: Apache-2.0
//! Object storage: S3 and what speaks its protocol, Azure Blob Storage, Google Cloud Storage.
//!
//! A create and a swap are one conditional PUT each, and no request is ever repeated. The version is the entity tag, on
//! Google the generation. **The entity tag of S3 depends on the content alone**: who swaps writes bytes that the blob
//! never had, or a reader takes an old version for the new one.
//!
//! Credentials are the given options; without one, those of the environment (`AWS_*`, `AZURE_*`, `GOOGLE_*`); then on
//! AWS the keys of a profile (see `profile`); then the identity that the machine has.

mod answers;
mod build;
mod emulator;
mod http;
mod options;
mod place;
mod profile;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path;
use object_store::{
    GetOptions, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, PutResult, UpdateVersion,
};

use crate::key::{check_key, check_prefix};
use crate::open::OpenError;
use crate::text::{clean, with_causes};
use crate::{Answer, Blob, BlobError, BlobListing, BlobStore, Version, tls};
use answers::{Request, meaning};
use emulator::EmulatorContainer;
use options::Settings;
use place::{Cloud, Place};

/// Blobs in object storage.
pub struct ObjectStorage {
    objects: Arc<dyn ObjectStore>,
    listings: Arc<dyn PaginatedListStore>,
    emulator: Option<EmulatorContainer>,
    place: Place,
    url: String,
    timeout: Duration,
    secrets: Vec<String>,
}

impl fmt::Debug for ObjectStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ObjectStorage").field(&self.url).finish()
    }
}

impl ObjectStorage {
    /// Opens a place in object storage, without a request to it. Reads files: certificates and the profiles of AWS.
    pub fn open(url: &str, options: &[(String, String)]) -> Result<Self, OpenError> {
        let place = Place::of(url)?;
        let variables =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let settings = Settings::of(place.cloud, options, &variables.collect())?;
        let connector = http::Connector(tls::checked(tls::roots(settings.ca_file.as_deref())?));
        let secrets = settings.secrets();
        let built = build::built(&place, &settings, connector);
        let built = built.map_err(|error| {
            let cause = match &error {
                object_store::Error::Generic { source, .. } => with_causes(source.as_ref()),
                _ => with_causes(&error),
            };
            OpenError::new(format!("the store cannot be opened: {}", clean(&cause, &secrets)))
        })?;
        Ok(Self {
            objects: built.objects,
            listings: built.listings,
            emulator: built.emulator,
            url: url.trim_end_matches('/').to_owned(),
            place,
            timeout: settings.timeout,
            secrets,
        })
    }

    fn path(&self, key: &str) -> Result<Path, BlobError> {
        check_key(key)?;
        let path = Path::parse(format!("{}{key}", self.place.prefix));
        path.map_err(|error| BlobError::Other(error.to_string()))
    }

    /// The answer to a request. In an emulator, the first one creates the container.
    async fn answer<T>(
        &self,
        request: Request,
        asked: impl Future<Output = object_store::Result<T>> + Send,
    ) -> Result<T, BlobError> {
        if let Some(emulator) = &self.emulator {
            let create = self.timed(Request::Create, emulator.create());
            emulator.ensure(create).await?;
        }
        self.timed(request, asked).await
    }

    /// Waits for an answer, as long as the options allow.
    async fn timed<T>(
        &self,
        request: Request,
        asked: impl Future<Output = object_store::Result<T>> + Send,
    ) -> Result<T, BlobError> {
        match tokio::time::timeout(self.timeout, asked).await {
            Ok(answer) => answer.map_err(|error| meaning(request, &error, &self.place.container, &self.secrets)),
            Err(_) => Err(BlobError::Unavailable(format!("no answer in {:?}", self.timeout))),
        }
    }

    async fn put(&self, request: Request, key: &str, bytes: Bytes, mode: PutMode) -> Result<Version, BlobError> {
        let path = self.path(key)?;
        let options = PutOptions::from(mode);
        let asked = self.objects.put_opts(&path, PutPayload::from(bytes), options);
        let PutResult { e_tag, version, .. } = self.answer(request, asked).await?;
        self.version(e_tag, version)
    }

    /// The blob whose key is this prefix: the client's listings of Azure leave it out.
    async fn named_by_prefix(&self, prefix: &str) -> Result<Option<BlobListing>, BlobError> {
        let path = self.path(prefix)?;
        match self.answer(Request::Read, self.objects.head(&path)).await {
            Ok(object) => Ok(Some(BlobListing {
                key: prefix.to_owned(),
                bytes: object.size,
            })),
            Err(BlobError::Missing) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The version of a blob, of the words that the store gives.
    fn version(&self, e_tag: Option<String>, generation: Option<String>) -> Result<Version, BlobError> {
        let found = match self.place.cloud {
            Cloud::Google => generation,
            Cloud::S3 | Cloud::Azure => e_tag,
        };
        let unversioned = || BlobError::Other("the store gave no version of the object".to_owned());
        found.map(Version).ok_or_else(unversioned)
    }
}

impl BlobStore for ObjectStorage {
    fn create<'a>(&'a self, key: &'a str, bytes: Bytes) -> Answer<'a, Version> {
        Box::pin(self.put(Request::Create, key, bytes, PutMode::Create))
    }

    fn swap<'a>(&'a self, key: &'a str, bytes: Bytes, version: &'a Version) -> Answer<'a, Version> {
        let known = Some(version.0.clone());
        let expected = match self.place.cloud {
            Cloud::Google => UpdateVersion {
                e_tag: None,
                version: known,
            },
            Cloud::S3 | Cloud::Azure => UpdateVersion {
                e_tag: known,
                version: None,
            },
        };
        Box::pin(self.put(Request::Swap, key, bytes, PutMode::Update(expected)))
    }

    fn read<'a>(&'a self, key: &'a str) -> Answer<'a, Blob> {
        Box::pin(async move {
            let path = self.path(key)?;
            let asked = async {
                let found = self.objects.get_opts(&path, GetOptions::default()).await?;
                let data = found.meta.clone();
                Ok((data, found.bytes().await?))
            };
            let (data, bytes) = self.answer(Request::Read, asked).await?;
            Ok(Blob {
                bytes,
                version: self.version(data.e_tag, data.version)?,
                modified: Some(data.last_modified.into()),
            })
        })
    }

    fn read_range<'a>(&'a self, key: &'a str, range: Range<u64>) -> Answer<'a, Bytes> {
        Box::pin(async move {
            let path = self.path(key)?;
            if range.is_empty() {
                return Ok(Bytes::new());
            }
            let bytes = range.end - range.start;
            let found = self.answer(Request::Read, self.objects.get_range(&path, range)).await?;
            if found.len() as u64 != bytes {
                return Err(BlobError::Other("the range is not in the object".to_owned()));
            }
            Ok(found)
        })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Answer<'a, Vec<BlobListing>> {
        Box::pin(async move {
            check_prefix(prefix)?;
            let full = format!("{}{prefix}", self.place.prefix);
            let mut found = Vec::new();
            let mut page_token = None;
            loop {
                let options = PaginatedListOptions {
                    page_token,
                    ..PaginatedListOptions::default()
                };
                let page = self
                    .answer(Request::List, self.listings.list_paginated(Some(&full), options))
                    .await?;
                found.extend(page.result.objects.iter().filter_map(|object| {
                    let key = object.location.as_ref().strip_prefix(&self.place.prefix)?;
                    key.starts_with(prefix).then(|| BlobListing {
                        key: key.to_owned(),
                        bytes: object.size,
                    })
                }));
                page_token = page.page_token;
                if page_token.is_none() {
                    break;
                }
            }
            if self.place.cloud == Cloud::Azure && !full.is_empty() && !full.ends_with('/') {
                found.extend(self.named_by_prefix(prefix).await?);
            }
            found.sort_by(|one, other| one.key.cmp(&other.key));
            Ok(found)
        })
    }

    fn delete<'a>(&'a self, key: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            let path = self.path(key)?;
            match self.answer(Request::Delete, self.objects.delete(&path)).await {
                Err(BlobError::Missing) => Ok(()),
                answer => answer,
            }
        })
    }

    fn url(&self) -> String {
        self.url.clone()
    }
}

#[cfg(test)]
mod tests;
