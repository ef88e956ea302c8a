// SPDX-License-Identifier: Apache-2.0
//! The task of a connection: reads into the engine, writes what it produced, and keeps its times.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use oxbus_model::caps::AMQP_READ_BYTES;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};

use super::Connection;
use crate::error::ClientError;
use crate::transport::BoxStream;

/// Longest sleep of the task.
const SLEEP_MAX: Duration = Duration::from_secs(30);

/// Moves the bytes of a connection until it ends.
pub(super) async fn run(connection: Arc<Connection>, stream: BoxStream) {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let failed = tokio::select! {
        failed = read(&connection, &mut reader) => failed,
        failed = write(&connection, &mut writer) => failed,
    };
    connection.lost(failed.err());
    let _ = writer.shutdown().await;
}

/// Reads until the bytes end.
async fn read(connection: &Connection, reader: &mut ReadHalf<BoxStream>) -> io::Result<()> {
    loop {
        let count = poll_fn(|context| {
            // The engine's own buffer takes the bytes, so that they are copied once.
            let mut core = connection.core();
            let input = core.engine.input();
            if input.capacity() - input.len() < AMQP_READ_BYTES / 4 {
                input.reserve(AMQP_READ_BYTES);
            }
            pin!(reader.read_buf(input)).poll(context)
        })
        .await?;
        if count == 0 {
            return Ok(());
        }
        let now = connection.now();
        let (wakes, has_output, is_finished) = {
            let mut core = connection.core();
            let wakes = core.take_events(now);
            (wakes, !core.engine.output().is_empty(), core.engine.is_finished())
        };
        for link in wakes {
            link.notify_waiters();
        }
        connection.changed.notify_waiters();
        if has_output || is_finished {
            connection.wake.notify_one();
        }
        if is_finished {
            // The writer writes the rest.
            std::future::pending::<()>().await;
        }
    }
}

/// Writes whenever there is something to write, until the connection is finished.
async fn write(connection: &Connection, writer: &mut WriteHalf<BoxStream>) -> io::Result<()> {
    loop {
        let now = connection.now();
        let (output, is_finished, deadline) = {
            let mut core = connection.core();
            core.engine.tick(now);
            let wakes = core.take_events(now);
            core.engine.flush(now);
            let output = core.engine.output().split();
            core.taken += output.len() as u64;
            for link in wakes {
                link.notify_waiters();
            }
            (output, core.engine.is_finished(), core.engine.deadline())
        };
        if !output.is_empty() {
            write_all(connection, writer, &output).await?;
            continue;
        }
        if is_finished {
            return Ok(());
        }
        let sleep = deadline.map_or(SLEEP_MAX, |at| {
            Duration::from_millis(at.saturating_sub(now)).min(SLEEP_MAX)
        });
        // The permit of a wake that came meanwhile is kept.
        let _ = tokio::time::timeout(sleep, connection.wake.notified()).await;
    }
}

async fn write_all(connection: &Connection, writer: &mut WriteHalf<BoxStream>, output: &BytesMut) -> io::Result<()> {
    let mut rest = &output[..];
    while !rest.is_empty() {
        let count = writer.write(rest).await?;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        rest = &rest[count..];
        connection.core().written += count as u64;
    }
    writer.flush().await?;
    // Links that waited for room in the output may send again.
    let waiting: Vec<_> = connection
        .core()
        .links
        .values()
        .map(|link| Arc::clone(&link.changed))
        .collect();
    if output.len() >= oxbus_model::caps::AMQP_OUTPUT_BYTES_MAX / 2 {
        for link in waiting {
            link.notify_waiters();
        }
    }
    Ok(())
}

impl Connection {
    /// The socket ended or failed.
    fn lost(&self, error: Option<io::Error>) {
        let now = self.now();
        let mut core = self.core();
        if let Some(error) = error {
            let detail = format!("the connection to the server broke; try again: {error}");
            core.end(&ClientError::connection(detail).with_source(error));
        }
        core.engine.disconnected();
        let wakes = core.take_events(now);
        drop(core);
        self.notify(wakes);
    }
}
