// SPDX-License-Identifier: Apache-2.0
//! A panic while the buffer is locked ends the log, and waiting callers get an error.

use crate::Wait;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;

#[test]
fn a_panic_with_the_buffer_ends_the_log() {
    let disk = FaultDisk::new();
    let (log, ..) = open(&disk);
    append(&log, Level::Synced).expect("appended");
    log.append(
        Lsn(2),
        &entry(2),
        SpaceClass::Adds,
        Level::Written,
        None,
        &Wait::FOREVER,
    )
    .expect("buffered");
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut buffer = log.commits.buffer();
        buffer.reserve.clear();
        panic!("the test panics");
    }));
    assert!(panicked.is_err());
    assert!(log.has_ended());
    let failed = LogFailure::Panicked;
    assert_eq!(
        log.commit(Lsn(2), Level::Written, &Wait::FOREVER),
        Err(AppendError::Unknown(failed))
    );
    assert_eq!(append(&log, Level::Written), Err(AppendError::Unavailable(failed)));
    drop(log);
    let (_, content, _) = open(&disk);
    check_entries(&content, 1);
    assert_eq!(last_of(&content), 1, "no buffered entry was written");
}
