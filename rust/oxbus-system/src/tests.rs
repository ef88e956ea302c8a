// SPDX-License-Identifier: Apache-2.0
//! What each system promises.

#![expect(
    clippy::disallowed_methods,
    reason = "the clocks are compared with those of the standard library"
)]

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::*;

fn scratch(name: &str) -> (std::path::PathBuf, File) {
    let path = std::env::temp_dir().join(format!("oxbus-system-{name}-{}", std::process::id()));
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(true).open(&path);
    (path, file.expect("the file can be made"))
}

#[test]
fn bytes_are_read_where_they_were_written() {
    let (path, file) = scratch("bytes");
    assert_eq!(write_at(&file, b"later", 100).expect("written"), 5);
    assert_eq!(write_at(&file, b"early", 0).expect("written"), 5);
    sync(&file).expect("synced");
    sync_names(path.parent().expect("a folder")).expect("synced");
    let mut bytes = [0; 8];
    assert_eq!(read_at(&file, &mut bytes, 100).expect("read"), 5);
    assert_eq!(&bytes[..5], b"later");
    assert_eq!(read_at(&file, &mut bytes, 105).expect("read"), 0, "the end of the file");
    std::fs::remove_file(path).expect("removed");
}

#[test]
fn allocated_space_is_zeros_after_what_was_there() {
    let (path, file) = scratch("allocated");
    write_at(&file, b"before", 0).expect("written");
    if allocate(&file, 1 << 20).expect("there is space") {
        assert_eq!(file.metadata().expect("metadata").len(), 1 << 20);
        allocate(&file, 1 << 10).expect("less than there is");
        assert_eq!(file.metadata().expect("metadata").len(), 1 << 20, "never shorter");
        let mut bytes = [1; 7];
        read_at(&file, &mut bytes, 0).expect("read");
        assert_eq!(&bytes, b"before\0");
    }
    assert!(free_bytes(&std::env::temp_dir()).expect("known") > 0);
    std::fs::remove_file(path).expect("removed");
}

#[test]
fn an_address_names_an_absolute_path() {
    let dir = std::env::temp_dir();
    let text = dir.to_str().expect("UTF-8").replace('\\', "/");
    let address = if text.starts_with('/') {
        text
    } else {
        format!("/{text}")
    };
    assert!(std::path::Path::new(path_of_address(&address)).is_dir(), "{address}");
}

#[test]
fn ticks_follow_the_exact_clock() {
    let lag = clock_lag_ms();
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let exact = since.as_millis() as u64;
    assert!(wall_ms().abs_diff(exact) < 1_000);
    let (tick, now) = (tick_wall_ms(), wall_ms());
    assert!(tick <= now && now - tick <= lag + 1_000, "{tick} {now}");
    let (first, started) = (tick_ms(), Instant::now());
    std::thread::sleep(Duration::from_millis(50));
    let (passed, real) = (tick_ms() - first, started.elapsed().as_millis() as u64);
    assert!(passed + lag + 1 >= 50 && passed <= real + lag + 1, "{passed} {real}");
}

#[test]
fn a_pair_of_sockets_does_not_block() {
    let (mut one, mut other) = socket_pair().expect("two sockets");
    let error = other.read(&mut [0]).expect_err("there is nothing to read");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    one.write_all(&[7]).expect("written");
    let mut byte = [0];
    while let Err(error) = other.read_exact(&mut byte) {
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    }
    assert_eq!(byte, [7]);
    assert!(socket_number(&one) >= 0);
}
