// SPDX-License-Identifier: Apache-2.0
//! Whether a store keeps the rules of the interface: one look before a namespace trusts it.

use std::fmt;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::future::join_all;

use crate::{BlobError, BlobStore, Version};

/// How far the clock of a store may be from the local one.
const CLOCKS_APART_MAX: Duration = Duration::from_secs(5);

/// Stores tell the time of a write in whole seconds.
const GRAIN: Duration = Duration::from_secs(1);

/// Requests at the same time.
const RACERS: usize = 8;

/// What a namespace would suffer from a store that breaks the rules.
const ADVICE: &str = "a namespace here could lose messages: use a store with conditional writes";

/// Why a store is not fit for a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeError {
    /// A request failed. The text says which one.
    Request(&'static str, BlobError),
    /// The store broke a rule. The text says which one, and what follows.
    Broken(String),
    /// The clocks of the store and of this machine differ by this much; true if the store is ahead.
    Clock(Duration, bool),
}

impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(what, error) => write!(f, "{what} failed: {error}"),
            Self::Broken(text) => f.write_str(text),
            Self::Clock(difference, ahead) => {
                let side = if *ahead { "ahead of" } else { "behind" };
                let seconds = difference.as_secs_f64();
                write!(
                    f,
                    "the clock of the store is {seconds:.1} s {side} the clock of this machine: set the clock"
                )
            }
        }
    }
}

impl std::error::Error for ProbeError {}

/// Tries a store under the keys `probe/<salt>/…`, and deletes what it made. The salt is used once.
pub async fn probe(store: &dyn BlobStore, salt: &str) -> Result<(), ProbeError> {
    let probe = Probe {
        store,
        folder: format!("probe/{salt}/"),
    };
    let found = probe.run().await;
    let cleaned = probe.clean().await;
    found.and(cleaned)
}

struct Probe<'a> {
    store: &'a dyn BlobStore,
    folder: String,
}

/// An answer that must be a success.
fn success<T>(what: &'static str, answer: Result<T, BlobError>) -> Result<T, ProbeError> {
    answer.map_err(|error| ProbeError::Request(what, error))
}

/// An answer that must be this error.
fn refused<T>(
    what: &'static str,
    answer: Result<T, BlobError>,
    expected: &BlobError,
    broken: &str,
) -> Result<(), ProbeError> {
    match answer {
        Err(error) if error == *expected => Ok(()),
        Err(error) => Err(ProbeError::Request(what, error)),
        Ok(_) => Err(ProbeError::Broken(format!("{broken}; {ADVICE}"))),
    }
}

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

