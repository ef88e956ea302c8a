// SPDX-License-Identifier: Apache-2.0
//! The task of a connection: reads into the engine, writes what it produced, and keeps its times.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use oxbus_model::caps::AMQP_READ_BYTES;
use oxbus_model::sync::ignore_poison;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf};

use super::Connection;
use super::writing::Writer;
use crate::error::ClientError;
use crate::transport::BoxStream;

/// Longest sleep of the task.
const SLEEP_MAX: Duration = Duration::from_secs(30);

/// Moves the bytes of a connection until it ends.
pub(super) async fn run(connection: Arc<Connection>, stream: BoxStream) {
    let (mut reader, writer) = tokio::io::split(stream);
    *ignore_poison(connection.writer.lock()) = Some(Writer::new(writer));
    let failed = tokio::select! {
        failed = read(&connection, &mut reader) => failed,
        failed = write(&connection) => failed,
    };
    connection.lost(failed.err());
    let writer = ignore_poison(connection.writer.lock()).take();
    if let Some(writer) = writer {
        let _ = writer.into_half().shutdown().await;
    }
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
        if is_finished {
            connection.wake.notify_one();
        } else if has_output {
            connection.flush();
        }
        if is_finished {
            // The writer writes the rest.
            std::future::pending::<()>().await;
        }
    }
}

/// Writes what callers leave, and keeps the times of the engine, until the connection is finished.
async fn write(connection: &Connection) -> io::Result<()> {
    loop {
        let now = connection.now();
        let wakes = {
            let mut core = connection.core();
            core.engine.tick(now);
            core.take_events(now)
        };
        for link in wakes {
            link.notify_waiters();
        }
        let is_written = connection.write()?;
        let (is_finished, deadline) = {
            let core = connection.core();
            (core.engine.is_finished(), core.engine.deadline())
        };
        if is_finished && is_written {
            return Ok(());
        }
        let sleep = deadline.map_or(SLEEP_MAX, |at| {
            Duration::from_millis(at.saturating_sub(now)).min(SLEEP_MAX)
        });
        // The permit of a wake that came meanwhile is kept.
        let _ = tokio::time::timeout(sleep, connection.wake.notified()).await;
    }
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
