// SPDX-License-Identifier: Apache-2.0
//! The body of a request: in memory as a whole, or in pieces as they are made.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

/// What is sent.
pub(super) enum Outgoing {
    /// All of it; nothing after it was sent.
    Whole(Option<Bytes>),
    /// Pieces as they come. The last one is `None`: without it the body broke off.
    Pieces(mpsc::Receiver<Option<Bytes>>),
    /// All pieces were sent.
    Over,
}

/// Nobody makes the rest of the body; the connection ends, so that the server does nothing with a part.
#[derive(Debug)]
pub(super) struct BrokeOff;

impl fmt::Display for BrokeOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the rows broke off")
    }
}

impl std::error::Error for BrokeOff {}

impl Outgoing {
    pub(super) fn whole(bytes: Bytes) -> Self {
        Self::Whole(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = BrokeOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, BrokeOff>>> {
        match &mut *self {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Over => Poll::Ready(None),
            Self::Pieces(pieces) => match pieces.poll_recv(cx) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Some(Some(piece))) => Poll::Ready(Some(Ok(Frame::data(piece)))),
                Poll::Ready(Some(None)) => {
                    *self = Self::Over;
                    Poll::Ready(None)
                }
                Poll::Ready(None) => Poll::Ready(Some(Err(BrokeOff))),
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None) | Self::Over)
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Over => SizeHint::with_exact(0),
            Self::Pieces(_) => SizeHint::default(),
        }
    }
}
