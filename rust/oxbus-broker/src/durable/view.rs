// SPDX-License-Identifier: Apache-2.0
//! Opens a directory to look at it. What the namespace writes stays in memory, so no delivery is charged and no file
//! changes; only the lock file of the owner is written, which keeps other processes out meanwhile.

use std::path::Path;
use std::sync::Arc;

use oxbus_model::Result;
use oxbus_model::options::Durability;
use oxbus_store::file::{OverlayDisk, ReadOnlyDisk};

use super::inspect::check_namespace;
use super::open::{StoreOptions, own};

impl StoreOptions {
    /// The options of a view of the namespace at `path`, which no process may have open.
    pub fn view(path: &Path) -> Result<Self> {
        check_namespace(&ReadOnlyDisk, path)?;
        Ok(Self {
            path: path.to_owned(),
            durability: Durability::Os,
            owned: None,
            disk: Some(Arc::new(OverlayDisk::new(own(path)?))),
            segment_bytes: None,
        })
    }
}
