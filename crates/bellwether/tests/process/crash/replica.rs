//! A replica of the objects that is built from watch events: one list at the start (and after a 410), and then every watch
//! resumes at the last revision.

use std::collections::BTreeMap;
use std::fmt;

use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};

use super::recorder::{Recorder, Snapshot, Version};
use crate::server::WAIT_TIMEOUT;

#[derive(Default)]
pub(crate) struct Replica {
    objects: BTreeMap<String, Version>,
    /// The last revision that was seen; `None` before the first list.
    revision: Option<u64>,
    events: usize,
    resumed: usize,
    expired: usize,
}

/// How a watch ended.
enum Ending {
    /// The connection ended, or the awaited revision was seen.
    Ended,
    /// The revision is too old (410): a new list is needed.
    Expired,
}

impl Replica {
    /// Watches until the connection ends.
    pub(crate) async fn follow(&mut self, configmaps: &Api<ConfigMap>, recorder: &Recorder) {
        self.watch(configmaps, u64::MAX, recorder).await;
    }

    /// Resumes the watch, and reads events up to a revision.
    pub(crate) async fn catch_up(&mut self, configmaps: &Api<ConfigMap>, to: u64, recorder: &Recorder) {
        let caught_up = async {
            while self.revision.is_none_or(|revision| revision < to) {
                self.watch(configmaps, to, recorder).await;
            }
        };
        if tokio::time::timeout(WAIT_TIMEOUT, caught_up).await.is_err() {
            panic!(
                "the watcher did not see revision {to} within {WAIT_TIMEOUT:?}: it is at {:?}",
                self.revision
            );
        }
    }

    async fn watch(&mut self, configmaps: &Api<ConfigMap>, to: u64, recorder: &Recorder) {
        let from = match self.revision {
            Some(revision) => {
                self.resumed += 1;
                revision
            }
            None => match self.list(configmaps).await {
                Ok(revision) => revision,
                Err(_) => return,
            },
        };
        if let Ok(Ending::Expired) = self.read(configmaps, from, to, recorder).await {
            self.expired += 1;
            self.revision = None;
        }
    }

    async fn list(&mut self, configmaps: &Api<ConfigMap>) -> kube::Result<u64> {
        let snapshot = Snapshot::of(configmaps.list(&ListParams::default()).await?);
        self.objects = snapshot.objects;
        self.revision = Some(snapshot.revision);
        Ok(snapshot.revision)
    }

    async fn read(
        &mut self,
        configmaps: &Api<ConfigMap>,
        from: u64,
        to: u64,
        recorder: &Recorder,
    ) -> kube::Result<Ending> {
        let mut revision = from;
        let stream = configmaps.watch(&WatchParams::default(), &revision.to_string()).await?;
        futures::pin_mut!(stream);
        while revision < to {
            let Some(event) = stream.try_next().await? else { break };
            revision = match event {
                WatchEvent::Error(status) if status.code == 410 => return Ok(Ending::Expired),
                WatchEvent::Error(status) => panic!("a watch failed: {status:?}"),
                WatchEvent::Bookmark(bookmark) => {
                    let at = bookmark.metadata.resource_version.parse().unwrap();
                    assert!(at >= revision, "a bookmark goes back from {revision} to {at}");
                    at
                }
                change => self.apply(change, revision, recorder),
            };
            self.revision = Some(revision);
        }
        Ok(Ending::Ended)
    }

    /// Applies a change. It must be consistent with the replica: otherwise an event is missing or was sent twice.
    fn apply(&mut self, change: WatchEvent<ConfigMap>, after: u64, recorder: &Recorder) -> u64 {
        let (object, deleted) = match &change {
            WatchEvent::Deleted(object) => (object, true),
            WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
            other => panic!("not a change: {other:?}"),
        };
        let name = object.metadata.name.clone().unwrap();
        let version = Version::of(object);
        assert!(version.revision > after, "{name}: revision {} after {after}", version.revision);
        recorder.see(&name, &version);
        let before = self.objects.get(&name).map(|before| before.uid.as_str());
        let is_consistent = match &change {
            WatchEvent::Added(_) => before.is_none(),
            _ => before == Some(version.uid.as_str()),
        };
        assert!(is_consistent, "{name}: {change:?} does not follow {before:?}");
        self.events += 1;
        let revision = version.revision;
        if deleted {
            self.objects.remove(&name);
        } else {
            self.objects.insert(name, version);
        }
        revision
    }

    /// Checks that the replica equals the list.
    pub(crate) fn compare(&self, snapshot: &Snapshot) {
        assert_eq!(self.objects, snapshot.objects, "the watcher and the list disagree");
    }

    pub(crate) fn resumed(&self) -> usize {
        self.resumed
    }
}

impl fmt::Display for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} events over {} resumed watches, {} expired", self.events, self.resumed, self.expired)
    }
}
