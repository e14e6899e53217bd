//! `get --watch`: what there is, and then a line for every change. When the server goes away it is tried again, from where
//! it was; only who was away for so long that removals were forgotten begins anew.

use std::time::Duration;

use bellwether_fleet::client::{ClientError, WatchEvent};
use bellwether_fleet::store::Revision;
use futures::{Stream, StreamExt as _};
use jiff::Timestamp;

use super::connection::Collection;
use super::show::{self, Owners, Width};
use crate::output::{Format, print, yaml};
use crate::signals::StopSignals;

/// How long to wait before a server that went away is tried again.
const AGAIN: Duration = Duration::from_secs(1);

pub(super) async fn run(collection: &Collection, format: Format) -> anyhow::Result<()> {
    let mut signals = StopSignals::listen()?;
    tokio::select! {
        ended = follow(collection, format) => ended,
        () = signals.next() => Ok(()),
    }
}

async fn follow(collection: &Collection, format: Format) -> anyhow::Result<()> {
    let mut heard: Revision = 0;
    let mut lines = Lines { format, owners: Owners::new(), begun: false };
    let mut first = true;
    let mut complained = false;
    loop {
        let trouble = match collection.client.watch(&collection.path(), heard).await {
            Ok(events) => {
                (first, complained) = (false, false);
                lines.tell(collection, events, &mut heard).await?
            }
            Err(error) if first => return Err(error.into()),
            Err(error) => Some(error),
        };
        match trouble {
            // What happened meanwhile has been forgotten: from the beginning.
            Some(error) if error.status().is_some_and(|status| status.as_u16() == 410) => heard = 0,
            Some(error) if error.status().is_some_and(|status| status.is_client_error()) => {
                return Err(error.into());
            }
            trouble => {
                if !complained {
                    let words =
                        trouble.map_or("the server ended the watch".to_owned(), |error| error.to_string());
                    eprintln!("{words}; trying again");
                    complained = true;
                }
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

struct Lines {
    format: Format,
    owners: Owners,
    begun: bool,
}

impl Lines {
    /// Tells of changes until the watch ends; why it did.
    async fn tell(
        &mut self,
        collection: &Collection,
        events: impl Stream<Item = Result<WatchEvent, ClientError>>,
        heard: &mut Revision,
    ) -> anyhow::Result<Option<ClientError>> {
        let mut events = Box::pin(events);
        while let Some(event) = events.next().await {
            let event = match event {
                Ok(event) => event,
                Err(error) => return Ok(Some(error)),
            };
            if event.resource.owner().is_some_and(|owner| !self.owners.contains_key(&owner)) {
                let more = collection.owners(std::slice::from_ref(&event.resource)).await;
                self.owners.extend(more.unwrap_or_default());
            }
            self.line(collection, &event)?;
            *heard = event.revision;
        }
        Ok(None)
    }

    fn line(&mut self, collection: &Collection, event: &WatchEvent) -> anyhow::Result<()> {
        let item = &event.resource;
        match self.format {
            Format::Json => {
                let line =
                    serde_json::json!({"event": event.event, "revision": event.revision, "resource": item});
                print(&line.to_string())?;
            }
            Format::Yaml => print(&format!("---\n{}", yaml(item)?))?,
            Format::Name => print(&format!("{} {}", event.event, collection.name_of(item)))?,
            Format::Table | Format::Wide => {
                let width = if self.format == Format::Wide { Width::Wide } else { Width::Narrow };
                let lines = show::watched(event, &self.owners, width, Timestamp::now());
                let from = usize::from(self.begun);
                lines.iter().skip(from).try_for_each(|line| print(line))?;
                self.begun = true;
            }
        }
        Ok(())
    }
}