impl Probe<'_> {
    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.folder)
    }

    async fn run(&self) -> Result<(), ProbeError> {
        let first = self.creates().await?;
        self.swaps(&first).await?;
        self.race_of_creates().await?;
        self.race_of_swaps().await?;
        self.reads().await?;
        self.deletes().await
    }

    async fn creates(&self) -> Result<Version, ProbeError> {
        let key = self.key("one");
        let before = wall();
        let first = success("creating an object", self.store.create(&key, bytes("first")).await)?;
        let after = wall();
        let second = self.store.create(&key, bytes("second")).await;
        let broken = "it created an object that existed already";
        refused("creating an object again", second, &BlobError::Exists, broken)?;
        let found = success("reading an object", self.store.read(&key).await)?;
        if found.bytes != "first" || found.version != first {
            return Err(broken_rule(
                "it gave another content or version than the one that was written",
            ));
        }
        match found.modified {
            Some(modified) => clocks_agree(before, modified, after)?,
            None => return Err(broken_rule("it does not say when an object was written")),
        }
        Ok(first)
    }

    async fn swaps(&self, first: &Version) -> Result<(), ProbeError> {
        let key = self.key("one");
        let second = success(
            "replacing an object",
            self.store.swap(&key, bytes("second"), first).await,
        )?;
        if second == *first {
            return Err(broken_rule("it gave the same version to another content"));
        }
        let stale = self.store.swap(&key, bytes("third"), first).await;
        let broken = "it replaced an object although its version had changed";
        refused(
            "replacing an object of an old version",
            stale,
            &BlobError::Changed,
            broken,
        )?;
        let missing = self.key("missing");
        let swapped = self.store.swap(&missing, bytes("new"), first).await;
        let broken = "it replaced an object that did not exist";
        refused(
            "replacing an object that does not exist",
            swapped,
            &BlobError::Changed,
            broken,
        )?;
        let created = self.store.read(&missing).await;
        let broken = "it refused to replace an object that did not exist, and yet created it";
        refused(
            "reading an object that does not exist",
            created,
            &BlobError::Missing,
            broken,
        )
    }

    async fn race_of_creates(&self) -> Result<(), ProbeError> {
        let key = self.key("created");
        let racers = (0..RACERS).map(|racer| self.store.create(&key, Bytes::from(format!("racer {racer}"))));
        let answers = join_all(racers).await;
        let broken = "of several requests at once that created an object, not exactly one succeeded";
        self.one_winner(&key, &answers, &BlobError::Exists, broken).await
    }

    async fn race_of_swaps(&self) -> Result<(), ProbeError> {
        let key = self.key("swapped");
        let first = success("creating an object", self.store.create(&key, bytes("first")).await)?;
        let racers = (0..RACERS).map(|racer| self.store.swap(&key, Bytes::from(format!("racer {racer}")), &first));
        let answers = join_all(racers).await;
        let broken = "of several requests at once that replaced one version of an object, not exactly one succeeded";
        self.one_winner(&key, &answers, &BlobError::Changed, broken).await
    }

    /// One racer has succeeded, and its content is there. A store may leave the outcome of a racer unknown.
    async fn one_winner(
        &self,
        key: &str,
        answers: &[Result<Version, BlobError>],
        expected: &BlobError,
        broken: &str,
    ) -> Result<(), ProbeError> {
        for answer in answers {
            match answer {
                Err(error) if error != expected && !matches!(error, BlobError::Unavailable(_)) => {
                    return Err(ProbeError::Request("a race of writes", error.clone()));
                }
                _ => {}
            }
        }
        let found = success("reading an object after a race", self.store.read(key).await)?;
        let winner = (0..answers.len()).find(|racer| found.bytes == format!("racer {racer}").as_bytes());
        let successes = answers.iter().filter(|answer| answer.is_ok()).count();
        let won = winner.is_some_and(|winner| match &answers[winner] {
            Ok(version) => successes == 1 && *version == found.version,
            Err(error) => successes == 0 && error.is_unknown(),
        });
        if won { Ok(()) } else { Err(broken_rule(broken)) }
    }

    async fn reads(&self) -> Result<(), ProbeError> {
        let part = self.store.read_range(&self.key("one"), 2..5).await;
        if success("reading a part of an object", part)? != "con" {
            return Err(broken_rule(
                "it gave another part of an object than the one that was asked for",
            ));
        }
        let listing = success("listing objects", self.store.list(&self.folder).await)?;
        let keys: Vec<_> = listing.iter().map(|found| (found.key.as_str(), found.bytes)).collect();
        let (created, one, swapped) = (self.key("created"), self.key("one"), self.key("swapped"));
        if keys != [(created.as_str(), 7), (one.as_str(), 6), (swapped.as_str(), 7)] {
            return Err(broken_rule(
                "it did not list exactly the objects that exist, in the order of their keys",
            ));
        }
        Ok(())
    }

    async fn deletes(&self) -> Result<(), ProbeError> {
        let key = self.key("one");
        success("deleting an object", self.store.delete(&key).await)?;
        let deleted = self.store.read(&key).await;
        let broken = "it deleted an object, and gave it again";
        refused("reading a deleted object", deleted, &BlobError::Missing, broken)?;
        success("deleting an object that does not exist", self.store.delete(&key).await)
    }

    async fn clean(&self) -> Result<(), ProbeError> {
        let mut cleaned = Ok(());
        for name in ["one", "missing", "created", "swapped"] {
            let deleted = self.store.delete(&self.key(name)).await;
            cleaned = cleaned.and(success("deleting an object of the probe", deleted));
        }
        cleaned
    }
}

fn broken_rule(text: &str) -> ProbeError {
    ProbeError::Broken(format!("{text}; {ADVICE}"))
}

/// The time of this machine.
fn wall() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(oxbus_system::wall_ms())
}

/// Checks the time of a write that lies between two moments of this machine.
fn clocks_agree(before: SystemTime, modified: SystemTime, after: SystemTime) -> Result<(), ProbeError> {
    let ahead = modified.duration_since(after).unwrap_or_default();
    let behind = before.duration_since(modified).unwrap_or_default();
    if ahead > CLOCKS_APART_MAX {
        return Err(ProbeError::Clock(ahead, true));
    }
    if behind > CLOCKS_APART_MAX + GRAIN {
        return Err(ProbeError::Clock(behind, false));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
