// SPDX-License-Identifier: Apache-2.0
//! What each store keeps. `OXBUS_TEST_STORE_URL` names one more store, and `OXBUS_TEST_STORE_OPTIONS` its options as
//! `name=value,name=value`.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use oxbus_blob::{BlobError, BlobStore, DirectoryStore, MemoryStore, Version, open, probe};
use tokio::task::JoinSet;

/// More than a page of a listing.
const PAGES: usize = 1_100;

/// A store, and what the keys of one test begin with.
#[derive(Clone)]
struct Place {
    store: Arc<dyn BlobStore>,
    folder: String,
}

impl Place {
    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.folder)
    }

    async fn create(&self, name: &str, bytes: impl Into<Bytes>) -> Result<Version, BlobError> {
        self.store.create(&self.key(name), bytes.into()).await
    }

    async fn swap(&self, name: &str, bytes: impl Into<Bytes>, version: &Version) -> Result<Version, BlobError> {
        self.store.swap(&self.key(name), bytes.into(), version).await
    }

    async fn names(&self, prefix: &str) -> Vec<String> {
        let found = self.store.list(&self.key(prefix)).await.expect("a listing");
        let names = found.iter().map(|found| found.key[self.folder.len()..].to_owned());
        names.collect()
    }

    async fn clean(&self) {
        let mut waiting = JoinSet::new();
        for found in self.store.list(&self.folder).await.expect("a listing") {
            let store = Arc::clone(&self.store);
            waiting.spawn(async move { store.delete(&found.key).await });
            if waiting.len() >= 16 {
                let deleted = waiting.join_next().await.expect("a task");
                deleted.expect("no panic").expect("deleted");
            }
        }
        for deleted in waiting.join_all().await {
            deleted.expect("deleted");
        }
    }
}

async fn a_blob_is_created_once(place: Place) {
    let first = place.create("a", "one").await.expect("created");
    assert_eq!(place.create("a", "two").await, Err(BlobError::Exists));
    let found = place.store.read(&place.key("a")).await.expect("read");
    assert_eq!((found.bytes, found.version), (Bytes::from("one"), first));
    assert!(found.modified.is_some());
    // The same name in another folder is another blob.
    place.create("b/a", "").await.expect("created");
    let found = place.store.read(&place.key("b/a")).await.expect("read");
    assert_eq!(found.bytes, Bytes::new());
}

async fn a_blob_is_replaced_if_it_has_not_changed(place: Place) {
    let first = place.create("a", "one").await.expect("created");
    let second = place.swap("a", "two", &first).await.expect("swapped");
    assert_ne!(first, second);
    assert_eq!(place.swap("a", "three", &first).await, Err(BlobError::Changed));
    let third = place.swap("a", "four", &second).await.expect("swapped");
    let found = place.store.read(&place.key("a")).await.expect("read");
    assert_eq!((found.bytes, found.version), (Bytes::from("four"), third.clone()));
    assert_eq!(place.swap("missing", "x", &third).await, Err(BlobError::Changed));
    assert_eq!(place.store.read(&place.key("missing")).await, Err(BlobError::Missing));
    place.store.delete(&place.key("a")).await.expect("deleted");
    assert_eq!(place.swap("a", "five", &third).await, Err(BlobError::Changed));
    assert_eq!(place.store.read(&place.key("a")).await, Err(BlobError::Missing));
    let again = place.create("a", "six").await.expect("created");
    assert_ne!(again, third);
    assert_eq!(place.swap("a", "seven", &third).await, Err(BlobError::Changed));
}

async fn parts_are_read(place: Place) {
    let content: Vec<u8> = (0..1_000_000_u32).map(|number| (number % 251) as u8).collect();
    place.create("big", content.clone()).await.expect("created");
    let key = place.key("big");
    assert_eq!(place.store.read(&key).await.expect("read").bytes, content);
    for range in [0..1, 0..1_000_000, 999_999..1_000_000, 251_000..502_003] {
        let part = place.store.read_range(&key, range.clone()).await.expect("read");
        assert_eq!(part, content[range.start as usize..range.end as usize], "{range:?}");
    }
    let missing = place.store.read_range(&place.key("missing"), 0..1).await;
    assert_eq!(missing, Err(BlobError::Missing));
}

