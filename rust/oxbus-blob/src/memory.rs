// SPDX-License-Identifier: Apache-2.0
//! Blobs in memory, with the faults of a real store, for tests: requests that fail before or after their effect, and
//! creations that arrive again later.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use crate::key::{check_key, check_prefix};
use crate::{Answer, Blob, BlobError, BlobListing, BlobStore, Version};

/// What happens to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is answered as it should be.
    None,
    /// It has no effect, and the answer is that the store is unavailable.
    Lost,
    /// It has its effect, and the answer is lost.
    AnswerLost,
    /// It has no effect now, the answer is lost, and it arrives at a later request.
    Late,
    /// It has its effect and is answered, and arrives once more at a later request.
    Twice,
    /// The store has no space.
    Full,
    /// The store refuses the credentials.
    Denied,
}

/// Decides what happens to a request, by its name (`create`, `swap`, `read`, `range`, `list`, `delete`) and its key.
type Faults = Box<dyn FnMut(&str, &str) -> Fault + Send>;

/// A blob.
struct Stored {
    bytes: Bytes,
    version: u64,
    modified_ms: u64,
}

#[derive(Default)]
struct Content {
    blobs: BTreeMap<String, Stored>,
    next_version: u64,
    late: VecDeque<Write>,
}

/// The way of a client to the blobs.
#[derive(Default)]
struct Way {
    faults: Option<Faults>,
    requests: BTreeMap<String, u64>,
    /// Bytes that reads returned.
    bytes_read: u64,
}

/// A write that a fault may delay.
#[derive(Debug, Clone)]
enum Write {
    Create(String, Bytes),
    Swap(String, Bytes, Version),
    Delete(String),
}

/// Blobs in memory. Clones share them, and their faults.
#[derive(Clone, Default)]
pub struct MemoryStore {
    content: Arc<Mutex<Content>>,
    way: Arc<Mutex<Way>>,
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MemoryStore")
    }
}

impl Content {
    fn apply(&mut self, write: Write) -> Result<Version, BlobError> {
        let (key, bytes) = match write {
            Write::Create(key, _) if self.blobs.contains_key(&key) => return Err(BlobError::Exists),
            Write::Create(key, bytes) => (key, bytes),
            Write::Swap(key, bytes, version) => match self.blobs.get(&key) {
                Some(found) if found.version.to_string() == version.0 => (key, bytes),
                _ => return Err(BlobError::Changed),
            },
            Write::Delete(key) => {
                self.blobs.remove(&key);
                return Ok(Version(String::new()));
            }
        };
        self.next_version += 1;
        let stored = Stored {
            bytes,
            version: self.next_version,
            modified_ms: oxbus_system::wall_ms(),
        };
        self.blobs.insert(key, stored);
        Ok(Version(self.next_version.to_string()))
    }
}

