// SPDX-License-Identifier: Apache-2.0
//! `POST /backup`: the files of the namespace as they are at one moment.
//!
//! The answer is a list of the files and then the contents of those that the caller does not have:
//!
//! ```text
//! u32 bytes of the list, little-endian; the list, JSON; the contents, one after another
//! ```
//!
//! A task reads the contents and passes them on piece by piece. If the client takes nothing for a while, the task ends,
//! and with it what keeps the files: replaced ones would fill the disk.

use std::collections::HashSet;
use std::time::Duration;

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
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::error::BulkError;
use super::parameters::JsonBody;
use super::{BulkCaller, BulkState, NAMESPACE, RequestPermit};
use crate::blocking::run_blocking;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BackupRequest {
    /// Names and fingerprints of files that the caller has.
    known: HashSet<(String, String)>,
}

/// Contents that are still to be sent.
struct Contents {
    backup: Backup,
    _permit: RequestPermit,
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
    Extension(permit): Extension<RequestPermit>,
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
        backup,
        _permit: permit,
        left,
        position: 0,
    };
    let pause = state.limits().backup_pause();
    let (sender, pieces) = mpsc::channel(1);
    tokio::spawn(read_all(contents, sender, pause));
    Ok(Response::new(Body::from_stream(stream(head.into(), pieces, pause))))
}

/// A piece of the contents, or `None` after the last one.
type Piece = Result<Option<Bytes>>;

/// Reads the contents, at most two pieces ahead of the client. Ends if the client takes nothing for longer than `pause`.
async fn read_all(mut contents: Contents, pieces: mpsc::Sender<Piece>, pause: Duration) {
    loop {
        let (piece, rest) = match run_blocking(move |_| contents.next()).await {
            Ok(Some((bytes, rest))) => (Ok(Some(bytes)), Some(rest)),
            Ok(None) => (Ok(None), None),
            Err(error) => (Err(error), None),
        };
        let is_sent = matches!(timeout(pause, pieces.send(piece)).await, Ok(Ok(())));
        match rest {
            Some(rest) if is_sent => contents = rest,
            _ => return,
        }
    }
}

/// The list, then the contents.
fn stream(head: Bytes, pieces: mpsc::Receiver<Piece>, pause: Duration) -> impl Stream<Item = Result<Bytes>> {
    futures_util::stream::try_unfold((Some(head), pieces), move |(head, mut pieces)| async move {
        if let Some(head) = head {
            return Ok(Some((head, (None, pieces))));
        }
        match pieces.recv().await {
            Some(piece) => Ok(piece?.map(|bytes| (bytes, (None, pieces)))),
            None => Err(ended(pause)),
        }
    })
}

fn ended(pause: Duration) -> Error {
    let detail = format!(
        "the client took nothing of the backup for {} s, so the server ended it; back up again",
        pause.as_secs()
    );
    Error::new(ErrorKind::Timeout, detail)
}
