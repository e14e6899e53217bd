//! Shards: several processes divide the resources among them by a hash of the ID.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::str::FromStr;

use bellwether_fleet::resource::Id;
use tokio::sync::watch;

/// One of several shards, written as `0/3`: the first of three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The number of the shard, from 0.
    pub index: u32,
    /// How many there are.
    pub count: NonZeroU32,
}

/// All resources are one shard.
impl Default for Shard {
    fn default() -> Self {
        Self { index: 0, count: NonZeroU32::MIN }
    }
}

/// Why a text is not a shard.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a shard is written as INDEX/COUNT with INDEX from 0 to COUNT-1, such as 0/3")]
pub struct InvalidShard;

impl FromStr for Shard {
    type Err = InvalidShard;

    fn from_str(text: &str) -> Result<Self, InvalidShard> {
        let (index, count) = text.split_once('/').ok_or(InvalidShard)?;
        let shard = Self {
            index: index.parse().map_err(|_| InvalidShard)?,
            count: count.parse().map_err(|_| InvalidShard)?,
        };
        if shard.index < shard.count.get() { Ok(shard) } else { Err(InvalidShard) }
    }
}

/// The shard of a resource. It depends on the ID alone, so that all processes agree.
pub fn shard_of(id: Id, count: NonZeroU32) -> u32 {
    // The last eight bytes of an ID are random, except for two bits.
    let [.., a, b, c, d, e, f] = id.to_bytes();
    let random = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
    u32::try_from(random % u64::from(count.get())).unwrap_or_default()
}

/// The shards that this process owns now. Clones share the same state.
#[derive(Clone, Debug)]
pub struct OwnedShards {
    count: NonZeroU32,
    owned: watch::Receiver<BTreeSet<u32>>,
}

impl OwnedShards {
    /// All resources belong to this process.
    pub fn all() -> Self {
        Self::fixed(Shard::default())
    }

    /// This process always owns one shard.
    pub fn fixed(shard: Shard) -> Self {
        Self { count: shard.count, owned: watch::channel(BTreeSet::from([shard.index])).1 }
    }

    /// The holder of the sender decides which of `count` shards this process owns; none at first.
    pub fn manual(count: NonZeroU32) -> (watch::Sender<BTreeSet<u32>>, Self) {
        let (sender, owned) = watch::channel(BTreeSet::new());
        (sender, Self { count, owned })
    }

    /// Whether a resource belongs to this process now.
    pub fn contains(&self, id: Id) -> bool {
        self.owned.borrow().contains(&shard_of(id, self.count))
    }

    /// Whether this process owns no shard: it is a standby.
    pub fn is_empty(&self) -> bool {
        self.owned.borrow().is_empty()
    }

    /// Resolves when the owned shards have changed since the last call.
    pub async fn changed(&mut self) {
        if self.owned.changed().await.is_err() {
            // The owned shards are final.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn shards_are_parsed() {
        assert_eq!("2/3".parse(), Ok(Shard { index: 2, count: NonZeroU32::new(3).unwrap() }));
        for text in ["", "1", "3/3", "0/0", "-1/3", "a/b", "1/3/4"] {
            assert_eq!(text.parse::<Shard>(), Err(InvalidShard), "{text}");
        }
    }

    #[test]
    fn every_resource_belongs_to_exactly_one_shard_and_shards_have_similar_sizes() {
        let count = NonZeroU32::new(4).unwrap();
        let shards: Vec<OwnedShards> =
            (0..4).map(|index| OwnedShards::fixed(Shard { index, count })).collect();
        let mut sizes = [0_u32; 4];
        for _ in 0..4_000 {
            let id = Id::at(Timestamp::UNIX_EPOCH);
            let owners: Vec<usize> = (0..4).filter(|shard| shards[*shard].contains(id)).collect();
            assert_eq!(owners.len(), 1);
            sizes[owners[0]] += 1;
        }
        assert!(sizes.iter().all(|size| (850..1_150).contains(size)), "{sizes:?}");
    }

    #[tokio::test]
    async fn owned_shards_change() {
        let (sender, mut shards) = OwnedShards::manual(NonZeroU32::MIN);
        let id = Id::at(Timestamp::UNIX_EPOCH);
        assert!(shards.is_empty() && !shards.contains(id));
        sender.send_replace(BTreeSet::from([0]));
        shards.changed().await;
        assert!(shards.contains(id));
        assert!(OwnedShards::all().contains(id));
    }
}
