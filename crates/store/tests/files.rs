//! The data directory: who may open it, what is refused, and that a refusal changes nothing.

// A test says what it expects by panicking, in its helpers too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use bellwether_store::{Expect, OpenError, Options, Revision, Store};
use common::{HandClock, options, put, run, space};
use tempfile::TempDir;

fn reserving(bytes: u64) -> Options {
    Options { reserve_bytes: bytes, ..options(&HandClock::default()) }
}

fn open(dir: &Path) -> Result<Store<()>, OpenError> {
    Store::open(dir, reserving(0))
}

/// A directory with a store of a few hundred objects, cleanly closed.
async fn written() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let mut commits = tokio::task::JoinSet::new();
    for n in 0..300 {
        let store = store.clone();
        commits.spawn(async move {
            let value = "x".repeat(n * 7);
            store.commit(put(&space("hub/a"), &n.to_string(), Expect::Absent, &value)).await.unwrap();
        });
    }
    commits.join_all().await;
    store.close().await;
    let file = dir.path().join("store.redb");
    (dir, file)
}

#[test]
fn a_store_is_found_again_as_it_was_closed() {
    run(async {
        let (dir, _) = written().await;
        let store = open(dir.path()).unwrap();
        assert_eq!((store.revision(), store.snapshot(&space("hub/a")).len()), (Revision(300), 300));
    });
}

#[test]
fn all_files_are_for_their_owner_only() {
    run(async {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("deep/data");
        let store: Store<()> = Store::open(&dir, reserving(100_000)).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&dir), 0o700);
        for file in ["lock", "store.redb", "reserve"] {
            assert_eq!(mode(&dir.join(file)), 0o600, "{file}");
        }
        assert_eq!(fs::read(dir.join("reserve")).unwrap(), vec![0; 100_000]);
        store.close().await;
    });
}

#[test]
fn a_second_open_is_refused_until_the_first_is_closed() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).unwrap();
        let refused = open(dir.path()).unwrap_err();
        assert!(matches!(refused, OpenError::Locked { .. }), "{refused}");
        store.close().await;
        open(dir.path()).unwrap().close().await;
    });
}

#[test]
fn a_file_that_is_no_store_is_refused_and_left_as_it_is() {
    for content in [vec![], b"garbage".to_vec(), vec![0; 100_000], vec![0xa5; 1_000_000]] {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("store.redb");
        fs::write(&file, &content).unwrap();
        let refused = open(dir.path()).unwrap_err();
        assert!(matches!(refused, OpenError::Corrupt { .. }), "{refused}");
        assert!(fs::read(&file).unwrap() == content, "the file was changed");
    }
}

#[test]
fn a_truncated_file_is_refused_and_left_as_it_is() {
    run(async {
        let (dir, file) = written().await;
        let whole = fs::read(&file).unwrap();
        for part in 1..20 {
            let cut = &whole[..whole.len() * part / 20];
            fs::write(&file, cut).unwrap();
            let refused = open(dir.path()).unwrap_err();
            assert!(matches!(refused, OpenError::Corrupt { .. }), "{refused}");
            assert!(fs::read(&file).unwrap() == cut, "the file was changed");
        }
    });
}

#[test]
fn damage_inside_the_file_is_never_served() {
    run(async {
        let (dir, file) = written().await;
        let whole = fs::read(&file).unwrap();
        let sound = contents(&open(dir.path()).unwrap()).await;
        for page in 0..whole.len() / 4096 {
            let mut damaged = whole.clone();
            let at = page * 4096 + (page * 997) % 4096;
            damaged[at] ^= 0x10;
            fs::write(&file, &damaged).unwrap();
            match open(dir.path()) {
                // A byte that nothing uses.
                Ok(store) => assert!(contents(&store).await == sound, "page {page}: damage was served"),
                Err(OpenError::Corrupt { .. } | OpenError::Format { .. }) => {
                    assert!(fs::read(&file).unwrap() == damaged, "page {page}: the file was changed");
                }
                Err(other) => panic!("page {page}: {other}"),
            }
        }
    });

    async fn contents(store: &Store<()>) -> Vec<(String, Vec<u8>)> {
        let snapshot = store.snapshot(&space("hub/a"));
        let contents =
            snapshot.iter().map(|entry| (entry.path().to_string(), entry.value().to_vec())).collect();
        store.close().await;
        contents
    }
}

/// Changes a number that the store keeps beside its records.
fn forge(file: &Path, name: &str, number: u64) {
    let database = redb::Database::open(file).unwrap();
    let transaction = database.begin_write().unwrap();
    let meta: redb::TableDefinition<'_, &str, u64> = redb::TableDefinition::new("meta");
    transaction.open_table(meta).unwrap().insert(name, number).unwrap();
    transaction.commit().unwrap();
}

#[test]
fn a_log_that_lost_its_newest_records_is_refused() {
    run(async {
        let (dir, file) = written().await;
        forge(&file, "high_water", 301);
        let refused = open(dir.path()).unwrap_err();
        assert!(matches!(refused, OpenError::Corrupt { .. }), "{refused}");
    });
}

#[test]
fn an_unknown_format_is_refused() {
    run(async {
        let (dir, file) = written().await;
        forge(&file, "format", 99);
        let refused = open(dir.path()).unwrap_err();
        assert!(matches!(refused, OpenError::Format { found: 99, supported: 1 }), "{refused}");
    });
}

#[test]
fn a_database_of_somebody_else_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let database = redb::Database::create(dir.path().join("store.redb")).unwrap();
    let transaction = database.begin_write().unwrap();
    let table: redb::TableDefinition<'_, &str, u64> = redb::TableDefinition::new("theirs");
    transaction.open_table(table).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let refused = open(dir.path()).unwrap_err();
    assert!(matches!(refused, OpenError::Corrupt { .. }), "{refused}");
}

#[test]
fn a_creation_that_was_interrupted_starts_over() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("store.redb.new"), b"half a database").unwrap();
        let store = open(dir.path()).unwrap();
        store.commit(put(&space("hub/a"), "a", Expect::Absent, "value")).await.unwrap();
        store.close().await;
        assert_eq!(open(dir.path()).unwrap().revision(), Revision(1));
    });
}
