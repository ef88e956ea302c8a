// SPDX-License-Identifier: Apache-2.0
//! Signing in with the name of a key and the key.

use hyper::StatusCode;
use oxbus_log::event;
use oxbus_model::authorization::AccessRight;
use serde::Deserialize;

use super::error::{ConsoleError, Result};
use super::state::Console;
use crate::front::{Context, PeerInfo};
use crate::sas::DenialReason;

/// What the page of the sign-in sends.
#[derive(Deserialize)]
pub(super) struct Credentials {
    key_name: String,
    key: String,
}

/// Signs in. Returns the token for the cookie.
pub(super) fn sign_in(context: &Context, console: &Console, peer: PeerInfo, given: &Credentials) -> Result<String> {
    let now = context.now();
    let address = peer.address.map(|address| address.ip());
    console.attempts.begin(address, now).map_err(|seconds| ConsoleError {
        retry_after_seconds: Some(seconds),
        ..ConsoleError::new(
            StatusCode::TOO_MANY_REQUESTS,
            format!("too many failed attempts; wait {seconds} s, then try again"),
        )
    })?;
    let claims = context.authority().authorize_plain(&given.key_name, &given.key);
    let claims = claims.and_then(|claims| {
        if claims.grants(AccessRight::Listen) {
            Ok(claims)
        } else {
            Err(claims.denied(DenialReason::MissingRight(AccessRight::Listen), ""))
        }
    });
    let claims = claims.map_err(|denied| {
        denied.log();
        context.meters().count_refusal("console", "401", &denied.detail());
        let detail = match denied.reason {
            DenialReason::MissingRight(_) => {
                "the key has neither the right Listen nor Manage; sign in with one that has"
            }
            // Which of the two is wrong is for those who can read the log.
            _ => "the name of the key or the key is wrong; check both",
        };
        ConsoleError::new(StatusCode::UNAUTHORIZED, detail)
    })?;
    console.attempts.succeeded(address);
    event!(
        CONSOLE_SIGNED_IN,
        key_name = claims.key_name,
        peer = peer.address.map(oxbus_log::display)
    );
    Ok(console.sign_ins.add(&claims.key_name, &given.key, now)?)
}
