// SPDX-License-Identifier: Apache-2.0
//! Reading files: from what is on its way, from the cache, and from the store.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use oxbus_blob::BlobError;
use oxbus_model::sync::ignore_poison;

use super::Shared;
use super::change::FileId;
use super::file_map::Piece;
use super::object::HEADER_BYTES;
use super::place::{ObjectKey, Place};
use super::requests::{Patience, repeat};
use super::state::WRITE_BYTES_MAX;

/// Bytes that are read from the store at once, at least: the messages around the one that is wanted.
const READ_BYTES_MIN: u64 = 256 << 10;
/// How long to try to read.
const READ_PATIENCE: Duration = Duration::from_secs(30);
/// How often to look again where bytes are, after an object was deleted because they were moved.
const PLANS: usize = 5;

/// A part of a payload to read.
type Wanted = (ObjectKey, String, Range<u64>);

/// What a read needs.
struct Plan {
    /// Bytes that the read returns.
    count: usize,
    /// The pieces that are in the store only.
    missing: Vec<Piece>,
    /// The parts of objects that hold them.
    wanted: Vec<Wanted>,
}

/// Parts of objects, by where they begin.
struct Parts(BTreeMap<(ObjectKey, u64), Bytes>);

impl Parts {
    /// Copies a piece, which one part holds.
    fn copy(&self, piece: &Piece, buffer: &mut [u8]) {
        let start = HEADER_BYTES as u64 + u64::from(piece.place.offset);
        let ((_, part_start), bytes) = self
            .0
            .range(..=(piece.place.object, start))
            .next_back()
            .expect("every piece was fetched");
        let skipped = (start - part_start) as usize;
        buffer[piece.at..][..piece.len].copy_from_slice(&bytes[skipped..][..piece.len]);
    }
}