impl MemoryStore {
    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().expect("no request panics")
    }

    fn way(&self) -> MutexGuard<'_, Way> {
        self.way.lock().expect("no fault panics")
    }

    fn fault(&self, request: &str, key: &str) -> Fault {
        let mut way = self.way();
        *way.requests.entry(request.to_owned()).or_default() += 1;
        way.faults.as_mut().map_or(Fault::None, |faults| faults(request, key))
    }

    /// The same blobs for another client, which has no faults yet.
    #[must_use]
    pub fn another_client(&self) -> Self {
        Self {
            content: Arc::clone(&self.content),
            way: Arc::default(),
        }
    }

    /// Decides the fault of each later request of this client.
    pub fn set_faults(&self, faults: impl FnMut(&str, &str) -> Fault + Send + 'static) {
        self.way().faults = Some(Box::new(faults));
    }

    /// Requests of this client so far, by name.
    pub fn requests(&self) -> BTreeMap<String, u64> {
        self.way().requests.clone()
    }

    /// Bytes that this client has read so far.
    pub fn bytes_read(&self) -> u64 {
        self.way().bytes_read
    }

    /// Bytes of all blobs.
    pub fn bytes(&self) -> u64 {
        self.content()
            .blobs
            .values()
            .map(|found| found.bytes.len() as u64)
            .sum()
    }

    /// Writes that were delayed arrive now.
    pub fn deliver_late(&self) {
        let mut content = self.content();
        while let Some(write) = content.late.pop_front() {
            // Nobody waits for the answer.
            let _ = content.apply(write);
        }
    }

    fn write(&self, request: &str, key: &str, write: Write) -> Result<Version, BlobError> {
        check_key(key)?;
        let lost = || Err(BlobError::Unavailable("the answer was lost".to_owned()));
        let fault = self.fault(request, key);
        if fault == Fault::None && !self.content().late.is_empty() {
            self.deliver_late();
        }
        let mut content = self.content();
        match fault {
            Fault::None => content.apply(write),
            Fault::Lost => lost(),
            Fault::AnswerLost => {
                let _ = content.apply(write);
                lost()
            }
            Fault::Late => {
                content.late.push_back(write);
                lost()
            }
            Fault::Twice => {
                content.late.push_back(write.clone());
                content.apply(write)
            }
            Fault::Full => Err(BlobError::Full("no space".to_owned())),
            Fault::Denied => Err(BlobError::Denied("403".to_owned())),
        }
    }

    fn get(&self, request: &str, key: &str) -> Result<Blob, BlobError> {
        check_key(key)?;
        match self.fault(request, key) {
            Fault::None | Fault::Twice | Fault::Full => {}
            Fault::Denied => return Err(BlobError::Denied("403".to_owned())),
            _ => return Err(BlobError::Unavailable("the answer was lost".to_owned())),
        }
        let content = self.content();
        let found = content.blobs.get(key).ok_or(BlobError::Missing)?;
        Ok(Blob {
            bytes: found.bytes.clone(),
            version: Version(found.version.to_string()),
            modified: Some(SystemTime::UNIX_EPOCH + Duration::from_millis(found.modified_ms)),
        })
    }
}

impl BlobStore for MemoryStore {
    fn create<'a>(&'a self, key: &'a str, bytes: Bytes) -> Answer<'a, Version> {
        Box::pin(async move { self.write("create", key, Write::Create(key.to_owned(), bytes)) })
    }

    fn swap<'a>(&'a self, key: &'a str, bytes: Bytes, version: &'a Version) -> Answer<'a, Version> {
        Box::pin(async move { self.write("swap", key, Write::Swap(key.to_owned(), bytes, version.clone())) })
    }

    fn read<'a>(&'a self, key: &'a str) -> Answer<'a, Blob> {
        Box::pin(async move {
            let blob = self.get("read", key)?;
            self.way().bytes_read += blob.bytes.len() as u64;
            Ok(blob)
        })
    }

    fn read_range<'a>(&'a self, key: &'a str, range: Range<u64>) -> Answer<'a, Bytes> {
        Box::pin(async move {
            let blob = self.get("range", key)?;
            self.way().bytes_read += range.end - range.start;
            Ok(blob.bytes.slice(range.start as usize..range.end as usize))
        })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Answer<'a, Vec<BlobListing>> {
        Box::pin(async move {
            check_prefix(prefix)?;
            let content = self.content();
            let found = content.blobs.range(prefix.to_owned()..);
            let found = found.take_while(|(key, _)| key.starts_with(prefix));
            Ok(found
                .map(|(key, found)| BlobListing {
                    key: key.clone(),
                    bytes: found.bytes.len() as u64,
                })
                .collect())
        })
    }

    fn delete<'a>(&'a self, key: &'a str) -> Answer<'a, ()> {
        Box::pin(async move { self.write("delete", key, Write::Delete(key.to_owned())).map(drop) })
    }

    fn url(&self) -> String {
        "memory://".to_owned()
    }
}
