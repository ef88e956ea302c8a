// SPDX-License-Identifier: Apache-2.0
//! Requests to `<entity>/$management` (B-426).

use oxbus_model::{Error, ErrorKind};

use super::call::{Call, Reply};

/// Does what a request asks for.
pub(super) fn answer(call: &Call) -> Reply {
    let asked = call.properties().ok();
    let name = asked
        .as_ref()
        .and_then(|map| map.get("operation"))
        .and_then(|it| it.as_text());
    let detail = format!("this version has no such operation: `{}`", name.unwrap_or_default());
    Reply::of(&Error::new(ErrorKind::NotSupported, detail))
}
