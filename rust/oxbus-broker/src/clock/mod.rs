// SPDX-License-Identifier: Apache-2.0
//! The clocks, and the one place that reads real time and the system's randomness.

mod manual;
mod randomness;
mod system;

pub use manual::ManualClock;
pub use randomness::Randomness;
pub use system::{Deadline, Stopwatch, SystemClock, random_bytes, with_timeout};
