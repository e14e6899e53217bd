//! Opening SQLite files: what is kept, and what is refused in which words.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use bellwether_fleet::store::sqlite::Sqlite;
use bellwether_fleet::store::{OpenError, Store as _};

use crate::fixture::{cluster, created, get, write};

fn refusal(path: &Path) -> OpenError {
    match Sqlite::open(path) {
        Ok(_) => panic!("{} was opened", path.display()),
        Err(error) => error,
    }
}

#[tokio::test]
async fn what_was_committed_is_there_when_the_file_is_opened_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("fleet.db");
    let resource = cluster("kept");
    let store = Sqlite::open(&path).expect("a new file");
    let revision = write(&store, [created(&resource)]).await;
    drop(store);
    let store = Sqlite::open(&path).expect("the same file");
    assert_eq!(get(&store, resource.id).await, Some(resource));
    assert_eq!(*store.revision().borrow(), revision);
}

#[tokio::test]
async fn write_ahead_log_starts_anew_under_constant_writes() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("fleet.db");
    let store = Sqlite::open(&path).expect("a new file");
    // 128 MiB in all. The log is copied into the file from 16 MiB on, while writes go on.
    for number in 0..256 {
        let mut resource = cluster(&format!("large-{number}"));
        resource.spec.insert("text".to_owned(), "x".repeat(512 << 10).into());
        write(&store, [created(&resource)]).await;
    }
    let log = std::fs::metadata(directory.path().join("fleet.db-wal")).expect("a log").len();
    assert!(log < 80 << 20, "{log}");
}

#[test]
fn the_file_is_for_its_owner_only() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("fleet.db");
    let _store = Sqlite::open(&path).expect("a new file");
    for name in ["fleet.db", "fleet.db-wal", "fleet.db.lock"] {
        let mode = std::fs::metadata(directory.path().join(name)).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn a_file_that_is_open_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("fleet.db");
    let store = Sqlite::open(&path).expect("a new file");
    assert!(matches!(refusal(&path), OpenError::InUse(_)));
    drop(store);
    Sqlite::open(&path).expect("the file is free again");
}

#[test]
fn a_file_of_something_else_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let text = directory.path().join("notes.txt");
    std::fs::write(&text, "these are not the rows you are looking for".repeat(100)).expect("a file");
    assert!(matches!(refusal(&text), OpenError::NotOurs(_)));

    let other = directory.path().join("other.db");
    let connection = rusqlite::Connection::open(&other).expect("a database");
    connection.execute_batch("CREATE TABLE songs (title TEXT)").expect("a table");
    drop(connection);
    assert!(matches!(refusal(&other), OpenError::NotOurs(_)));
    let connection = rusqlite::Connection::open(&other).expect("a database");
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0)).expect("a count");
    assert_eq!(tables, 1);
}

#[test]
fn a_newer_database_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("fleet.db");
    drop(Sqlite::open(&path).expect("a new file"));
    let connection = rusqlite::Connection::open(&path).expect("a database");
    connection.pragma_update(None, "user_version", 999).expect("a version");
    drop(connection);
    assert!(matches!(refusal(&path), OpenError::Newer { found: 999, .. }));
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let error = refusal(&directory.path().join("absent").join("fleet.db"));
    assert!(error.to_string().contains("absent"), "{error}");
}
