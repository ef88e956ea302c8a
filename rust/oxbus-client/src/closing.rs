// SPDX-License-Identifier: Apache-2.0
//! Ends the calls of a handle when it is closed.

use std::future::Future;

use oxbus_model::ErrorKind;
use tokio::sync::watch;

use crate::error::{ClientError, Result};

/// Whether a handle was closed.
#[derive(Debug, Default)]
pub struct Closing(watch::Sender<bool>);

impl Closing {
    /// Closes the handle, and ends the calls that wait.
    pub fn close(&self) {
        self.0.send_replace(true);
    }

    /// The call, or an error as soon as the handle is closed.
    pub fn unless_closed<T, F: Future<Output = Result<T>>>(
        &self,
        call: F,
    ) -> impl Future<Output = Result<T>> + use<T, F> {
        let mut closed = self.0.subscribe();
        async move {
            tokio::select! {
                result = call => result,
                // An error means that the handle is gone.
                _ = closed.wait_for(|is_closed| *is_closed) => {
                    Err(ClientError::broker(ErrorKind::Closed, "it was closed while the call waited; open a new one"))
                }
            }
        }
    }
}
