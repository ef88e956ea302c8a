// SPDX-License-Identifier: Apache-2.0
//! Entities as ATOM.
use super::Answer;
use super::refusal::{Area, Refusal};
use super::route::Place;
use crate::front::Context;
use hyper::Request;
use hyper::body::Incoming;
use oxbus_model::{Error, ErrorKind};
pub(super) async fn handle(_c: &Context, _r: Request<Incoming>, _p: Place) -> Result<Answer, Refusal> {
    Err(Refusal::of(
        Area::Entities,
        &Error::new(ErrorKind::NotSupported, "entities over HTTP are not in this version"),
    ))
}
