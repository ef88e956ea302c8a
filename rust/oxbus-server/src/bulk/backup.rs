// SPDX-License-Identifier: Apache-2.0
//! `POST /backup`: the files of the namespace as they are at one moment.
//!
//! The answer is a list of the files and then the contents of those that the caller does not have:
//!
//! ```text
//! u32 bytes of the list, little-endian; the list, JSON; the contents, one after another
//! ```

use std::collections::HashSet;
use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use futures_util::Stream;
use oxbus_broker::backup::{Backup, BackupFile};
use oxbus_model::authorization::AccessRight;
use oxbus_model::caps::BULK_CHUNK_BYTES;
use oxbus_model::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::json;

use super::error::BulkError;
use super::parameters::JsonBody;
use super::{BulkCaller, BulkState, NAMESPACE};
use crate::blocking::run_blocking;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BackupRequest {
    /// Names and fingerprints of files that the caller has.
    known: HashSet<(String, String)>,
}

/// Contents that are still to be sent.
struct Contents {
    backup: Arc<Backup>,
    /// The indices of the files to send, the last one first.
    left: Vec<usize>,
    position: u64,
}

impl Contents {
    /// Reads the next bytes; `None` after the last ones.
    fn next(mut self) -> Result<Option<(Bytes, Self)>> {
        while let Some(file) = self.left.last().map(|index| &self.backup.files()[*index]) {
            let count = (file.bytes - self.position).min(BULK_CHUNK_BYTES as u64) as usize;
            if count == 0 {
                self.left.pop();
                self.position = 0;
                continue;
            }
            let mut bytes = vec![0; count];
            if self.backup.read(file, self.position, &mut bytes)? < count {
                let detail = format!(
                    "a file became shorter during its backup; back up again: `{}`",
                    file.name
                );
                return Err(Error::new(ErrorKind::Storage, detail));
            }
            self.position += count as u64;
            return Ok(Some((bytes.into(), self)));
        }
        Ok(None)
    }
}

pub(super) async fn backup(
    State(state): State<BulkState>,
    Extension(caller): Extension<BulkCaller>,
    JsonBody(request): JsonBody<BackupRequest>,
) -> std::result::Result<Response, BulkError> {
    caller.authorize(AccessRight::Manage, NAMESPACE)?;
    let namespace = state.namespace().clone();
    let backup = run_blocking(move |wait| namespace.backup(wait)).await?;
    let is_sent = |file: &BackupFile| {
        !request
            .known
            .contains(&(file.name.clone(), format!("{:032x}", file.fingerprint)))
    };
    let files = backup.files();
    let left: Vec<usize> = (0..files.len()).rev().filter(|index| is_sent(&files[*index])).collect();
    let listed = files.iter().map(|file| {
        json!({
            "name": file.name,
            "bytes": file.bytes,
            "fingerprint": format!("{:032x}", file.fingerprint),
            "sent": is_sent(file),
        })
    });
    let list = json!({ "files": listed.collect::<Vec<_>>() }).to_string();
    let mut head = Vec::with_capacity(4 + list.len());
    head.extend_from_slice(&(list.len() as u32).to_le_bytes());
    head.extend_from_slice(list.as_bytes());
    let contents = Contents {
        backup: Arc::new(backup),
        left,
        position: 0,
    };
    Ok(Response::new(Body::from_stream(stream(head.into(), contents))))
}

/// The list, then the contents. Each part is read after the previous one has been sent.
fn stream(head: Bytes, contents: Contents) -> impl Stream<Item = Result<Bytes>> {
    futures_util::stream::try_unfold((Some(head), contents), |(head, contents)| async move {
        if let Some(head) = head {
            return Ok(Some((head, (None, contents))));
        }
        let read = run_blocking(move |_| contents.next()).await?;
        Ok(read.map(|(bytes, contents)| (bytes, (None, contents))))
    })
}
