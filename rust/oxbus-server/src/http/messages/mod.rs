// SPDX-License-Identifier: Apache-2.0
//! The seven operations on messages.
use super::Answer;
use super::connection::Connection;
use super::refusal::{Area, Refusal};
use super::route::Operation;
use hyper::Request;
use hyper::body::Incoming;
use oxbus_model::{Error, ErrorKind};
#[derive(Default)]
pub(super) struct Kept;
impl Kept {
    #[expect(clippy::unused_self, reason = "next")]
    pub(super) fn close(&self) {}
}
pub(super) async fn handle(
    _c: &Connection,
    _r: Request<Incoming>,
    _e: String,
    _o: Operation,
) -> Result<Answer, Refusal> {
    Err(Refusal::of(
        Area::Messages,
        &Error::new(ErrorKind::NotSupported, "messages over HTTP are not in this version"),
    ))
}