async fn blobs_are_listed_by_prefix_in_order(place: Place) {
    let names = ["a-1", "a/1", "a/10", "a/2", "a/b/c", "aa", "b", "B", "a+b=c@d~e_f.g"];
    for name in names {
        place.create(name, name).await.expect("created");
    }
    let mut ordered = names.map(str::to_owned);
    ordered.sort();
    assert_eq!(place.names("").await, ordered);
    assert_eq!(place.names("a/").await, ["a/1", "a/10", "a/2", "a/b/c"]);
    assert_eq!(place.names("a/1").await, ["a/1", "a/10"]);
    assert_eq!(place.names("a/b").await, ["a/b/c"]);
    assert_eq!(place.names("aa").await, ["aa"]);
    assert_eq!(place.names("a").await.len(), 7);
    assert_eq!(place.names("c").await, [""; 0]);
    assert_eq!(place.names("x/y/").await, [""; 0]);
    let found = place.store.list(&place.key("a/10")).await.expect("a listing");
    assert_eq!(found[0].bytes, 4);
    place.store.delete(&place.key("a/1")).await.expect("deleted");
    assert_eq!(place.names("a/").await, ["a/10", "a/2", "a/b/c"]);
}

async fn a_long_listing_is_complete(place: Place) {
    let mut waiting = JoinSet::new();
    for number in 0..PAGES {
        let place = place.clone();
        waiting.spawn(async move { place.create(&format!("many/{number:06}"), "x").await });
        if waiting.len() >= 16 {
            let created = waiting.join_next().await.expect("a task");
            created.expect("no panic").expect("created");
        }
    }
    waiting.join_all().await;
    let names = place.names("many/").await;
    let expected: Vec<_> = (0..PAGES).map(|number| format!("many/{number:06}")).collect();
    assert_eq!(names, expected);
}

async fn a_missing_blob_is_deleted(place: Place) {
    let key = place.key("a");
    assert_eq!(place.store.read(&key).await, Err(BlobError::Missing));
    place.store.delete(&key).await.expect("nothing to delete");
    place.create("a", "one").await.expect("created");
    place.store.delete(&key).await.expect("deleted");
    place.store.delete(&key).await.expect("nothing to delete");
    assert_eq!(place.store.read(&key).await, Err(BlobError::Missing));
    place.create("a", "two").await.expect("created again");
}

async fn one_of_many_writers_wins(place: Place) {
    for round in 0..4 {
        let name = format!("race-{round}");
        let created = race(&place, &name, None, BlobError::Exists).await;
        let version = created.expect("a version");
        let swapped = race(&place, &name, Some(version), BlobError::Changed).await;
        assert!(swapped.is_some());
    }
}

/// Returns the version after a race. A store may leave the outcome of a racer unknown.
async fn race(place: &Place, name: &str, version: Option<Version>, expected: BlobError) -> Option<Version> {
    let mut racers = JoinSet::new();
    for racer in 0..8 {
        let (place, name, version) = (place.clone(), name.to_owned(), version.clone());
        let bytes = format!("{racer} {version:?}");
        racers.spawn(async move {
            match &version {
                None => place.create(&name, bytes).await,
                Some(version) => place.swap(&name, bytes, version).await,
            }
        });
    }
    let answers = racers.join_all().await;
    let found = place.store.read(&place.key(name)).await.expect("read");
    let won: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().ok()).collect();
    let unknown = answers
        .iter()
        .any(|answer| answer.as_ref().is_err_and(BlobError::is_unknown));
    assert!(won == [&found.version] || (won.is_empty() && unknown), "{answers:?}");
    for error in answers.iter().filter_map(|answer| answer.as_ref().err()) {
        assert!(
            *error == expected || matches!(error, BlobError::Unavailable(_)),
            "{error:?}"
        );
    }
    Some(found.version)
}

