//! The change feed over HTTP, as server-sent events: one for every change, resumable at the ID of the last received event.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures::{Stream, StreamExt as _};
use jiff::Timestamp;

use super::answer::Request;
use super::layers::RequestIds;
use super::parameters::Parameters;
use super::problem::{Code, Problem};
use crate::feed::FeedError;
use crate::resource::{Id, Tenancy};
use crate::store::{Event, EventKind};

/// How often a keep-alive is sent while nothing changes, so that both ends detect a lost connection.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// The header with the ID of the last event that a client has received.
const LAST_EVENT_ID: &str = "last-event-id";

/// Selects the changes of a watch.
struct WatchFilter {
    kind: Option<String>,
    owner: Option<Id>,
    tenancy: Option<Tenancy>,
}

impl WatchFilter {
    fn matches(&self, event: &Event) -> bool {
        let resource = &event.resource;
        self.kind.as_ref().is_none_or(|kind| *kind == resource.kind)
            && self.owner.is_none_or(|owner| resource.owner() == Some(owner))
            && self.tenancy.as_ref().is_none_or(|tenancy| *tenancy == resource.tenancy)
    }
}

impl Request<'_> {
    pub(super) async fn watch(
        &self,
        mut parameters: Parameters,
        kind: Option<String>,
        owner: Option<Id>,
    ) -> Result<Response, Problem> {
        let last_event_id = self.parts.headers.get(LAST_EVENT_ID).and_then(|value| value.to_str().ok());
        let since = parameters.since(last_event_id)?;
        parameters.finish()?;
        let permit = self.api.watchers.clone().try_acquire_owned().map_err(|_| {
            Problem::new(
                Code::Unavailable,
                "the limit of concurrent watches (limits.max_watchers) is reached; try again later",
            )
        })?;
        let filter = WatchFilter { kind, owner, tenancy: self.caller.tenancy.clone() };
        let events = self.api.fleet.feed().watch(since).await?;
        let path = self.parts.uri.path().to_owned();
        let trace =
            self.parts.extensions.get::<RequestIds>().map(|ids| ids.trace.clone()).unwrap_or_default();
        let lines = events.filter_map(move |event| {
            let line = match event {
                Ok(event) => filter.matches(&event).then(|| format_event(&event)),
                Err(error) => Some(format_error(&Problem::from(error), &path, &trace)),
            };
            std::future::ready(line)
        });
        let stream = with_keep_alive(lines).take_until(self.api.stopping.clone().cancelled_owned());
        let held = stream.map(move |line| {
            let _ = &permit;
            Ok::<_, Infallible>(line)
        });
        let mut response = Response::new(Body::from_stream(held));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        Ok(response)
    }
}

fn format_event(event: &Event) -> Bytes {
    let name = match event.kind {
        EventKind::Added => "ADDED",
        EventKind::Modified => "MODIFIED",
        EventKind::Deleted => "DELETED",
    };
    let data = serde_json::to_string(&*event.resource).unwrap_or_default();
    Bytes::from(format!("event: {name}\nid: {}\ndata: {data}\n\n", event.revision))
}

/// The last event of a watch that cannot continue.
fn format_error(problem: &Problem, path: &str, trace: &str) -> Bytes {
    Bytes::from(format!("event: ERROR\ndata: {}\n\n", problem.json(path, trace, Timestamp::now())))
}

/// Sends a comment at the start, so that the response starts at once, and another after every interval without an event.
fn with_keep_alive(lines: impl Stream<Item = Bytes> + Send) -> impl Stream<Item = Bytes> + Send {
    let first = futures::stream::iter([Bytes::from_static(b": watching\n\n")]);
    let lines = Box::pin(lines);
    let paced = futures::stream::unfold(lines, |mut lines| async move {
        match tokio::time::timeout(KEEP_ALIVE_INTERVAL, lines.next()).await {
            Ok(Some(line)) => Some((line, lines)),
            Ok(None) => None,
            Err(_) => Some((Bytes::from_static(b": still here\n\n"), lines)),
        }
    });
    first.chain(paced)
}

impl From<FeedError> for Problem {
    fn from(error: FeedError) -> Self {
        match error {
            FeedError::Expired(_) => {
                Self::new(Code::Gone, format!("{error}: list again, and watch from the revision of the list"))
            }
            FeedError::Store(error) => error.into(),
        }
    }
}
