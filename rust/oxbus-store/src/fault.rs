// SPDX-License-Identifier: Apache-2.0
//! A simulated file system in memory with injected errors, process kills and power cuts.
//!
//! It counts the calls that change it, and [`FaultDisk::fail_at`] makes one of them fail. After
//! [`SimulatedFault::PowerCut`] and [`SimulatedFault::Kill`] every later call fails too. [`FaultDisk::after_kill`] is
//! the disk that the next process finds. [`FaultDisk::after_power_cut`] is one of the possible disks after a power
//! cut: each unsynced write is present, absent or partly present, and each unsynced name is present or absent.
//!
//! For the tests of this project; not part of the public API.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use oxbus_model::sync::ignore_poison;
use oxbus_system::{DISK_FAILED, DISK_FULL};

use crate::disk::{Disk, DiskFile};

/// A fault of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SimulatedFault {
    /// The call fails with this error number and has no effect, except that a failed sync discards the unsynced
    /// changes.
    Errno(i32),
    /// A write stores half of its bytes and returns that number.
    ShortWrite,
    /// The process dies before the call.
    Kill,
    /// The power fails during the call.
    PowerCut,
}

/// Bytes of the smallest unit that a power cut may lose on its own.
const SECTOR_BYTES: usize = 512;

#[derive(Debug, Clone, Default)]
struct FileContent {
    /// The bytes that the operating system shows.
    cached: Vec<u8>,
    /// The bytes on the disk.
    stored: Vec<u8>,
    /// Changes since the last sync, in order.
    pending: Vec<UnsyncedChange>,
}

#[derive(Debug, Clone)]
enum UnsyncedChange {
    /// Bytes written at a position.
    Write(u64, Vec<u8>),
    /// A truncation to this length.
    Truncate(u64),
}

#[derive(Debug, Default)]
struct FaultDiskState {
    files: Vec<FileContent>,
    names: BTreeMap<PathBuf, usize>,
    stored_names: BTreeMap<PathBuf, usize>,
    calls: u64,
    faults: Vec<(u64, SimulatedFault)>,
    crashed: bool,
    /// A write fails if it would make the total size of all files exceed this many bytes.
    capacity_bytes: Option<u64>,
}

/// The simulated file system. Clones share their state. Like a disk, it keeps its content after a panic.
#[derive(Debug, Clone, Default)]
pub struct FaultDisk(Arc<Mutex<FaultDiskState>>);

/// A small random generator for the choices of a power cut.
struct PowerCutRng(u64);

impl PowerCutRng {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

fn put(bytes: &mut Vec<u8>, position: u64, new: &[u8]) {
    let end = position as usize + new.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[position as usize..end].copy_from_slice(new);
}

fn not_found(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{}", path.display()))
}

impl FaultDisk {
    /// An empty disk without faults.
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, FaultDiskState> {
        ignore_poison(self.0.lock())
    }

    /// The number of changing calls so far.
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Makes changing call number `call` fail. The first call has number 0.
    pub fn fail_at(&self, call: u64, fault: SimulatedFault) {
        self.state().faults.push((call, fault));
    }

    /// Removes pending faults. The number of calls may depend on the program's threads, so a fault may still be
    /// pending at the end.
    pub fn end_faults(&self) {
        self.state().faults.clear();
    }

    /// Limits the total size of all files. `None` removes the limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().capacity_bytes = bytes;
    }

    /// True after a kill or a power cut.
    pub fn has_crashed(&self) -> bool {
        self.state().crashed
    }

    /// The disk that the next process finds after this process dies.
    #[must_use]
    pub fn after_kill(&self) -> Self {
        let state = self.state();
        let files = state
            .files
            .iter()
            .map(|it| FileContent {
                cached: it.cached.clone(),
                stored: it.stored.clone(),
                pending: it.pending.clone(),
            })
            .collect();
        Self(Arc::new(Mutex::new(FaultDiskState {
            files,
            names: state.names.clone(),
            stored_names: state.stored_names.clone(),
            ..FaultDiskState::default()
        })))
    }

