//! A picture of the clusters made of the change feed only: every watch resumes at the last revision that was heard.

use std::collections::BTreeMap;
use std::fmt;

use bellwether_fleet::client::{Client, ClientError, WatchEvent};
use bellwether_fleet::resource::Resource;
use bellwether_fleet::store::Revision;
use futures::TryStreamExt as _;

use super::Listed;
use crate::server::PATIENCE;

#[derive(Default)]
pub(super) struct Follower {
    seen: Listed,
    heard: Revision,
    events: usize,
    resumed: usize,
}

impl Follower {
    /// Follows until the server is gone.
    pub(super) async fn follow(&mut self, client: &Client) {
        match self.read(client, |_| false).await {
            Ok(()) | Err(ClientError::Unreachable { .. }) => {}
            // A server that has lost its database may end a watch before it is gone itself.
            Err(error) if error.status().is_some_and(|status| status.as_u16() == 503) => {}
            Err(error) => panic!("a watch was refused: {error}"),
        }
    }

    /// Resumes, and follows up to a state of the marker.
    pub(super) async fn catch_up(&mut self, client: &Client, marked: &Resource) {
        self.resumed += usize::from(self.heard > 0);
        let caught_up = self.read(client, |seen| seen == marked);
        match tokio::time::timeout(PATIENCE, caught_up).await {
            Ok(outcome) => outcome.unwrap(),
            Err(_) => panic!("the marker was not heard of within {PATIENCE:?} of revision {}", self.heard),
        }
    }

    async fn read(
        &mut self,
        client: &Client,
        is_last: impl Fn(&Resource) -> bool,
    ) -> Result<(), ClientError> {
        let events = client.watch("/clusters", self.heard).await?;
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

    /// Takes over a change, which must fit what was heard before: else one is missing or came twice.
    fn apply(&mut self, WatchEvent { event, revision, resource }: WatchEvent) {
        let name = resource.name.clone();
        assert!(revision > self.heard, "{name}: revision {revision} after {}", self.heard);
        let before = self.seen.insert(name.clone(), resource);
        match (event.as_str(), before) {
            ("ADDED", None) => {}
            ("MODIFIED", Some(before)) => {
                let (was, is) = (before.generation, self.seen[&name].generation);
                assert!(was <= is, "the generation of {name} went back from {was} to {is}");
            }
            (event, before) => panic!("{name} was {event} and before was {before:?}"),
        }
        self.heard = revision;
        self.events += 1;
    }

    /// The picture must be the list, cluster by cluster.
    pub(super) fn compare(&self, listed: &Listed) {
        let differ: BTreeMap<_, _> =
            listed.iter().filter(|(name, cluster)| self.seen.get(*name) != Some(*cluster)).collect();
        assert!(differ.is_empty(), "the feed and the list disagree: {differ:?}");
        assert_eq!(self.seen.len(), listed.len(), "the feed told of clusters that there are not");
    }
}

impl fmt::Display for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} events over {} resumed watches, up to revision {}",
            self.events, self.resumed, self.heard
        )
    }
}
