// SPDX-License-Identifier: Apache-2.0
//! Checks the access of a request (B-455).

use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use oxbus_model::authorization::AccessRight;

use super::error::HttpError;
use crate::blocking::run_blocking;
use crate::front::Context;
use crate::sas::{AccessDenied, Claims, DenialReason};

/// Returns the claims of the request's token. Fails if they do not give the right at the path.
pub(super) async fn check(
    context: &Context,
    headers: &HeaderMap,
    right: AccessRight,
    path: &str,
) -> Result<Claims, HttpError> {
    let refused = |why| AccessDenied::new(why, path, None);
    let token = headers
        .get(AUTHORIZATION)
        .ok_or_else(|| refused(DenialReason::Missing))?;
    let token = token
        .to_str()
        .map_err(|_| refused(DenialReason::Malformed("it is not ASCII")))?;
    Ok(authorize(context, token, right, path).await?)
}

/// Like [`check`], for a given token.
pub(super) async fn authorize(
    context: &Context,
    token: &str,
    right: AccessRight,
    path: &str,
) -> Result<Claims, AccessDenied> {
    let refused = AccessDenied::new(DenialReason::Malformed("it could not be checked"), path, None);
    let (token, path) = (token.to_owned(), path.to_owned());
    let context = context.clone();
    // Runs on a blocking thread, because the rules of an entity may have to be read from the catalog.
    let checked = run_blocking(move |_| {
        let now = context.now();
        Ok(context.authority().authorize(&token, &path, now).and_then(|claims| {
            claims.check(right, &path, now)?;
            Ok(claims)
        }))
    });
    checked.await.unwrap_or(Err(refused))
}
