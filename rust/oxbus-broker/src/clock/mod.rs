// SPDX-License-Identifier: Apache-2.0
//! Clocks and randomness. Only `system` reads real time and the system's randomness.

mod manual;
mod randomness;
mod system;

pub use manual::ManualClock;
pub use randomness::Randomness;
pub use system::{Deadline, Stopwatch, SystemClock, random_bytes, with_timeout};
