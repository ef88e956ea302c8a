// SPDX-License-Identifier: Apache-2.0
//! A call that panics with the buffer ends the log, and nobody waits for what it had begun.

use crate::Wait;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;

#[test]
fn a_panic_with_the_buffer_ends_the_log() {
    let disk = FaultDisk::new();
    let (log, ..) = open(&disk);
    append(&log, Level::Synced).expect("it works");
    log.append(
        Lsn(2),
        &entry(2),
        SpaceClass::Adds,
        Level::Written,
        None,
        &Wait::FOREVER,
    )
    .expect("the buffer takes it");
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut buffer = log.commits.buffer();
        buffer.reserve.clear();
        panic!("asked for by the test");
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
    let (_, shown, _) = open(&disk);
    check_entries(&shown, 1);
    assert_eq!(last_of(&shown), 1, "nothing of the buffer was written");
}
