// SPDX-License-Identifier: Apache-2.0
//! The probe with stores that break one rule each.

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;

use super::{ProbeError, probe};
use crate::{Answer, Blob, BlobError, BlobListing, BlobStore, Fault, MemoryStore, Version};

/// A rule that a store breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Breaks {
    Nothing,
    Creates,
    Swaps,
    SwapsOfMissing,
    SwapsCreate,
    Versions,
    /// Writes at the same time do not see each other.
    RaceOfCreates,
    RaceOfSwaps,
    Ranges,
    Listings,
    Deletes,
    Ahead,
    Behind,
    Timeless,
}

#[derive(Debug)]
struct Broken {
    store: MemoryStore,
    breaks: Breaks,
}

impl Broken {
    async fn overwrite(&self, key: &str, bytes: Bytes) -> Result<Version, BlobError> {
        self.store.delete(key).await?;
        self.store.create(key, bytes).await
    }
}

impl BlobStore for Broken {
    fn create<'a>(&'a self, key: &'a str, bytes: Bytes) -> Answer<'a, Version> {
        Box::pin(async move {
            match self.breaks {
                Breaks::Creates => self.overwrite(key, bytes).await,
                Breaks::RaceOfCreates if key.ends_with("/created") => self.overwrite(key, bytes).await,
                _ => self.store.create(key, bytes).await,
            }
        })
    }

    fn swap<'a>(&'a self, key: &'a str, bytes: Bytes, version: &'a Version) -> Answer<'a, Version> {
        Box::pin(async move {
            let missing = key.ends_with("/missing");
            match self.breaks {
                Breaks::Swaps if !missing => self.overwrite(key, bytes).await,
                Breaks::SwapsOfMissing if missing => self.overwrite(key, bytes).await,
                Breaks::SwapsCreate if missing => {
                    self.overwrite(key, bytes).await?;
                    Err(BlobError::Changed)
                }
                Breaks::Versions => {
                    let found = self.store.read(key).await?;
                    self.store.swap(key, bytes, &found.version).await?;
                    Ok(version.clone())
                }
                Breaks::RaceOfSwaps if key.ends_with("/swapped") => self.overwrite(key, bytes).await,
                _ => self.store.swap(key, bytes, version).await,
            }
        })
    }

    fn read<'a>(&'a self, key: &'a str) -> Answer<'a, Blob> {
        Box::pin(async move {
            let mut found = self.store.read(key).await?;
            let modified = found.modified.expect("a time");
            found.modified = match self.breaks {
                Breaks::Ahead => Some(modified + Duration::from_secs(60)),
                Breaks::Behind => Some(modified - Duration::from_secs(60)),
                Breaks::Timeless => None,
                _ => Some(modified),
            };
            Ok(found)
        })
    }

    fn read_range<'a>(&'a self, key: &'a str, range: Range<u64>) -> Answer<'a, Bytes> {
        Box::pin(async move {
            match self.breaks {
                Breaks::Ranges => Ok(self.store.read(key).await?.bytes),
                _ => self.store.read_range(key, range).await,
            }
        })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Answer<'a, Vec<BlobListing>> {
        Box::pin(async move {
            let mut found = self.store.list(prefix).await?;
            if self.breaks == Breaks::Listings {
                found.pop();
            }
            Ok(found)
        })
    }

    fn delete<'a>(&'a self, key: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            match self.breaks {
                Breaks::Deletes => Ok(()),
                _ => self.store.delete(key).await,
            }
        })
    }

    fn url(&self) -> String {
        self.store.url()
    }
}

async fn probed(breaks: Breaks) -> Result<(), ProbeError> {
    let store = MemoryStore::default();
    let broken = Broken {
        store: store.clone(),
        breaks,
    };
    let found = probe(&broken, "salt").await;
    let left = store.list("").await.expect("a listing");
    assert!(left.is_empty() || breaks == Breaks::Deletes, "{breaks:?}: {left:?}");
    found
}

#[tokio::test]
async fn a_good_store_passes() {
    assert_eq!(probed(Breaks::Nothing).await, Ok(()));
}

#[tokio::test]
async fn a_broken_rule_is_named() {
    let cases = [
        (Breaks::Creates, "it created an object that existed already"),
        (Breaks::Swaps, "it replaced an object although its version had changed"),
        (Breaks::SwapsOfMissing, "it replaced an object that did not exist"),
        (Breaks::SwapsCreate, "and yet created it"),
        (Breaks::Versions, "it gave the same version to another content"),
        (
            Breaks::RaceOfCreates,
            "at once that created an object, not exactly one succeeded",
        ),
        (
            Breaks::RaceOfSwaps,
            "at once that replaced one version of an object, not exactly one succeeded",
        ),
        (Breaks::Ranges, "it gave another part"),
        (Breaks::Listings, "it did not list exactly"),
        (Breaks::Deletes, "it deleted an object, and gave it again"),
        (Breaks::Timeless, "it does not say when"),
    ];
    for (breaks, part) in cases {
        let text = probed(breaks).await.expect_err("a broken rule").to_string();
        assert!(text.contains(part), "{breaks:?}: {text}");
        assert!(text.contains("use a store with conditional writes"), "{text}");
    }
}

#[tokio::test]
async fn a_wrong_clock_is_named() {
    let text = probed(Breaks::Ahead).await.expect_err("a wrong clock").to_string();
    assert!(text.contains("s ahead of the clock of this machine"), "{text}");
    let text = probed(Breaks::Behind).await.expect_err("a wrong clock").to_string();
    assert!(text.contains("60.0 s behind the clock of this machine"), "{text}");
}

#[tokio::test]
async fn a_failed_request_is_named() {
    let store = MemoryStore::default();
    store.set_faults(|request, _| {
        if request == "list" || request == "create" {
            Fault::Denied
        } else {
            Fault::None
        }
    });
    let error = probe(&store, "salt").await.expect_err("a failure");
    assert_eq!(
        error,
        ProbeError::Request("creating an object", BlobError::Denied("403".to_owned()))
    );
    assert_eq!(
        error.to_string(),
        "creating an object failed: the store refused the credentials: 403"
    );
}

#[tokio::test]
async fn an_unknown_outcome_in_a_race_is_allowed() {
    let store = MemoryStore::default();
    let mut creates = 0;
    store.set_faults(move |request, key| {
        creates += u32::from(request == "create" && key.ends_with("/created"));
        // The first racer wins, and does not know it.
        let lost = creates == 1 && request == "create" && key.ends_with("/created");
        if lost { Fault::AnswerLost } else { Fault::None }
    });
    assert_eq!(probe(&store, "salt").await, Ok(()));
}
