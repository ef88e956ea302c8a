// SPDX-License-Identifier: Apache-2.0
//! Deleting the objects of a lane that snapshots cover.

use super::ObjectNumber;

/// What may be deleted of a lane. Only its writer uses it, and only for objects that are acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LaneTrimmer {
    /// Snapshots cover all objects below this number.
    covered: ObjectNumber,
    /// The floor that is stored.
    floor: ObjectNumber,
    /// Objects below this number are deleted.
    deleted: ObjectNumber,
}

impl Default for LaneTrimmer {
    fn default() -> Self {
        let none = ObjectNumber(0);
        Self {
            covered: none,
            floor: none,
            deleted: none,
        }
    }
}

impl LaneTrimmer {
    /// Snapshots cover all objects below `number`, which are acknowledged.
    pub fn covered(&mut self, number: ObjectNumber) {
        self.covered = self.covered.max(number);
    }

    /// The floor to store, if it is to rise.
    pub fn floor_to_store(&self) -> Option<ObjectNumber> {
        (self.covered > self.floor).then_some(self.covered)
    }

    /// The floor was stored.
    pub fn floor_stored(&mut self, floor: ObjectNumber) {
        self.floor = self.floor.max(floor);
    }

    /// The next object to delete: below the stored floor only.
    pub fn to_delete(&self) -> Option<ObjectNumber> {
        (self.deleted < self.floor).then_some(self.deleted)
    }

    /// The object was deleted, or was not there.
    pub fn deleted(&mut self, number: ObjectNumber) {
        if number == self.deleted {
            self.deleted = number.next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_deleted_before_the_floor_is_stored() {
        let mut trimmer = LaneTrimmer::default();
        trimmer.covered(ObjectNumber(2));
        assert_eq!(trimmer.to_delete(), None);
        assert_eq!(trimmer.floor_to_store(), Some(ObjectNumber(2)));
        trimmer.floor_stored(ObjectNumber(2));
        for number in [0, 1] {
            assert_eq!(trimmer.to_delete(), Some(ObjectNumber(number)));
            trimmer.deleted(ObjectNumber(number));
        }
        assert_eq!((trimmer.to_delete(), trimmer.floor_to_store()), (None, None));
    }
}
