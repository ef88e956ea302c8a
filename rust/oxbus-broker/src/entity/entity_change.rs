// SPDX-License-Identifier: Apache-2.0
//! A change of the entities of a namespace.
//!
//! Changes are made one after the other, and each waits for the catalog. Calls that look entities up do not wait
//! meanwhile: they find the entities as they were, until the change is applied in one step.

use std::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard};

use oxbus_model::sync::ignore_poison;

use super::EntityMap;

/// A change in progress.
pub(crate) struct EntityChange<'a> {
    entities: &'a RwLock<EntityMap>,
    _turn: MutexGuard<'a, ()>,
}

impl<'a> EntityChange<'a> {
    /// Waits for the changes before it.
    pub(super) fn begin(turn: &'a Mutex<()>, entities: &'a RwLock<EntityMap>) -> Self {
        Self {
            _turn: ignore_poison(turn.lock()),
            entities,
        }
    }

    /// The entities as they are. Nothing else changes them meanwhile.
    pub(crate) fn entities(&self) -> RwLockReadGuard<'_, EntityMap> {
        ignore_poison(self.entities.read())
    }

    /// Changes the entities in one step. It must not wait for a disk or a store.
    pub(crate) fn apply<T>(&self, change: impl FnOnce(&mut EntityMap) -> T) -> T {
        let mut entities = ignore_poison(self.entities.write());
        change(&mut entities)
    }
}
