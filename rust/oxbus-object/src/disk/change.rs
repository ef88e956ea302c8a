// SPDX-License-Identifier: Apache-2.0
//! The changes of files, as an object of a lane holds them.

use oxbus_model::varint::{self, VarintReader};

use super::place::LaneId;
use crate::lane::ObjectNumber;

/// The number of a file. It is never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct FileId(pub(super) u64);

/// A change of a file or of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// A directory was created.
    Directory(String),
    /// A file was created.
    Create(FileId, String),
    /// A file has another name, and a file that had that name lost it.
    Rename(String, String),
    /// A file lost its name.
    Remove(String),
    /// Bytes were written.
    Write {
        /// The file.
        file: FileId,
        /// Where the bytes begin in the file.
        position: u64,
        /// How many they are.
        len: u32,
        /// Where they begin in the payload of the object.
        offset: u32,
    },
    /// Bytes became zeros.
    Clear {
        /// The file.
        file: FileId,
        /// Where they begin in the file.
        position: u64,
        /// How many they are.
        len: u64,
    },
    /// The file has another length. New bytes are zeros.
    Length(FileId, u64),
    /// Bytes became those that an object has.
    Share {
        /// The file.
        file: FileId,
        /// Where the bytes begin in the file.
        position: u64,
        /// How many they are.
        len: u32,
        /// The lane of the object.
        lane: LaneId,
        /// Its number.
        number: ObjectNumber,
        /// Where they begin in the payload of the object.
        offset: u32,
    },
}

impl Change {
    /// Appends the change to `out`.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let kind = |out: &mut Vec<u8>, kind: u8| out.push(kind);
        match self {
            Self::Directory(path) => {
                kind(out, 1);
                varint::push_bytes(out, path.as_bytes());
            }
            Self::Create(file, path) => {
                kind(out, 2);
                varint::push(out, file.0);
                varint::push_bytes(out, path.as_bytes());
            }
            Self::Rename(from, to) => {
                kind(out, 3);
                varint::push_bytes(out, from.as_bytes());
                varint::push_bytes(out, to.as_bytes());
            }
            Self::Remove(path) => {
                kind(out, 4);
                varint::push_bytes(out, path.as_bytes());
            }
            Self::Write {
                file,
                position,
                len,
                offset,
            } => {
                kind(out, 5);
                for value in [file.0, *position, u64::from(*len), u64::from(*offset)] {
                    varint::push(out, value);
                }
            }
            Self::Clear { file, position, len } => {
                kind(out, 6);
                for value in [file.0, *position, *len] {
                    varint::push(out, value);
                }
            }
            Self::Length(file, len) => {
                kind(out, 7);
                varint::push(out, file.0);
                varint::push(out, *len);
            }
            Self::Share {
                file,
                position,
                len,
                lane,
                number,
                offset,
            } => {
                kind(out, 8);
                for value in [file.0, *position, u64::from(*len)] {
                    varint::push(out, value);
                }
                out.extend_from_slice(&lane.0);
                varint::push(out, number.0);
                varint::push(out, u64::from(*offset));
            }
        }
    }

    /// Reads the next change. Returns `None` if the bytes are malformed.
    pub(super) fn decode(reader: &mut VarintReader<'_>) -> Option<Self> {
        let text = |reader: &mut VarintReader<'_>| reader.text().map(str::to_owned);
        Some(match reader.take(1)?[0] {
            1 => Self::Directory(text(reader)?),
            2 => Self::Create(FileId(reader.varint()?), text(reader)?),
            3 => Self::Rename(text(reader)?, text(reader)?),
            4 => Self::Remove(text(reader)?),
            5 => Self::Write {
                file: FileId(reader.varint()?),
                position: reader.varint()?,
                len: u32::try_from(reader.varint()?).ok()?,
                offset: u32::try_from(reader.varint()?).ok()?,
            },
            6 => Self::Clear {
                file: FileId(reader.varint()?),
                position: reader.varint()?,
                len: reader.varint()?,
            },
            7 => Self::Length(FileId(reader.varint()?), reader.varint()?),
            8 => Self::Share {
                file: FileId(reader.varint()?),
                position: reader.varint()?,
                len: u32::try_from(reader.varint()?).ok()?,
                lane: LaneId(reader.take(16)?.try_into().ok()?),
                number: ObjectNumber(reader.varint().filter(|number| number >> 48 == 0)?),
                offset: u32::try_from(reader.varint()?).ok()?,
            },
            _ => return None,
        })
    }
}
