// SPDX-License-Identifier: Apache-2.0
//! A few connections to PostgreSQL. A connection that fails is dropped, and the next request makes another one.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, Error, NoTls};

use super::tls::MakeTls;

/// Creates the table, if the user may. Two processes at once wait for each other.
const CREATE: &str = "BEGIN;
    SELECT pg_advisory_xact_lock(7091706371420157541);
    CREATE TABLE IF NOT EXISTS oxbus_blobs (
        key text COLLATE \"C\" PRIMARY KEY,
        version bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
        bytes bytea NOT NULL,
        modified timestamptz NOT NULL DEFAULT now());
    ALTER TABLE oxbus_blobs ALTER COLUMN bytes SET STORAGE EXTERNAL;
    COMMIT;";

/// Makes connections and keeps them.
pub(super) struct Pool {
    config: Config,
    tls: MakeTls,
    timeout: Duration,
    places: Semaphore,
    idle: Mutex<Vec<Connection>>,
}

/// A connection and the task that moves its bytes.
struct Connection {
    client: Client,
    task: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A connection for one request. It goes back to the pool by [`Lent::give_back`] only.
pub(super) struct Lent<'a> {
    connection: Connection,
    pool: &'a Pool,
    _place: SemaphorePermit<'a>,
}

impl Pool {
    pub(super) fn new(config: Config, tls: MakeTls, timeout: Duration, connections: usize) -> Self {
        Self {
            config,
            tls,
            timeout,
            places: Semaphore::new(connections),
            idle: Mutex::default(),
        }
    }

    /// An idle connection, or a new one.
    pub(super) async fn lend(&self) -> Result<Lent<'_>, Error> {
        let place = self.places.acquire().await.expect("the semaphore is never closed");
        loop {
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let connection = match idle {
                Some(connection) if connection.client.is_closed() => continue,
                Some(connection) => connection,
                None => self.connect().await?,
            };
            return Ok(Lent {
                connection,
                pool: self,
                _place: place,
            });
        }
    }

    async fn connect(&self) -> Result<Connection, Error> {
        let connection = if self.config.get_ssl_mode() == SslMode::Disable {
            let (client, connection) = self.config.connect(NoTls).await?;
            let task = tokio::spawn(async move { drop(connection.await) });
            Connection { client, task }
        } else {
            let (client, connection) = self.config.connect(self.tls.clone()).await?;
            let task = tokio::spawn(async move { drop(connection.await) });
            Connection { client, task }
        };
        self.prepare(&connection.client).await?;
        Ok(connection)
    }

    /// Sets what each request relies on: a commit waits for the disk, a statement ends when nobody waits for it any
    /// more, and the table exists.
    async fn prepare(&self, client: &Client) -> Result<(), Error> {
        // `on` waits for the disk; `remote_apply` for more than that. The other values wait for less.
        let set = format!(
            "SELECT set_config('synchronous_commit', 'on', false)
                WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply');
            SET statement_timeout = {};
            SET default_transaction_isolation = 'read committed'",
            self.timeout.as_millis()
        );
        client.batch_execute(&set).await?;
        let found = client
            .query_typed_one("SELECT to_regclass('oxbus_blobs') IS NOT NULL", &[])
            .await?;
        if !found.try_get::<_, bool>(0)? {
            client.batch_execute(CREATE).await?;
        }
        Ok(())
    }
}

impl Lent<'_> {
    pub(super) fn client(&self) -> &Client {
        &self.connection.client
    }

    /// Keeps the connection for the next request.
    pub(super) fn give_back(self) {
        if !self.connection.client.is_closed() {
            let mut idle = self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.push(self.connection);
        }
    }
}
