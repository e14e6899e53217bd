//! What every store promises, run on each of them: the same functions on SQLite and, with the feature `real-postgres`, on
//! PostgreSQL.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on ends with a panic"
)]

use std::sync::Arc;

use bellwether_fleet::store::Store;
use bellwether_fleet::store::sqlite::Sqlite;

/// Makes a test on each store of functions that take one.
macro_rules! contract {
    ($($(#[$attribute:meta])* $name:ident),+ $(,)?) => {
        mod on_sqlite {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    super::$name(crate::sqlite().as_ref()).await;
                }
            )+
        }
    };
}

mod feed;
mod fixture;
mod needs;
mod reading;
mod sqlite_files;
mod writing;

fn sqlite() -> Arc<dyn Store> {
    Arc::new(Sqlite::in_memory().expect("SQLite opens"))
}