async fn keys_stay_in_the_place(place: Place) {
    let version = place.create("a", "one").await.expect("created");
    for name in ["../x", "a/../x", "/x", "x//y", "x/", "x\\y", ".x", "x\0", "x:y", "ä"] {
        let key = if name.starts_with('/') {
            name.to_owned()
        } else {
            place.key(name)
        };
        let is_other = |error| matches!(error, BlobError::Other(_));
        assert!(
            place.store.create(&key, Bytes::new()).await.is_err_and(is_other),
            "{name}"
        );
        assert!(
            place
                .store
                .swap(&key, Bytes::new(), &version)
                .await
                .is_err_and(is_other),
            "{name}"
        );
        assert!(place.store.read(&key).await.is_err_and(is_other), "{name}");
        assert!(place.store.read_range(&key, 0..1).await.is_err_and(is_other), "{name}");
        assert!(place.store.delete(&key).await.is_err_and(is_other), "{name}");
    }
    assert!(place.store.list("../").await.is_err());
    assert_eq!(place.names("").await, ["a"]);
}

async fn the_probe_passes(place: Place) {
    let salt = place.folder.replace('/', "-");
    let salt = salt.trim_end_matches('-');
    probe(place.store.as_ref(), salt).await.expect("a good store");
    let left = place.store.list(&format!("probe/{salt}/")).await.expect("a listing");
    assert_eq!(left, []);
}

/// Runs one part of the contract in its own folder.
async fn part<F: Future<Output = ()>>(store: &Arc<dyn BlobStore>, name: &str, run: impl FnOnce(Place) -> F) {
    let folder = format!("contract/{:x}-{}/{name}/", oxbus_system::wall_ms(), std::process::id());
    let place = Place {
        store: Arc::clone(store),
        folder,
    };
    run(place.clone()).await;
    place.clean().await;
}

async fn contract(store: Arc<dyn BlobStore>) {
    part(&store, "create", a_blob_is_created_once).await;
    part(&store, "swap", a_blob_is_replaced_if_it_has_not_changed).await;
    part(&store, "parts", parts_are_read).await;
    part(&store, "list", blobs_are_listed_by_prefix_in_order).await;
    part(&store, "delete", a_missing_blob_is_deleted).await;
    part(&store, "race", one_of_many_writers_wins).await;
    part(&store, "keys", keys_stay_in_the_place).await;
    part(&store, "probe", the_probe_passes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_keeps_the_contract() {
    let store: Arc<dyn BlobStore> = Arc::new(MemoryStore::default());
    part(&store, "pages", a_long_listing_is_complete).await;
    contract(store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_keeps_the_contract() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a b");
    let url = format!(
        "objects://{}",
        path.display().to_string().replace('\\', "/").replace(' ', "%20")
    );
    let store = open(&url, &[]).await.expect("a directory");
    contract(Arc::clone(&store)).await;
    // Nothing but locks is left beside the folders.
    let own = std::fs::read_dir(path.join(".oxbus")).expect("a folder");
    let names: BTreeSet<_> = own.map(|entry| entry.expect("an entry").file_name()).collect();
    assert!(
        names.iter().all(|name| name.to_string_lossy().starts_with("lock-")),
        "{names:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn two_openings_of_a_directory_see_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let one = DirectoryStore::open(folder.path()).await.expect("a directory");
    let other = DirectoryStore::open(folder.path()).await.expect("a directory");
    let version = one.create("a", Bytes::from("one")).await.expect("created");
    assert_eq!(other.create("a", Bytes::from("two")).await, Err(BlobError::Exists));
    let second = other.swap("a", Bytes::from("two"), &version).await.expect("swapped");
    // The same bytes have another version.
    let third = one.swap("a", Bytes::from("two"), &second).await.expect("swapped");
    assert_ne!(second, third);
    assert_eq!(one.swap("a", Bytes::from("x"), &version).await, Err(BlobError::Changed));
    std::fs::write(folder.path().join("foreign"), "text").expect("written");
    let foreign = one.read("foreign").await;
    assert!(matches!(foreign, Err(BlobError::Other(_))), "{foreign:?}");
    std::fs::remove_dir_all(folder.path()).expect("removed");
    let gone = one.create("b", Bytes::new()).await;
    assert!(matches!(gone, Err(BlobError::NoContainer(_))), "{gone:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_named_store_keeps_the_contract() {
    let Ok(url) = std::env::var("OXBUS_TEST_STORE_URL") else {
        return;
    };
    let options = std::env::var("OXBUS_TEST_STORE_OPTIONS").unwrap_or_default();
    let options = options.split(',').filter_map(|option| option.split_once('='));
    let options: Vec<_> = options
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let store = open(&url, &options).await.expect("a store");
    part(&store, "pages", a_long_listing_is_complete).await;
    contract(store).await;
}
