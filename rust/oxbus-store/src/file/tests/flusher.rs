// SPDX-License-Identifier: Apache-2.0
//! The flusher threads sync logs that no caller waits for.

use super::*;
use crate::Wait;
use crate::fault::SimulatedFault;

#[test]
fn the_flusher_syncs_entries_without_waiters() {
    let disk = FaultDisk::new();
    let (log, ..) = open(&disk);
    let log = Arc::new(log);
    let flusher = Flusher::start(2, std::time::Duration::from_millis(1)).expect("started");
    flusher.add(&log);
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let done: LevelCallback = Box::new(move |result| sender.send(result).expect("the test receives"));
    log.append(
        Lsn(1),
        b"one",
        SpaceClass::Adds,
        Level::Synced,
        Some(done),
        &Wait::FOREVER,
    )
    .expect("appended");
    assert_eq!(
        receiver.recv_timeout(std::time::Duration::from_secs(60)),
        Ok(Ok(Lsn(1)))
    );
    drop(flusher);
    let (_, content, _) = open(&disk.after_power_cut(3));
    assert_eq!(last_of(&content), 1);
}

#[test]
fn a_failed_disk_does_not_stop_the_flusher() {
    let (broken, sound) = (FaultDisk::new(), FaultDisk::new());
    let (first, ..) = open(&broken);
    let (second, ..) = open(&sound);
    let (first, second) = (Arc::new(first), Arc::new(second));
    // One thread serves both logs.
    let flusher = Flusher::start(1, std::time::Duration::from_millis(1)).expect("started");
    flusher.add(&first);
    flusher.add(&second);
    broken.fail_at(broken.calls(), SimulatedFault::Errno(5));
    let (sender, receiver) = std::sync::mpsc::sync_channel(2);
    for (log, number) in [(&first, 1u8), (&second, 2)] {
        let ended = sender.clone();
        let done: LevelCallback =
            Box::new(move |result| ended.send((number, result.is_ok())).expect("the test receives"));
        // The flusher may hit the failure first.
        if log
            .append(
                Lsn(1),
                b"one",
                SpaceClass::Adds,
                Level::Synced,
                Some(done),
                &Wait::FOREVER,
            )
            .is_err()
        {
            sender.send((number, false)).expect("the test receives");
        }
    }
    let mut ended = [(); 2].map(|()| {
        receiver
            .recv_timeout(std::time::Duration::from_secs(60))
            .expect("both end")
    });
    ended.sort_unstable();
    assert_eq!(ended, [(1, false), (2, true)]);
}
