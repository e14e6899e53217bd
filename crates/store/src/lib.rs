//! An embedded, revisioned, watchable object store.
//!
//! Every object lives in memory under a [`Space`] and a path, and is durable before anybody sees it: writes
//! queue up for one writer thread, which puts a whole batch into one transaction, waits for one sync,
//! publishes the batch and only then answers. Each write gets its own [`Revision`]; recent ones stay
//! available for [watches](Store::watch) and [lists in the past](Store::snapshot_at), also after a restart.
//!
//! The store does not know what a value means. It never parses one, apart from what its owner derives with
//! [`Facts`], and it does not spread over several machines.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! use bellwether_store::{Change, Draft, Expect, Options, Space, Store, Write};
//!
//! let store: Store<()> = Store::in_memory(Options::default());
//! let space = Space::new("hub/configmaps");
//! let mut watch = store.watch(&space, store.revision()).unwrap();
//!
//! let draft = Draft::new(r#"{"revision":""}"#, 13);
//! let write = Write {
//!     space: space.clone(),
//!     path: "default/colours".into(),
//!     expect: Expect::Absent,
//!     change: Change::Put(draft),
//! };
//! let entry = store.commit(write).await.unwrap();
//!
//! assert_eq!(entry.value().as_ref(), br#"{"revision":"1"}"#);
//! assert_eq!(watch.next().await.unwrap()[0].entry().revision(), entry.revision());
//! # });
//! ```

mod disk;
mod entry;
mod error;
mod event;
mod files;
mod keyspace;
mod ledger;
mod medium;
mod options;
mod record;
mod reserve;
mod shared;
mod snapshot;
mod store;
mod watch;
mod write;
mod writer;

pub use bellwether_clock::{Clock, SystemClock};
pub use entry::{Entry, Facts, Revision, Space};
pub use error::{CommitError, Compacted, OpenError, SnapshotError};
pub use event::{Event, EventKind, FRAME_SLOTS};
pub use options::{Durability, Health, Options};
pub use snapshot::Snapshot;
pub use store::Store;
pub use watch::Watch;
pub use write::{Change, Draft, Expect, VALUE_LIMIT, Write};
