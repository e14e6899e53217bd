//! A replica of the clusters that is built from the change feed: every watch resumes at the last received revision.

use std::collections::BTreeMap;
use std::fmt;

use bellwether_fleet::client::{Client, ClientError, WatchEvent};
use bellwether_fleet::resource::Resource;
use bellwether_fleet::store::Revision;
use futures::TryStreamExt as _;

use super::ClustersByName;
use crate::server::WAIT_TIMEOUT;

#[derive(Default)]
pub(super) struct FeedReplica {
    clusters: ClustersByName,
    last_revision: Revision,
    events: usize,
    resumed: usize,
}

impl FeedReplica {
    /// Watches until the server has ended.
    pub(super) async fn follow(&mut self, client: &Client) {
        match self.read(client, |_| false).await {
            Ok(()) | Err(ClientError::Unreachable { .. }) => {}
            // A server that has lost its database may end a watch before it is killed.
            Err(error) if error.status().is_some_and(|status| status.as_u16() == 503) => {}
            Err(error) => panic!("a watch failed: {error}"),
        }
    }

    /// Resumes the watch, and reads events up to a state of the marker.
    pub(super) async fn catch_up(&mut self, client: &Client, marked: &Resource) {
        self.resumed += usize::from(self.last_revision > 0);
        let caught_up = self.read(client, |received| received == marked);
        match tokio::time::timeout(WAIT_TIMEOUT, caught_up).await {
            Ok(outcome) => outcome.unwrap(),
            Err(_) => panic!(
                "the marker was not received within {WAIT_TIMEOUT:?} after revision {}",
                self.last_revision
            ),
        }
    }

    async fn read(
        &mut self,
        client: &Client,
        is_last: impl Fn(&Resource) -> bool,
    ) -> Result<(), ClientError> {
        let events = client.watch("/clusters", self.last_revision).await?;
        futures::pin_mut!(events);
        while let Some(event) = events.try_next().await? {
            let last = is_last(&event.resource);
            self.apply(event);
            if last {
                break;
            }
        }
        Ok(())
    }

    /// Applies a change. It must be consistent with the replica: otherwise an event is missing or was sent twice.
    fn apply(&mut self, WatchEvent { event, revision, resource }: WatchEvent) {
        let name = resource.name.clone();
        assert!(revision > self.last_revision, "{name}: revision {revision} after {}", self.last_revision);
        let before = self.clusters.insert(name.clone(), resource);
        match (event.as_str(), before) {
            ("ADDED", None) => {}
            ("MODIFIED", Some(before)) => {
                let (was, is) = (before.generation, self.clusters[&name].generation);
                assert!(was <= is, "the generation of {name} went back from {was} to {is}");
            }
            (event, before) => panic!("{name}: {event} does not follow {before:?}"),
        }
        self.last_revision = revision;
        self.events += 1;
    }

    /// Checks that the replica equals the list.
    pub(super) fn compare(&self, listed: &ClustersByName) {
        let differ: BTreeMap<_, _> =
            listed.iter().filter(|(name, cluster)| self.clusters.get(*name) != Some(*cluster)).collect();
        assert!(differ.is_empty(), "the feed and the list differ: {differ:?}");
        assert_eq!(self.clusters.len(), listed.len(), "the feed has clusters that the list does not have");
    }
}

impl fmt::Display for FeedReplica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} events over {} resumed watches, up to revision {}",
            self.events, self.resumed, self.last_revision
        )
    }
}
