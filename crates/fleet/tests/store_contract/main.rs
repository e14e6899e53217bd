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
#[cfg(feature = "real-postgres")]
use bellwether_fleet::store::postgres::Postgres;
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

        #[cfg(feature = "real-postgres")]
        mod on_postgres {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    super::$name(crate::postgres().await.as_ref()).await;
                }
            )+
        }
    };
}

mod feed;
mod fixture;
mod needs;
#[cfg(feature = "real-postgres")]
mod processes;
mod reading;
mod sqlite_files;
mod upgrade;
mod writing;

fn sqlite() -> Arc<dyn Store> {
    Arc::new(Sqlite::in_memory().expect("SQLite opens"))
}

#[cfg(feature = "real-postgres")]
async fn postgres() -> Arc<dyn Store> {
    let server = bellwether_testkit::postgres::Postgres::start();
    Arc::new(Postgres::connect(server.url()).await.expect("PostgreSQL opens"))
}
