// SPDX-License-Identifier: Apache-2.0
//! The files: their names, their lengths, and in which objects their bytes are.
//!
//! Invariants
//! - the extents of a file do not overlap and end before its length; bytes outside of them are zeros;
//! - `ObjectUse::live` is the number of bytes of an object that extents refer to; shared bytes count for each file;
//! - a file without a name is kept while it is open.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::change::{Change, FileId};
use super::place::{LaneId, LaneIndex, ObjectKey, Place};

/// Bytes of a file that lie together in an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    /// How many they are.
    pub(super) len: u32,
    /// Where they are.
    pub(super) place: Place,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FileEntry {
    pub(super) len: u64,
    pub(super) extents: BTreeMap<u64, Extent>,
    pub(super) has_name: bool,
    handles: u32,
}

/// What the map knows about an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ObjectUse {
    /// Bytes of the object.
    pub(super) bytes: u32,
    /// Bytes that extents refer to.
    pub(super) live: u64,
}

/// A part of a range of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    /// Where the part begins in the range.
    pub(super) at: usize,
    /// Its bytes.
    pub(super) len: usize,
    /// Where they are.
    pub(super) place: Place,
}

/// The files of a disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FileMap {
    pub(super) directories: BTreeSet<String>,
    pub(super) names: BTreeMap<String, FileId>,
    pub(super) files: HashMap<FileId, FileEntry>,
    pub(super) next_file: u64,
    pub(super) objects: BTreeMap<ObjectKey, ObjectUse>,
    pub(super) lanes: BTreeMap<LaneIndex, LaneId>,
}

impl FileMap {
    /// The short number of a new lane.
    pub(super) fn add_lane(&mut self, lane: LaneId) -> LaneIndex {
        let used: HashSet<LaneIndex> = self.objects.keys().map(|key| key.lane()).collect();
        self.lanes.retain(|index, _| used.contains(index));
        let free = (0..=LaneIndex::MAX).find(|index| !self.lanes.contains_key(index));
        let index = free.expect("fewer than 65,536 lanes have objects");
        self.lanes.insert(index, lane);
        index
    }

    /// The short number of a lane, which is added if it is new.
    pub(super) fn index_of(&mut self, lane: LaneId) -> LaneIndex {
        let known = self.lanes.iter().find(|(_, known)| **known == lane);
        match known.map(|(index, _)| *index) {
            Some(index) => index,
            None => self.add_lane(lane),
        }
    }

    /// The name of a lane in the map.
    pub(super) fn lane(&self, index: LaneIndex) -> Option<LaneId> {
        self.lanes.get(&index).copied()
    }

    /// Counts an object that extents may refer to.
    pub(super) fn add_object(&mut self, key: ObjectKey, bytes: usize) {
        self.objects.entry(key).or_default().bytes = bytes as u32;
    }

    /// Forgets an object that was deleted.
    pub(super) fn remove_object(&mut self, key: ObjectKey) {
        self.objects.remove(&key);
    }

    /// The objects and their uses.
    pub(super) fn objects(&self) -> impl Iterator<Item = (ObjectKey, ObjectUse)> {
        self.objects.iter().map(|(key, usage)| (*key, *usage))
    }

    /// A number for a new file.
    pub(super) fn new_file(&mut self) -> FileId {
        self.next_file += 1;
        FileId(self.next_file)
    }

    /// The file with this name.
    pub(super) fn named(&self, path: &str) -> Option<FileId> {
        self.names.get(path).copied()
    }

    /// The names in a directory, or `None` if there is no such directory.
    pub(super) fn list(&self, directory: &str) -> Option<Vec<String>> {
        let is_root = directory.is_empty();
        let prefix = if is_root {
            String::new()
        } else {
            format!("{directory}/")
        };
        let within = |path: &String| {
            let name = path.strip_prefix(&prefix)?;
            (!name.contains('/')).then(|| name.to_owned())
        };
        let files = self.names.range(prefix.clone()..).map(|(path, _)| path);
        let directories = self.directories.range(prefix.clone()..);
        let begins = |path: &&String| path.starts_with(&prefix);
        let mut found: Vec<String> = files.take_while(begins).filter_map(within).collect();
        found.extend(directories.take_while(begins).filter_map(within));
        (!found.is_empty() || is_root || self.directories.contains(directory)).then_some(found)
    }

    /// True if there is a directory with this name.
    pub(super) fn has_directory(&self, path: &str) -> bool {
        path.is_empty() || self.directories.contains(path)
    }

    /// The length of a file.
    pub(super) fn len(&self, file: FileId) -> Option<u64> {
        self.files.get(&file).map(|entry| entry.len)
    }

    /// Opens a file: it is kept until it is closed, even without a name.
    pub(super) fn open(&mut self, file: FileId) {
        if let Some(entry) = self.files.get_mut(&file) {
            entry.handles += 1;
        }
    }

    /// Closes a file.
    pub(super) fn close(&mut self, file: FileId) {
        if let Some(entry) = self.files.get_mut(&file) {
            entry.handles -= 1;
            self.drop_unused(file);
        }
    }