    /// A possible disk after a power cut; `seed` selects which one.
    #[must_use]
    pub fn after_power_cut(&self, seed: u64) -> Self {
        let state = self.state();
        let mut rng = PowerCutRng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5851_F42D);
        let mut names = state.stored_names.clone();
        // Each unsynced name is kept or lost on its own.
        for (path, file) in &state.names {
            if names.get(path) != Some(file) && rng.below(2) == 0 {
                names.retain(|_, known| known != file);
                names.insert(path.clone(), *file);
            }
        }
        for path in state.stored_names.keys() {
            if !state.names.contains_key(path) && rng.below(2) == 0 {
                names.remove(path);
            }
        }
        let files = state
            .files
            .iter()
            .map(|file| {
                let mut stored = file.stored.clone();
                for change in &file.pending {
                    let (position, bytes) = match change {
                        UnsyncedChange::Write(position, bytes) => (position, bytes),
                        UnsyncedChange::Truncate(len) => {
                            if rng.below(2) == 0 {
                                stored.truncate(*len as usize);
                            }
                            continue;
                        }
                    };
                    for (index, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
                        let at = position + (index * SECTOR_BYTES) as u64;
                        match rng.below(4) {
                            0 => {}
                            1 => put(&mut stored, at, &sector[..rng.below(sector.len() as u64) as usize]),
                            _ => put(&mut stored, at, sector),
                        }
                    }
                }
                FileContent {
                    cached: stored.clone(),
                    stored,
                    pending: Vec::new(),
                }
            })
            .collect();
        Self(Arc::new(Mutex::new(FaultDiskState {
            files,
            stored_names: names.clone(),
            names,
            ..FaultDiskState::default()
        })))
    }

    /// The bytes of a file.
    pub fn bytes(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state();
        let file = *state.names.get(path)?;
        Some(state.files[file].cached.clone())
    }

    /// Replaces the bytes of a file and syncs them. Tests use it to damage files.
    pub fn set_bytes(&self, path: &Path, bytes: Vec<u8>) {
        let mut state = self.state();
        let Some(&file) = state.names.get(path) else { return };
        state.files[file] = FileContent {
            cached: bytes.clone(),
            stored: bytes,
            pending: Vec::new(),
        };
    }

    /// The paths of all files.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.state().names.keys().cloned().collect()
    }
}

impl FaultDiskState {
    /// Counts a changing call and returns its fault, if any.
    fn call(&mut self) -> io::Result<Option<SimulatedFault>> {
        if self.crashed {
            return Err(io::Error::from_raw_os_error(DISK_FAILED));
        }
        let call = self.calls;
        self.calls += 1;
        let fault = self.faults.iter().find(|(at, _)| *at == call).map(|(_, fault)| *fault);
        match fault {
            Some(SimulatedFault::Kill) => {
                self.crashed = true;
                Err(io::Error::from_raw_os_error(DISK_FAILED))
            }
            Some(SimulatedFault::PowerCut) => {
                self.crashed = true;
                Ok(fault)
            }
            other => Ok(other),
        }
    }

    /// Counts a call that takes effect completely or not at all, and returns its fault as an error.
    fn whole_call(&mut self) -> io::Result<()> {
        match self.call()? {
            Some(SimulatedFault::Errno(errno)) => Err(io::Error::from_raw_os_error(errno)),
            Some(SimulatedFault::PowerCut) => Err(io::Error::from_raw_os_error(DISK_FAILED)),
            _ => Ok(()),
        }
    }

    fn bytes(&self) -> u64 {
        self.names
            .values()
            .map(|file| self.files[*file].cached.len() as u64)
            .sum()
    }
}

