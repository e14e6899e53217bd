//! `get --watch`: prints all resources or those of some names, and then a line for every change. After a lost connection the watch resumes at the last
//! revision. If the server no longer has that revision (410), it starts again with all resources.

use std::time::Duration;

use bellwether_fleet::client::{ClientError, WatchEvent};
use bellwether_fleet::resource::{Id, Resource};
use bellwether_fleet::store::Revision;
use futures::{Stream, StreamExt as _};
use jiff::Timestamp;

use super::connection::Collection;
use super::show::{self, Owners, Width};
use crate::output::{Format, print, yaml};
use crate::signals::StopSignals;

/// How long to wait before the watch is started again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Watches the resources of these names or IDs, or all if there are none.
pub(super) async fn run(collection: &Collection, names: &[String], format: Format) -> anyhow::Result<()> {
    let mut signals = StopSignals::listen()?;
    tokio::select! {
        ended = follow(collection, names, format) => ended,
        () = signals.next() => Ok(()),
    }
}

async fn follow(collection: &Collection, names: &[String], format: Format) -> anyhow::Result<()> {
    let mut last_revision: Revision = 0;
    let mut printer = Printer { names, format, owners: Owners::new(), printed_header: false };
    let mut first = true;
    let mut reported = false;
    loop {
        let error = match collection.client.watch(&collection.path(), last_revision).await {
            Ok(events) => {
                if first {
                    report_missing(collection, names).await?;
                }
                (first, reported) = (false, false);
                printer.print_events(collection, events, &mut last_revision).await?
            }
            Err(error) if first => return Err(error.into()),
            Err(error) => Some(error),
        };
        match error {
            Some(error) if error.status().is_some_and(|status| status.as_u16() == 410) => last_revision = 0,
            Some(error) if error.status().is_some_and(|status| status.is_client_error()) => {
                return Err(error.into());
            }
            error => {
                if !reported {
                    let message =
                        error.map_or("the server ended the watch".to_owned(), |error| error.to_string());
                    eprintln!("{message}; trying again");
                    reported = true;
                }
                tokio::time::sleep(RETRY_DELAY).await;
            }
        }
    }
}

/// Reports which names do not exist yet. The watch has begun, so that no change after the message is missed.
async fn report_missing(collection: &Collection, names: &[String]) -> anyhow::Result<()> {
    for name in names {
        if !collection.contains(name).await? {
            eprintln!("there is no {} {name} yet; waiting for it", collection.noun.word);
        }
    }
    Ok(())
}

/// Prints watch events.
struct Printer<'a> {
    /// The names or IDs of the resources to print; all if there are none.
    names: &'a [String],
    format: Format,
    owners: Owners,
    printed_header: bool,
}

impl Printer<'_> {
    /// Prints events until the watch ends, and returns the error that ended it.
    async fn print_events(
        &mut self,
        collection: &Collection,
        events: impl Stream<Item = Result<WatchEvent, ClientError>>,
        last_revision: &mut Revision,
    ) -> anyhow::Result<Option<ClientError>> {
        let mut events = Box::pin(events);
        while let Some(event) = events.next().await {
            let event = match event {
                Ok(event) => event,
                Err(error) => return Ok(Some(error)),
            };
            *last_revision = event.revision;
            if !self.prints(&event.resource) {
                continue;
            }
            if event.resource.owner().is_some_and(|owner| !self.owners.contains_key(&owner)) {
                let more = collection.owners(std::slice::from_ref(&event.resource)).await;
                self.owners.extend(more.unwrap_or_default());
            }
            self.print_event(collection, &event)?;
        }
        Ok(None)
    }

    fn prints(&self, item: &Resource) -> bool {
        let is_of = |name: &String| *name == item.name || name.parse().is_ok_and(|id: Id| id == item.id);
        self.names.is_empty() || self.names.iter().any(is_of)
    }

    fn print_event(&mut self, collection: &Collection, event: &WatchEvent) -> anyhow::Result<()> {
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
                let lines = show::format_event(event, &self.owners, width, Timestamp::now());
                let skipped = usize::from(self.printed_header);
                lines.iter().skip(skipped).try_for_each(|line| print(line))?;
                self.printed_header = true;
            }
        }
        Ok(())
    }
}