impl Shared {
    /// Reads up to `buffer.len()` bytes of a file and returns the number read, which is 0 at its end.
    pub(super) fn read(self: &Arc<Self>, file: FileId, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        for _ in 0..PLANS {
            let plan = self.read_what_is_here(file, buffer, position)?;
            match self.fetch(plan.wanted) {
                Ok(parts) => {
                    for piece in &plan.missing {
                        parts.copy(piece, buffer);
                    }
                    return Ok(plan.count);
                }
                Err(BlobError::Missing) => {}
                Err(error) => return Err(as_io(&error)),
            }
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "an object that holds a part of a file is missing from the store; restore it from a copy",
        ))
    }

    /// Copies what is on its way or cached. Returns what is to be fetched.
    fn read_what_is_here(&self, file: FileId, buffer: &mut [u8], position: u64) -> io::Result<Plan> {
        let state = self.state.lock();
        let len = state.map.len(file).ok_or(io::ErrorKind::NotFound)?;
        let count = len.saturating_sub(position).min(buffer.len() as u64) as usize;
        let buffer = &mut buffer[..count];
        buffer.fill(0);
        let mut stored = Vec::new();
        for piece in state.map.pieces(file, position, count) {
            match state.pending_payload(piece.place.object) {
                Some(payload) => {
                    let start = piece.place.offset as usize;
                    buffer[piece.at..][..piece.len].copy_from_slice(&payload[start..][..piece.len]);
                }
                None => stored.push(piece),
            }
        }
        let missing = self.copy_cached(&stored, buffer);
        let mut ranges: BTreeMap<ObjectKey, Vec<Range<u64>>> = BTreeMap::new();
        for Piece { len, place, .. } in &missing {
            let start = HEADER_BYTES as u64 + u64::from(place.offset);
            let of_object = ranges.entry(place.object).or_default();
            of_object.push(start..start + *len as u64);
        }
        let mut wanted = Vec::new();
        for (key, ranges) in ranges {
            let usage = state.map.objects.get(&key).copied().unwrap_or_default();
            let lane = state.map.lane(key.lane()).ok_or(io::ErrorKind::InvalidData)?;
            let name = lane.key(key.number());
            let merged = merge(ranges, u64::from(usage.bytes));
            wanted.extend(merged.into_iter().map(|range| (key, name.clone(), range)));
        }
        Ok(Plan { count, missing, wanted })
    }

    /// Copies the pieces that are cached. Returns the others.
    fn copy_cached(&self, pieces: &[Piece], buffer: &mut [u8]) -> Vec<Piece> {
        let mut cache = ignore_poison(self.cache.lock());
        let mut missing = Vec::new();
        for piece in pieces {
            let mut copied = 0;
            while copied < piece.len {
                let place = Place {
                    offset: piece.place.offset + copied as u32,
                    ..piece.place
                };
                let Some(bytes) = cache.get(place, piece.len - copied) else {
                    missing.push(Piece {
                        at: piece.at + copied,
                        len: piece.len - copied,
                        place,
                    });
                    break;
                };
                buffer[piece.at + copied..][..bytes.len()].copy_from_slice(&bytes);
                copied += bytes.len();
            }
        }
        missing
    }

    /// Fetches parts of objects, all at once.
    fn fetch(self: &Arc<Self>, wanted: Vec<Wanted>) -> Result<Parts, BlobError> {
        let count = wanted.len();
        // Room for every answer: the thread of the store never waits.
        let (sender, answers) = std::sync::mpsc::sync_channel(count);
        for part in wanted {
            let (shared, sender) = (Arc::clone(self), sender.clone());
            self.runtime.spawn(async move {
                // Nobody waits any more if another part could not be read.
                let _ = sender.send(shared.fetch_part(part).await);
            });
        }
        drop(sender);
        let parts: BTreeMap<_, _> = answers.into_iter().collect::<Result<_, _>>()?;
        // The thread of a disk that was closed drops its requests.
        let is_closed = parts.len() < count;
        if is_closed {
            Err(BlobError::Other("the namespace is closed".to_owned()))
        } else {
            Ok(Parts(parts))
        }
    }

    async fn fetch_part(&self, (key, name, range): Wanted) -> Result<((ObjectKey, u64), Bytes), BlobError> {
        let _permit = self.reads.acquire().await;
        let patience = Patience {
            limit: READ_PATIENCE,
            pause: self.options.retry_pause,
        };
        let bytes = repeat(patience, || self.store.read_range(&name, range.clone())).await?;
        self.cache_part(key, range.start, bytes.clone());
        Ok(((key, range.start), bytes))
    }

    /// Keeps bytes that begin at `start` in an object.
    pub(super) fn cache_part(&self, object: ObjectKey, start: u64, bytes: Bytes) {
        let offset = (start - HEADER_BYTES as u64) as u32;
        ignore_poison(self.cache.lock()).add(Place { object, offset }, bytes);
    }

    /// Writes the bytes of files that lie in some objects again, so that the objects hold nothing.
    pub(super) async fn move_extents(self: &Arc<Self>, objects: &HashSet<ObjectKey>) {
        let extents = self.state.lock().map.extents_in(objects);
        for (file, position, extent) in extents {
            let shared = Arc::clone(self);
            // Reading and writing wait, which this thread must not.
            let moved = tokio::task::spawn_blocking(move || {
                let mut bytes = vec![0; extent.len as usize];
                shared.read(file, &mut bytes, position)?;
                for (index, part) in bytes.chunks(WRITE_BYTES_MAX).enumerate() {
                    let moved = index * WRITE_BYTES_MAX;
                    let from = Piece {
                        at: 0,
                        len: part.len(),
                        place: Place {
                            offset: extent.place.offset + moved as u32,
                            ..extent.place
                        },
                    };
                    let position = position + moved as u64;
                    let mut state = shared.state.lock_for_change()?;
                    // Unless it was overwritten or removed meanwhile.
                    if state.map.pieces(file, position, part.len()) == [from] {
                        state.write(file, position, part);
                    }
                }
                io::Result::Ok(())
            });
            if !matches!(moved.await, Ok(Ok(()))) {
                return;
            }
            self.work.notify_one();
        }
    }
}

/// Joins ranges that lie close to each other, and extends short ones within an object of `end` bytes.
fn merge(mut ranges: Vec<Range<u64>>, end: u64) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        let extended = range.start..range.end.max((range.start + READ_BYTES_MIN).min(end));
        match merged.last_mut() {
            Some(last) if range.start <= last.end + READ_BYTES_MIN / 4 => last.end = last.end.max(extended.end),
            _ => merged.push(extended),
        }
    }
    merged
}

/// The error of a file for an error of the store.
pub(super) fn as_io(error: &BlobError) -> io::Error {
    let kind = match error {
        BlobError::Missing => io::ErrorKind::NotFound,
        BlobError::Full(_) => io::ErrorKind::StorageFull,
        BlobError::Denied(_) => io::ErrorKind::PermissionDenied,
        BlobError::Unavailable(_) => io::ErrorKind::TimedOut,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error.to_string())
}
