// SPDX-License-Identifier: Apache-2.0
//! What an open found, or why it failed.

use std::fmt;
use std::io;

use oxbus_blob::{BlobError, ProbeError};

use super::manifest::OwnerInfo;

/// Why a namespace in a store could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// Another process has it.
    InUse(OwnerInfo),
    /// A request to the store failed.
    Store(BlobError),
    /// An object is damaged. The text says which, and what to do.
    Damaged(String),
    /// The URL or an option is wrong. The text says what to change.
    Options(String),
    /// The store does not keep the rules.
    Unfit(ProbeError),
    /// A thread or a random number could not be had.
    Io(io::Error),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse(owner) => {
                let OwnerInfo { host, pid, .. } = owner;
                write!(f, "the namespace is in use by the process with pid {pid} on {host}")
            }
            Self::Store(error) => error.fmt(f),
            Self::Damaged(what) | Self::Options(what) => f.write_str(what),
            Self::Unfit(error) => error.fmt(f),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<BlobError> for OpenError {
    fn from(error: BlobError) -> Self {
        Self::Store(error)
    }
}

/// What an open found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Opened {
    /// True if the owner before had not left: its lane was ended.
    pub took_over: bool,
    /// Objects that were read after the checkpoint.
    pub objects: usize,
}
