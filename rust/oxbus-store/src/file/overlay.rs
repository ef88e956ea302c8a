// SPDX-License-Identifier: Apache-2.0
//! A view of the machine's file system: what is written stays in memory, and the files stay as they are.
//!
//! A namespace that is opened with it recovers as any other does, and its directory does not change.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use oxbus_model::sync::ignore_poison;

use super::owner::Owner;
use super::read_only::ReadOnlyDisk;
use crate::disk::{Disk, DiskFile};

const PIECE_BYTES: u64 = 16 << 10;

/// A view of a directory. It owns the directory, so that no other process changes what it reads.
#[derive(Debug)]
pub struct OverlayDisk {
    /// The files that differ from those of the directory; `None` for one that is removed. A panic leaves it consistent:
    /// a file is replaced in one step.
    changed: Mutex<BTreeMap<PathBuf, Option<Arc<OverlayFile>>>>,
    _owner: Owner,
}

impl OverlayDisk {
    /// A view of a directory that this process owns.
    pub fn new(owner: Owner) -> Self {
        Self {
            changed: Mutex::default(),
            _owner: owner,
        }
    }

    fn changed(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Option<Arc<OverlayFile>>>> {
        ignore_poison(self.changed.lock())
    }
}

fn missing<T>() -> io::Result<T> {
    Err(io::ErrorKind::NotFound.into())
}

impl Disk for OverlayDisk {
    fn create_dir(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let changed = self.changed();
        let own: Vec<(&PathBuf, bool)> = changed
            .iter()
            .filter(|(path, _)| path.parent() == Some(dir))
            .map(|(path, file)| (path, file.is_some()))
            .collect();
        let mut names = match ReadOnlyDisk.list(dir) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !own.is_empty() => Vec::new(),
            Err(error) => return Err(error),
        };
        names.retain(|name| !changed.contains_key(&dir.join(name)));
        let there = own.into_iter().filter(|(_, is_there)| *is_there);
        names.extend(there.filter_map(|(path, _)| path.file_name()?.to_str().map(str::to_owned)));
        Ok(names)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut changed = self.changed();
        let is_there = match changed.get(path) {
            Some(file) => file.is_some(),
            None => ReadOnlyDisk.open(path).is_ok(),
        };
        if is_there {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = Arc::new(OverlayFile::new(None)?);
        changed.insert(path.to_owned(), Some(Arc::clone(&file)));
        Ok(file)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut changed = self.changed();
        match changed.get(path) {
            Some(Some(file)) => Ok(Arc::<OverlayFile>::clone(file)),
            Some(None) => missing(),
            None => {
                let file = Arc::new(OverlayFile::new(Some(ReadOnlyDisk.open(path)?))?);
                changed.insert(path.to_owned(), Some(Arc::clone(&file)));
                Ok(file)
            }
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.open(from)?;
        let mut changed = self.changed();
        let file = changed.insert(from.to_owned(), None).flatten();
        changed.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.open(path)?;
        self.changed().insert(path.to_owned(), None);
        Ok(())
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn free_bytes(&self, _dir: &Path) -> io::Result<u64> {
        Ok(u64::MAX)
    }
}

/// A file of the directory, or a new one, with what was written to it.
#[derive(Debug)]
struct OverlayFile {
    base: Option<Arc<dyn DiskFile>>,
    /// A panic leaves it consistent: pieces are whole before they are added.
    state: Mutex<FileState>,
}

#[derive(Debug, Default)]
struct FileState {
    len: u64,
    /// Bytes of the base that were never cut off.
    base_len: u64,
    /// Written pieces by their place.
    pieces: BTreeMap<u64, Box<[u8]>>,
}

impl OverlayFile {
    fn new(base: Option<Arc<dyn DiskFile>>) -> io::Result<Self> {
        let len = base.as_ref().map_or(Ok(0), |base| base.len())?;
        Ok(Self {
            base,
            state: Mutex::new(FileState {
                len,
                base_len: len,
                pieces: BTreeMap::new(),
            }),
        })
    }

    fn state(&self) -> MutexGuard<'_, FileState> {
        ignore_poison(self.state.lock())
    }

    /// Fills a buffer from the base. Beyond its end, bytes are zeros.
    fn read_base(&self, state: &FileState, buffer: &mut [u8], position: u64) -> io::Result<()> {
        buffer.fill(0);
        let there = state.base_len.saturating_sub(position).min(buffer.len() as u64) as usize;
        if let Some(base) = self.base.as_ref().filter(|_| there > 0) {
            base.read_full_at(&mut buffer[..there], position)?;
        }
        Ok(())
    }
}

impl DiskFile for OverlayFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state().len)
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let state = self.state();
        let within = position % PIECE_BYTES;
        let left = state.len.saturating_sub(position).min(PIECE_BYTES - within);
        let count = left.min(buffer.len() as u64) as usize;
        match state.pieces.get(&(position / PIECE_BYTES)) {
            Some(piece) => buffer[..count].copy_from_slice(&piece[within as usize..][..count]),
            None => self.read_base(&state, &mut buffer[..count], position)?,
        }
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        let mut state = self.state();
        let (place, within) = (position / PIECE_BYTES, (position % PIECE_BYTES) as usize);
        let count = bytes.len().min(PIECE_BYTES as usize - within);
        if !state.pieces.contains_key(&place) {
            let mut piece = vec![0; PIECE_BYTES as usize].into_boxed_slice();
            self.read_base(&state, &mut piece, place * PIECE_BYTES)?;
            state.pieces.insert(place, piece);
        }
        if let Some(piece) = state.pieces.get_mut(&place) {
            piece[within..][..count].copy_from_slice(&bytes[..count]);
        }
        state.len = state.len.max(position + count as u64);
        Ok(count)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.state();
        state.len = state.len.max(bytes);
        Ok(())
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.state();
        state.len = bytes;
        state.base_len = state.base_len.min(bytes);
        let kept = bytes.div_ceil(PIECE_BYTES);
        state.pieces.retain(|place, _| *place < kept);
        if let Some(last) = state.pieces.get_mut(&(bytes / PIECE_BYTES)) {
            last[(bytes % PIECE_BYTES) as usize..].fill(0);
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::OverlayDisk;
    use crate::disk::{Disk, DiskFile};
    use crate::file::Owner;

    fn content(file: &(dyn DiskFile + 'static)) -> Vec<u8> {
        let mut bytes = vec![0; file.len().expect("a length") as usize];
        file.read_full_at(&mut bytes, 0).expect("read");
        bytes
    }

    #[test]
    fn writes_are_seen_and_the_directory_stays_as_it_is() {
        let dir = std::env::temp_dir().join(format!("oxbus-overlay-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("created");
        std::fs::write(dir.join("a"), vec![7; 40_000]).expect("written");
        let disk = OverlayDisk::new(Owner::acquire(&dir).expect("owned"));
        let file = disk.open(&dir.join("a")).expect("opened");
        file.write_all_at(&vec![1; 20_000], 10_000).expect("written");
        file.truncate(35_000).expect("cut");
        file.allocate(50_000).expect("allocated");
        let expected = [vec![7; 10_000], vec![1; 20_000], vec![7; 5_000], vec![0; 15_000]].concat();
        assert!(content(&*file) == expected);
        disk.create(&dir.join("b"))
            .expect("created")
            .write_all_at(b"new", 0)
            .expect("written");
        disk.rename(&dir.join("b"), &dir.join("c")).expect("renamed");
        disk.remove(&dir.join("a")).expect("removed");
        let mut names = disk.list(&dir).expect("listed");
        names.retain(|name| name != "owner");
        assert_eq!(names, ["c"]);
        assert!(disk.open(&dir.join("a")).is_err() && disk.create(&dir.join("c")).is_err());
        assert_eq!(content(&*disk.open(&dir.join("c")).expect("opened")), b"new");
        assert_eq!(std::fs::read(dir.join("a")).expect("read"), vec![7; 40_000]);
        assert!(!Path::new(&dir.join("c")).exists());
        drop(disk);
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