    /// Applies a change, whose bytes are in the payload of `object`. Changes of files that are gone have no effect.
    pub(super) fn apply(&mut self, change: &Change, object: ObjectKey) {
        match change {
            Change::Directory(path) => {
                self.directories.insert(path.clone());
            }
            Change::Create(file, path) => {
                self.next_file = self.next_file.max(file.0);
                self.remove_name(path);
                let entry = self.files.entry(*file).or_default();
                entry.has_name = true;
                self.names.insert(path.clone(), *file);
            }
            Change::Rename(from, to) => {
                if let Some(file) = self.names.remove(from) {
                    self.remove_name(to);
                    self.names.insert(to.clone(), file);
                }
            }
            Change::Remove(path) => self.remove_name(path),
            Change::Write {
                file,
                position,
                len,
                offset,
            } => {
                let place = Place {
                    object,
                    offset: *offset,
                };
                self.write(*file, *position, Extent { len: *len, place });
            }
            Change::Share {
                file,
                position,
                len,
                lane,
                number,
                offset,
            } => {
                let object = ObjectKey::new(self.index_of(*lane), *number);
                let place = Place {
                    object,
                    offset: *offset,
                };
                self.write(*file, *position, Extent { len: *len, place });
            }
            Change::Clear { file, position, len } => {
                let end = position + len;
                self.cut(*file, *position, end);
                if let Some(entry) = self.files.get_mut(file) {
                    entry.len = entry.len.max(end);
                }
            }
            Change::Length(file, len) => {
                self.cut(*file, *len, u64::MAX);
                if let Some(entry) = self.files.get_mut(file) {
                    entry.len = *len;
                }
            }
        }
    }

    fn remove_name(&mut self, path: &str) {
        if let Some(file) = self.names.remove(path) {
            if let Some(entry) = self.files.get_mut(&file) {
                entry.has_name = false;
            }
            self.drop_unused(file);
        }
    }

    fn drop_unused(&mut self, file: FileId) {
        let is_unused = |entry: &FileEntry| !entry.has_name && entry.handles == 0;
        if self.files.get(&file).is_some_and(is_unused) {
            self.cut(file, 0, u64::MAX);
            self.files.remove(&file);
        }
    }

    pub(super) fn write(&mut self, file: FileId, position: u64, extent: Extent) {
        let end = position + u64::from(extent.len);
        self.cut(file, position, end);
        let Some(entry) = self.files.get_mut(&file) else { return };
        entry.len = entry.len.max(end);
        self.objects.entry(extent.place.object).or_default().live += u64::from(extent.len);
        if let Some((start, before)) = entry.extents.range_mut(..position).next_back()
            && start + u64::from(before.len) == position
            && before.place.object == extent.place.object
            && before.place.offset + before.len == extent.place.offset
        {
            before.len += extent.len;
        } else {
            entry.extents.insert(position, extent);
        }
    }

    /// Forgets the bytes of a file from `start` to `end`.
    fn cut(&mut self, file: FileId, start: u64, end: u64) {
        let Some(entry) = self.files.get_mut(&file) else { return };
        let objects = &mut self.objects;
        let mut release = |extent: &Extent, bytes: u64| {
            if let Some(usage) = objects.get_mut(&extent.place.object) {
                usage.live -= bytes;
            }
        };
        let before = entry.extents.range_mut(..start).next_back();
        if let Some((at, extent)) = before
            && at + u64::from(extent.len) > start
        {
            let extent_end = at + u64::from(extent.len);
            let kept = start - at;
            let after = Extent {
                len: extent_end.saturating_sub(end) as u32,
                place: Place {
                    object: extent.place.object,
                    offset: extent.place.offset + end.saturating_sub(*at).min(u64::from(extent.len)) as u32,
                },
            };
            release(extent, u64::from(extent.len) - kept - u64::from(after.len));
            extent.len = kept as u32;
            if after.len > 0 {
                entry.extents.insert(end, after);
            }
        }
        while let Some((&at, &extent)) = entry.extents.range(start..end).next() {
            entry.extents.remove(&at);
            let extent_end = at + u64::from(extent.len);
            if extent_end > end {
                let skipped = (end - at) as u32;
                release(&extent, u64::from(skipped));
                let place = Place {
                    offset: extent.place.offset + skipped,
                    ..extent.place
                };
                let len = extent.len - skipped;
                entry.extents.insert(end, Extent { len, place });
                break;
            }
            release(&extent, u64::from(extent.len));
        }
    }

    /// True if no byte from `position` on lies in an object, for `len` bytes.
    pub(super) fn is_clear(&self, file: FileId, position: u64, len: u64) -> bool {
        self.pieces(file, position, len as usize).is_empty()
    }

    /// Where the bytes of a range are. What lies between the pieces is zeros.
    pub(super) fn pieces(&self, file: FileId, position: u64, len: usize) -> Vec<Piece> {
        let Some(entry) = self.files.get(&file) else {
            return Vec::new();
        };
        let end = position + len as u64;
        let before = entry.extents.range(..position).next_back();
        let all = before.into_iter().chain(entry.extents.range(position..end));
        let mut pieces = Vec::new();
        for (&at, extent) in all {
            let (from, to) = (at.max(position), (at + u64::from(extent.len)).min(end));
            if from < to {
                pieces.push(Piece {
                    at: (from - position) as usize,
                    len: (to - from) as usize,
                    place: Place {
                        object: extent.place.object,
                        offset: extent.place.offset + (from - at) as u32,
                    },
                });
            }
        }
        pieces
    }

    /// The extents that lie in some objects, with their files and positions.
    pub(super) fn extents_in(&self, objects: &HashSet<ObjectKey>) -> Vec<(FileId, u64, Extent)> {
        let mut found = Vec::new();
        for (file, entry) in &self.files {
            let inside = entry.extents.iter();
            let inside = inside.filter(|(_, extent)| objects.contains(&extent.place.object));
            found.extend(inside.map(|(position, extent)| (*file, *position, *extent)));
        }
        found.sort_unstable_by_key(|(file, position, _)| (*file, *position));
        found
    }
}
