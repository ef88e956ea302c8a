// SPDX-License-Identifier: Apache-2.0
//! How long a create takes: `put_times URL [name=value]...`. One request at a time; the blobs are deleted afterwards.

#![expect(clippy::print_stdout, reason = "a command prints its figures")]

use bytes::Bytes;
use oxbus_blob::open;

/// Creates of each size.
const CREATES: usize = 300;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("give the URL of a store")?;
    let options = arguments.filter_map(|option| {
        let (name, value) = option.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    });
    let store = open(&url, &options.collect::<Vec<_>>()).await?;
    println!("{}", store.url());
    for kib in [1_usize, 100] {
        let folder = format!("put-times/{:x}-{kib}", oxbus_system::wall_ms());
        let mut micros = Vec::new();
        for number in 0..CREATES {
            let key = format!("{folder}/{number:06}");
            // No two blobs have the same bytes.
            let mut bytes = vec![(number % 251) as u8; kib << 10];
            bytes[..8].copy_from_slice(&number.to_be_bytes());
            let start = oxbus_system::instant();
            store.create(&key, Bytes::from(bytes)).await?;
            micros.push(start.elapsed().as_micros());
        }
        for number in 0..CREATES {
            store.delete(&format!("{folder}/{number:06}")).await?;
        }
        micros.sort_unstable();
        let at = |percent: usize| micros[CREATES * percent / 100] as f64 / 1_000.0;
        println!("{kib:>4} KiB: p50 {:.2} ms, p99 {:.2} ms", at(50), at(99));
    }
    Ok(())
}
