//! What the tests of the store share: short ways to write, a clock that moves by hand, and a disk that fails
//! on command. It holds no assertions.

// Each test file is a program of its own and uses a part of this.
#![allow(dead_code)]

use std::{
    future::Future,
    io,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use bellwether_store::{Change, Clock, Draft, Durability, Expect, Options, Space, Write};
use jiff::Timestamp;
use parking_lot::Mutex;
use rand::Rng;
use redb::StorageBackend;

pub(crate) fn space(name: &str) -> Space {
    Space::new(name)
}

/// A put of a value that ends with `@` and its own revision.
pub(crate) fn put(space: &Space, path: &str, expect: Expect, value: &str) -> Write {
    Write { space: space.clone(), path: path.into(), expect, change: Change::Put(stamped(value)) }
}

/// A delete whose final state ends with `@` and its own revision.
pub(crate) fn delete(space: &Space, path: &str, expect: Expect, value: &str) -> Write {
    Write { space: space.clone(), path: path.into(), expect, change: Change::Delete(stamped(value)) }
}

fn stamped(value: &str) -> Draft {
    Draft::new(format!("{value}@"), value.len() + 1)
}

/// Runs a test that must not hang.
pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
        tokio::time::timeout(Duration::from_secs(60), test).await.expect("the test hangs")
    })
}

/// A clock that moves by hand.
#[derive(Clone, Default)]
pub(crate) struct HandClock(Arc<AtomicI64>);

impl HandClock {
    pub(crate) fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_millis() as i64, Ordering::SeqCst);
    }
}

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.0.load(Ordering::SeqCst)).unwrap()
    }
}

/// Options with a clock that stands still until it is moved, and no limit on the history.
pub(crate) fn options(clock: &HandClock) -> Options {
    Options {
        history: Duration::from_secs(300),
        history_bytes: usize::MAX,
        durability: Durability::Sync,
        clock: Arc::new(clock.clone()),
        reserve_bytes: 0,
        quick_repair: false,
    }
}

/// What goes wrong on a [`Platter`], at its n-th next write, resize or sync.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Power is cut: this operation and all later ones fail, and what is not synced is in doubt.
    PowerCut,
    /// The next sync fails, and what was to be synced is in doubt.
    SyncFails,
    /// There is no room: writes fail until there is.
    Full,
    /// There is no room, which only the next sync tells; what was to be synced is lost, although reads show it.
    FullAtSync,
}

/// A disk in memory that knows what is synced, and fails on command. Clones are the same disk.
#[derive(Clone, Default)]
pub(crate) struct Platter(Arc<Mutex<Surface>>);

#[derive(Default)]
struct Surface {
    /// What reads show.
    cache: Vec<u8>,
    /// What survives a power cut for certain.
    synced: Vec<u8>,
    unsynced: Vec<Unsynced>,
    trouble: Option<(Trouble, u64)>,
    dead: bool,
    full: bool,
}

enum Unsynced {
    Write { offset: usize, bytes: Vec<u8> },
    Resize { len: usize },
}

impl Unsynced {
    fn apply(&self, image: &mut Vec<u8>) {
        match self {
            Self::Write { offset, bytes } => {
                let end = offset + bytes.len();
                if image.len() < end {
                    image.resize(end, 0);
                }
                image[*offset..end].copy_from_slice(bytes);
            }
            Self::Resize { len } => image.resize(*len, 0),
        }
    }
}

impl Platter {
    pub(crate) fn holding(image: Vec<u8>) -> Self {
        let surface = Surface { cache: image.clone(), synced: image, ..Surface::default() };
        Self(Arc::new(Mutex::new(surface)))
    }

    /// What reads show.
    pub(crate) fn image(&self) -> Vec<u8> {
        self.0.lock().cache.clone()
    }

    pub(crate) fn trouble_after(&self, operations: u64, trouble: Trouble) {
        self.0.lock().trouble = Some((trouble, operations));
    }

    /// There is room again.
    pub(crate) fn make_room(&self) {
        let mut surface = self.0.lock();
        surface.full = false;
        surface.trouble = None;
    }

    /// The disk that is found when the power is back: what was synced, and of the rest a random part, each
    /// write whole, not at all, or any prefix of it.
    pub(crate) fn after_power_cut(&self, random: &mut impl Rng) -> Self {
        let surface = self.0.lock();
        let mut image = surface.synced.clone();
        let odds = random.random_range(0..=3);
        for unsynced in &surface.unsynced {
            if random.random_range(0..3) < odds {
                unsynced.apply(&mut image);
            } else if let Unsynced::Write { offset, bytes } = unsynced
                && random.random_bool(0.5)
            {
                let kept = random.random_range(0..=bytes.len());
                Unsynced::Write { offset: *offset, bytes: bytes[..kept].to_vec() }.apply(&mut image);
            }
        }
        Self::holding(image)
    }
}

impl Surface {
    /// Counts an operation, and says what goes wrong with it.
    fn next_trouble(&mut self) -> Option<Trouble> {
        let (trouble, operations) = self.trouble.as_mut()?;
        if *operations > 0 {
            *operations -= 1;
            return None;
        }
        Some(*trouble)
    }

    fn modify(&mut self, change: Unsynced) -> io::Result<()> {
        self.check()?;
        match self.next_trouble() {
            Some(Trouble::PowerCut) => {
                self.unsynced.push(change);
                self.dead = true;
                return self.check();
            }
            Some(Trouble::Full) => {
                self.full = true;
                return self.check();
            }
            Some(Trouble::SyncFails | Trouble::FullAtSync) | None => {}
        }
        change.apply(&mut self.cache);
        self.unsynced.push(change);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.check()?;
        match self.next_trouble() {
            Some(Trouble::PowerCut) => self.dead = true,
            Some(Trouble::SyncFails) => {
                self.trouble = None;
                return Err(io::Error::other("the sync failed"));
            }
            Some(Trouble::Full) => self.full = true,
            Some(Trouble::FullAtSync) => {
                self.full = true;
                // As Linux does: the pages count as clean, so no later sync writes them.
                self.unsynced.clear();
            }
            None => {
                let unsynced = std::mem::take(&mut self.unsynced);
                unsynced.iter().for_each(|change| change.apply(&mut self.synced));
            }
        }
        self.check()
    }

    fn check(&self) -> io::Result<()> {
        if self.dead {
            return Err(io::Error::other("the power is cut"));
        }
        if self.full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

impl StorageBackend for Platter {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().cache.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let surface = self.0.lock();
        let start = offset as usize;
        let bytes = surface.cache.get(start..start + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.lock().modify(Unsynced::Resize { len: len as usize })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.lock().sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.lock().modify(Unsynced::Write { offset: offset as usize, bytes: data.to_vec() })
    }
}

impl std::fmt::Debug for Platter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Platter")
    }
}