impl Disk for FaultDisk {
    fn create_dir(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = self.state();
        let names = state.names.keys().filter(|path| path.parent() == Some(dir));
        Ok(names
            .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
            .collect())
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.state();
        state.whole_call()?;
        if state.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.files.push(FileContent::default());
        let file = state.files.len() - 1;
        state.names.insert(path.to_owned(), file);
        Ok(Arc::new(FaultFile {
            disk: self.clone(),
            file,
        }))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let state = self.state();
        let file = *state.names.get(path).ok_or_else(|| not_found(path))?;
        Ok(Arc::new(FaultFile {
            disk: self.clone(),
            file,
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.whole_call()?;
        let file = state.names.remove(from).ok_or_else(|| not_found(from))?;
        state.names.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.whole_call()?;
        state.names.remove(path).ok_or_else(|| not_found(path))?;
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.whole_call()?;
        let inside = |path: &PathBuf| path.parent() == Some(dir);
        let names = state.names.clone();
        state.stored_names.retain(|path, _| !inside(path));
        state
            .stored_names
            .extend(names.into_iter().filter(|(path, _)| inside(path)));
        Ok(())
    }

    fn free_bytes(&self, _dir: &Path) -> io::Result<u64> {
        let state = self.state();
        Ok(state
            .capacity_bytes
            .map_or(u64::MAX, |max| max.saturating_sub(state.bytes())))
    }
}

#[derive(Debug)]
struct FaultFile {
    disk: FaultDisk,
    file: usize,
}

impl DiskFile for FaultFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.state().files[self.file].cached.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let state = self.disk.state();
        let bytes = &state.files[self.file].cached;
        let rest = bytes.get(position as usize..).unwrap_or(&[]);
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        let mut state = self.disk.state();
        let fault = state.call()?;
        let grows = (position + bytes.len() as u64).saturating_sub(state.files[self.file].cached.len() as u64);
        if state
            .capacity_bytes
            .is_some_and(|max| grows > 0 && state.bytes() + grows > max)
        {
            return Err(io::Error::from_raw_os_error(DISK_FULL));
        }
        let written = match fault {
            Some(SimulatedFault::Errno(errno)) => return Err(io::Error::from_raw_os_error(errno)),
            Some(SimulatedFault::ShortWrite) if bytes.len() > 1 => bytes.len() / 2,
            _ => bytes.len(),
        };
        let file = &mut state.files[self.file];
        put(&mut file.cached, position, &bytes[..written]);
        file.pending
            .push(UnsyncedChange::Write(position, bytes[..written].to_vec()));
        if fault == Some(SimulatedFault::PowerCut) {
            return Err(io::Error::from_raw_os_error(DISK_FAILED));
        }
        Ok(written)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.whole_call()?;
        let len = state.files[self.file].cached.len() as u64;
        let grows = bytes.saturating_sub(len);
        if state
            .capacity_bytes
            .is_some_and(|max| grows > 0 && state.bytes() + grows > max)
        {
            return Err(io::Error::from_raw_os_error(DISK_FULL));
        }
        if grows > 0 {
            let zeros = vec![0; grows as usize];
            let file = &mut state.files[self.file];
            put(&mut file.cached, len, &zeros);
            file.pending.push(UnsyncedChange::Write(len, zeros));
        }
        Ok(())
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.whole_call()?;
        let file = &mut state.files[self.file];
        file.cached.truncate(bytes as usize);
        file.pending.push(UnsyncedChange::Truncate(bytes));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        let fault = state.call()?;
        let file = &mut state.files[self.file];
        match fault {
            // Like a kernel: the pages are marked clean, and the next sync succeeds without them.
            Some(SimulatedFault::Errno(errno)) => {
                file.pending.clear();
                Err(io::Error::from_raw_os_error(errno))
            }
            Some(SimulatedFault::PowerCut) => Err(io::Error::from_raw_os_error(DISK_FAILED)),
            _ => {
                for change in std::mem::take(&mut file.pending) {
                    match change {
                        UnsyncedChange::Write(position, bytes) => put(&mut file.stored, position, &bytes),
                        UnsyncedChange::Truncate(len) => file.stored.truncate(len as usize),
                    }
                }
                Ok(())
            }
        }
    }
}
