// SPDX-License-Identifier: Apache-2.0
//! A store that counts its requests, for figures of cost.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use crate::{Answer, Blob, BlobListing, BlobStore, Version};

/// The names of the requests, in the order of the counters.
const NAMES: [&str; 6] = ["create", "delete", "list", "range", "read", "swap"];

/// A store behind counters. A listing counts as one request, however many pages it has.
#[derive(Debug)]
pub struct CountedStore {
    store: Arc<dyn BlobStore>,
    counters: [AtomicU64; NAMES.len()],
    written: AtomicU64,
}

impl CountedStore {
    /// Counts the requests to a store.
    pub fn new(store: Arc<dyn BlobStore>) -> Self {
        Self {
            store,
            counters: Default::default(),
            written: AtomicU64::new(0),
        }
    }

    /// Requests so far, by name: `create`, `delete`, `list`, `range`, `read`, `swap`.
    pub fn requests(&self) -> BTreeMap<&'static str, u64> {
        let counts = self.counters.iter().map(|counter| counter.load(Ordering::Relaxed));
        NAMES.into_iter().zip(counts).collect()
    }

    /// Bytes of all creates and swaps so far.
    pub fn bytes_written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    fn count(&self, name: &str) {
        let index = NAMES.iter().position(|known| *known == name);
        self.counters[index.expect("a known name")].fetch_add(1, Ordering::Relaxed);
    }

    fn count_write(&self, name: &str, bytes: &Bytes) {
        self.count(name);
        self.written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    }
}

impl BlobStore for CountedStore {
    fn create<'a>(&'a self, key: &'a str, bytes: Bytes) -> Answer<'a, Version> {
        self.count_write("create", &bytes);
        self.store.create(key, bytes)
    }

    fn swap<'a>(&'a self, key: &'a str, bytes: Bytes, version: &'a Version) -> Answer<'a, Version> {
        self.count_write("swap", &bytes);
        self.store.swap(key, bytes, version)
    }

    fn read<'a>(&'a self, key: &'a str) -> Answer<'a, Blob> {
        self.count("read");
        self.store.read(key)
    }

    fn read_range<'a>(&'a self, key: &'a str, range: Range<u64>) -> Answer<'a, Bytes> {
        self.count("range");
        self.store.read_range(key, range)
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Answer<'a, Vec<BlobListing>> {
        self.count("list");
        self.store.list(prefix)
    }

    fn delete<'a>(&'a self, key: &'a str) -> Answer<'a, ()> {
        self.count("delete");
        self.store.delete(key)
    }

    fn url(&self) -> String {
        self.store.url()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;

    use super::CountedStore;
    use crate::{BlobStore, MemoryStore};

    #[tokio::test]
    async fn requests_are_counted_by_name() {
        let store = CountedStore::new(Arc::new(MemoryStore::default()));
        let version = store.create("a", Bytes::from_static(b"one")).await.expect("created");
        store
            .swap("a", Bytes::from_static(b"more"), &version)
            .await
            .expect("swapped");
        store.read_range("a", 0..2).await.expect("read");
        let counts = store.requests();
        assert_eq!(
            (counts["create"], counts["swap"], counts["range"], counts["read"]),
            (1, 1, 1, 0)
        );
        assert_eq!(store.bytes_written(), 7);
    }
}
