// SPDX-License-Identifier: Apache-2.0
//! Writes what the engine has produced. A caller writes on its own thread as far as the socket takes it, which saves a
//! switch of threads. The task writes the rest.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};

use bytes::{Buf, BytesMut};
use oxbus_model::caps::AMQP_OUTPUT_BYTES_MAX;
use oxbus_model::sync::ignore_poison;
use tokio::io::{AsyncWrite, WriteHalf};
use tokio::sync::Notify;

use super::Connection;
use crate::transport::BoxStream;

/// The writing half of the stream.
pub(super) struct Writer {
    half: WriteHalf<BoxStream>,
    /// Bytes that the socket has not taken.
    rest: BytesMut,
    /// The error of a caller's write, for the task.
    failed: Option<io::Error>,
}

/// Wakes the task when the socket takes bytes again.
pub(super) struct TaskWaker(pub(super) Arc<Notify>);

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.notify_one();
    }
}

impl Writer {
    pub(super) fn new(half: WriteHalf<BoxStream>) -> Self {
        Self {
            half,
            rest: BytesMut::new(),
            failed: None,
        }
    }

    pub(super) fn into_half(self) -> WriteHalf<BoxStream> {
        self.half
    }

    /// Writes until the socket takes no more, or until nothing is left. Returns true in the latter case.
    fn write(&mut self, connection: &Connection) -> io::Result<bool> {
        if let Some(failed) = self.failed.take() {
            return Err(failed);
        }
        let mut context = Context::from_waker(&connection.task_waker);
        let mut half = Pin::new(&mut self.half);
        let mut count = 0;
        loop {
            if self.rest.is_empty() {
                self.rest = connection.take_output();
            }
            if self.rest.is_empty() {
                break;
            }
            // Counted before: the server may have the bytes, and the connection may be lost, before this thread goes on.
            connection.count_written(0);
            match half.as_mut().poll_write(&mut context, &self.rest) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(taken)) => {
                    self.rest.advance(taken);
                    count += taken;
                }
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => {
                    connection.count_written(self.rest.len());
                    return Ok(false);
                }
            }
        }
        if count >= AMQP_OUTPUT_BYTES_MAX / 2 {
            connection.notify_links();
        }
        match half.poll_flush(&mut context) {
            Poll::Ready(flushed) => flushed.map(|()| true),
            Poll::Pending => Ok(false),
        }
    }
}

impl Connection {
    /// Writes on the caller's thread what the engine has produced. If another thread writes, or the socket takes no
    /// more, the task goes on.
    pub(super) fn flush(&self) {
        let mut is_done = false;
        if let Ok(mut writer) = self.writer.try_lock()
            && let Some(writer) = writer.as_mut()
        {
            match writer.write(self) {
                Ok(done) => is_done = done,
                Err(error) => writer.failed = Some(error),
            }
        }
        if !is_done {
            self.wake.notify_one();
        }
    }

    /// Writes on the task's thread. Returns true if nothing is left.
    pub(super) fn write(&self) -> io::Result<bool> {
        match ignore_poison(self.writer.lock()).as_mut() {
            Some(writer) => writer.write(self),
            None => Ok(true),
        }
    }

    fn take_output(&self) -> BytesMut {
        let now = self.now();
        let mut core = self.core();
        core.engine.flush(now);
        let output = core.engine.output().split();
        core.taken += output.len() as u64;
        output
    }

    /// Counts what the engine has produced as written, except the last `rest` bytes.
    fn count_written(&self, rest: usize) {
        let mut core = self.core();
        core.written = core.taken - rest as u64;
    }

    /// Links that waited for room in the output may send again.
    fn notify_links(&self) {
        let links: Vec<_> = {
            let core = self.core();
            core.links.values().map(|link| Arc::clone(&link.changed)).collect()
        };
        for link in links {
            link.notify_waiters();
        }
    }
}
