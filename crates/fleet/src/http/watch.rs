//! The change feed over HTTP: server-sent events, one for every change, resumable by the id of the last one heard.

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

/// How often something is sent when nothing happens, so that both ends notice when the other is gone.
const STILL_HERE: Duration = Duration::from_secs(15);
/// The header by which a client says what it last heard.
const LAST_HEARD: &str = "last-event-id";

/// Which changes one who watches is told.
struct Interest {
    kind: Option<String>,
    owner: Option<Id>,
    tenancy: Option<Tenancy>,
}

impl Interest {
    fn admits(&self, event: &Event) -> bool {
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
        let last_heard = self.parts.headers.get(LAST_HEARD).and_then(|value| value.to_str().ok());
        let since = parameters.since(last_heard)?;
        parameters.finish()?;
        let place = self.api.watchers.clone().try_acquire_owned().map_err(|_| {
            Problem::new(
                Code::Unavailable,
                "as many clients watch already as this server lets; try again later",
            )
        })?;
        let interest = Interest { kind, owner, tenancy: self.caller.tenancy.clone() };
        let events = self.api.fleet.feed().watch(since).await?;
        let path = self.parts.uri.path().to_owned();
        let trace =
            self.parts.extensions.get::<RequestIds>().map(|ids| ids.trace.clone()).unwrap_or_default();
        let lines = events.filter_map(move |event| {
            let line = match event {
                Ok(event) => interest.admits(&event).then(|| tell(&event)),
                Err(error) => Some(tell_end(&Problem::from(error), &path, &trace)),
            };
            std::future::ready(line)
        });
        let stream = with_signs_of_life(lines).take_until(self.api.stopping.clone().cancelled_owned());
        let held = stream.map(move |line| {
            let _ = &place;
            Ok::<_, Infallible>(line)
        });
        let mut response = Response::new(Body::from_stream(held));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        Ok(response)
    }
}

fn tell(event: &Event) -> Bytes {
    let name = match event.kind {
        EventKind::Added => "ADDED",
        EventKind::Modified => "MODIFIED",
        EventKind::Deleted => "DELETED",
    };
    let data = serde_json::to_string(&*event.resource).unwrap_or_default();
    Bytes::from(format!("event: {name}\nid: {}\ndata: {data}\n\n", event.revision))
}

/// The last words of a feed that cannot go on.
fn tell_end(problem: &Problem, path: &str, trace: &str) -> Bytes {
    Bytes::from(format!("event: ERROR\ndata: {}\n\n", problem.json(path, trace, Timestamp::now())))
}

/// A comment first, so that the answer begins at once, and one whenever nothing was said for a while.
fn with_signs_of_life(lines: impl Stream<Item = Bytes> + Send) -> impl Stream<Item = Bytes> + Send {
    let first = futures::stream::iter([Bytes::from_static(b": watching\n\n")]);
    let lines = Box::pin(lines);
    let paced = futures::stream::unfold(lines, |mut lines| async move {
        match tokio::time::timeout(STILL_HERE, lines.next()).await {
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
                Self::new(Code::Gone, format!("{error}: list again, and watch from there"))
            }
            FeedError::Store(error) => error.into(),
        }
    }
}
