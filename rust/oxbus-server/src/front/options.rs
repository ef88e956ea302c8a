// SPDX-License-Identifier: Apache-2.0
//! The options of a server and their checks.

use std::net::TcpListener;
use std::path::PathBuf;

use oxbus_model::authorization::AuthorizationRule;
use oxbus_model::message::NewId;
use oxbus_model::{Error, ErrorKind, Result};

use super::listen::ListenAddress;
use super::tls::TlsFiles;
use crate::bulk::BulkLimits;
use crate::console::ConsoleOptions;
use crate::sas::development_rule;

/// The ports to listen on. 0 means any free port. Each port accepts every protocol. The names are those of the
/// service's ports.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ports {
    /// 5672 in the service.
    pub amqp: Option<u16>,
    /// 5671 in the service.
    pub amqps: Option<u16>,
    /// 5300 in the emulator.
    pub http: Option<u16>,
    /// 443 in the service.
    pub https: Option<u16>,
}

impl Ports {
    /// The first open port, and 0 if there is none.
    pub fn first(self) -> u16 {
        self.all().into_iter().flatten().next().unwrap_or(0)
    }

    pub(super) fn all(self) -> [Option<u16>; 4] {
        [self.amqp, self.amqps, self.http, self.https]
    }
}

/// The source of the TLS certificate.
#[derive(Debug, Clone)]
pub enum BusTls {
    /// PEM files that the caller provides.
    Files(TlsFiles),
    /// A certificate that is generated at the start, for development. The issuer's is written to `issuer_out`, if set.
    Development {
        /// The file for the issuer's certificate, which clients have to trust.
        issuer_out: Option<PathBuf>,
    },
}

/// The options of a server.
pub struct BusOptions {
    /// The name or address to listen on.
    pub host: String,
    /// The ports.
    pub ports: Ports,
    /// The authorization rules. None means the development rule, which is allowed on loopback only.
    pub rules: Vec<AuthorizationRule>,
    /// Certificate and private key.
    pub tls: BusTls,
    /// The limits for bulk clients.
    pub bulk: BulkLimits,
    /// Generates the ids of messages that arrive without one.
    pub new_id: NewId,
    /// The console; `None` for a server without one.
    pub console: Option<ConsoleOptions>,
}

impl BusOptions {
    /// The effective rules, and a listener for each requested port.
    pub(super) fn listen(&self) -> Result<(Vec<AuthorizationRule>, [Option<TcpListener>; 4])> {
        let mut listeners = [const { None }; 4];
        let mut is_loopback = true;
        let mut addresses = [const { None }; 4];
        for (address, port) in addresses.iter_mut().zip(self.ports.all()) {
            *address = port.map(|port| ListenAddress::new(&self.host, port)).transpose()?;
            is_loopback &= address.as_ref().is_none_or(ListenAddress::is_loopback);
        }
        if addresses.iter().all(Option::is_none) {
            let detail = "a server needs a port; name one of amqp, amqps, http and https, 0 for any that is free";
            return Err(Error::new(ErrorKind::InvalidArgument, detail));
        }
        let rules = if self.rules.is_empty() {
            if !is_loopback {
                let detail = format!(
                    "a server that other machines can reach needs its own authorization rules, because everybody knows the \
                     development key; pass rules, or listen on 127.0.0.1: host=`{}`",
                    self.host
                );
                return Err(Error::new(ErrorKind::InvalidArgument, detail));
            }
            vec![development_rule()]
        } else {
            self.rules.clone()
        };
        for (listener, addresses) in listeners.iter_mut().zip(&addresses) {
            *listener = addresses.as_ref().map(ListenAddress::bind).transpose()?;
        }
        Ok((rules, listeners))
    }
}
