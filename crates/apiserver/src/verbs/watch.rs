//! Watch: every change of what is selected, in order, from a revision on; or the current state first, as events.
//! A watcher is a cursor into the history; a frame is written once and shared by all who want it as it is.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bellwether_store::{Compacted, Event, EventKind, Revision, Watch};
use bytes::{Bytes, BytesMut};
use http::{Response, StatusCode};
use rand::Rng as _;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep};

use super::read::{self, Filter};
use super::{Call, render};
use crate::body::Body;
use crate::collection::Stored;
use crate::negotiate::{Accepted, Encoding, Form, MetaVersion};
use crate::object::{Canonical, Head, Meta, parse, set};
use crate::options::{At, ListOptions};
use crate::status::{Answer, Refusal};
use crate::table::{self, Style};

/// A watch that names no end ends after this, times a random factor between one and two.
const SHORTEST: Duration = Duration::from_secs(1800);
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// The last bookmark comes shortly before the end, so that the client can go on from there.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// Frames are sent together up to about this size.
const TOGETHER: usize = 64 * 1024;

/// The shared frames of an event.
const FULL: usize = 0;
const METADATA: usize = 1;

pub(super) async fn watch(call: Call, options: ListOptions, accepted: Accepted) -> Answer<Response<Body>> {
    if accepted.encoding == Encoding::Yaml {
        return Err(Refusal::not_acceptable(&["application/json"]));
    }
    let filter = Filter::read(&call, &options)?;
    let style = match accepted.form {
        Form::Table(version) => Some(render::style(&call, version)?),
        _ => None,
    };
    let duration = options.timeout.unwrap_or_else(|| SHORTEST.mul_f64(rand::rng().random_range(1.0..2.0)));
    let now = Instant::now();
    let mut watcher = Watcher {
        form: accepted.form,
        style,
        columns_sent: false,
        filter,
        bookmarks: options.bookmarks,
        next_bookmark: now + BOOKMARK_EVERY.min(duration.saturating_sub(BOOKMARK_BEFORE_END)),
        deadline: now + duration,
        timer: Box::pin(tokio::time::sleep_until(now + duration)),
        closing: call.server.closing.subscribe(),
        changes: call.cluster.changes.subscribe(),
        ready: VecDeque::new(),
        phase: Phase::Ended,
        call,
    };
    watcher.begin(&options).await;
    let response = render::with_headers(StatusCode::OK, Body::empty(), Encoding::Json);
    let stream = futures::stream::unfold(watcher, |mut watcher| async move {
        let chunk = watcher.next().await?;
        Some((chunk, watcher))
    });
    Ok(response.map(|_| Body::stream(stream)))
}

/// A watch in progress.
struct Watcher {
    call: Call,
    form: Form,
    style: Option<Style>,
    columns_sent: bool,
    filter: Filter,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
    /// Kept from event to event, like the next: making them anew would cost more than an event does.
    timer: Pin<Box<Sleep>>,
    closing: watch::Receiver<bool>,
    changes: watch::Receiver<Revision>,
    /// Frames that are ready to go out.
    ready: VecDeque<Bytes>,
    phase: Phase,
}

/// What ends a wait.
enum Woken {
    Events(Result<Vec<Arc<Event<Head>>>, Compacted>),
    /// The kinds that are served changed.
    Served,
    Time,
}

enum Phase {
    /// The current state, still to be sent; then the events after it.
    Initial {
        entries: std::vec::IntoIter<Stored>,
        end: Option<Revision>,
        then: Watch<Head>,
    },
    Live(Watch<Head>),
    Ended,
}

impl Watcher {
    async fn begin(&mut self, options: &ListOptions) {
        let server = self.call.server.clone();
        let store = &server.store;
        let space = self.call.collection().space();
        let from_start = match options.at {
            At::Newest | At::Any => options.send_initial_events.unwrap_or(true),
            At::NotOlderThan(_) => options.send_initial_events == Some(true),
            At::Exactly(_) => false,
        };
        if let (true, At::NotOlderThan(revision)) = (from_start, options.at) {
            // The state that is sent has to be at least that new.
            if !store.reached(Revision(revision), read::FRESHNESS).await {
                self.phase = self.failed(&Refusal::future_revision(revision, store.revision().0));
                return;
            }
        }
        let after = match options.at {
            At::NotOlderThan(revision) | At::Exactly(revision) => Revision(revision),
            At::Newest | At::Any => store.revision(),
        };
        if !from_start {
            self.phase = match store.watch(&space, after) {
                Ok(watch) => Phase::Live(watch),
                Err(compacted) => self.expired(after, compacted.compacted),
            };
            return;
        }
        let snapshot = store.snapshot(&space);
        let entries: Vec<Stored> =
            snapshot.iter().filter(|entry| self.filter.matches(entry)).cloned().collect();
        // The end of the initial events is a bookmark, and those are for whoever asks for them.
        let marked = options.send_initial_events == Some(true) && options.bookmarks;
        let end = marked.then_some(snapshot.revision());
        self.phase = match store.watch(&space, snapshot.revision()) {
            Ok(then) => Phase::Initial { entries: entries.into_iter(), end, then },
            Err(compacted) => self.expired(snapshot.revision(), compacted.compacted),
        };
    }

    /// Says that the revision is gone, and ends.
    fn expired(&mut self, asked: Revision, compacted: Revision) -> Phase {
        self.failed(&Refusal::expired(format!("too old resource version: {asked} ({compacted})")))
    }

    /// Says why it cannot go on, and ends.
    fn failed(&mut self, refusal: &Refusal) -> Phase {
        let frame = [b"{\"type\":\"ERROR\",\"object\":", refusal.to_json().as_ref(), b"}\n"].concat();
        self.ready.push_back(frame.into());
        Phase::Ended
    }

    /// The next bytes for the client, or the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(chunk) = self.take_ready() {
                return Some(chunk);
            }
            match std::mem::replace(&mut self.phase, Phase::Ended) {
                Phase::Ended => return None,
                Phase::Initial { mut entries, end, then } => {
                    self.fill_initial(&mut entries);
                    if entries.len() > 0 {
                        self.phase = Phase::Initial { entries, end, then };
                    } else {
                        if let Some(revision) = end {
                            let bookmark = self.bookmark(revision, true);
                            self.ready.push_back(bookmark);
                        }
                        self.phase = Phase::Live(then);
                    }
                }
                Phase::Live(watch) => self.phase = self.live(watch).await,
            }
        }
    }

    async fn live(&mut self, mut watch: Watch<Head>) -> Phase {
        // A watch that always has something to say ends in time as well.
        if *self.closing.borrow() || Instant::now() >= self.deadline {
            return Phase::Ended;
        }
        let wake = if self.bookmarks { self.next_bookmark.min(self.deadline) } else { self.deadline };
        if self.timer.deadline() != wake {
            self.timer.as_mut().reset(wake);
        }
        let events = tokio::select! {
            biased;
            events = watch.next() => Woken::Events(events),
            _ = self.closing.wait_for(|closing| *closing) => return Phase::Ended,
            _ = self.changes.changed() => Woken::Served,
            () = self.timer.as_mut() => Woken::Time,
        };
        match events {
            Woken::Served if !self.call.is_served() => Phase::Ended,
            Woken::Served => Phase::Live(watch),
            Woken::Time if Instant::now() >= self.deadline => Phase::Ended,
            Woken::Time => self.mark(watch),
            Woken::Events(Ok(events)) => {
                self.show(&events);
                Phase::Live(watch)
            }
            Woken::Events(Err(compacted)) => self.expired(watch.position(), compacted.compacted),
        }
    }

    /// Says how far the watch has come: everything up to there was seen, once what is there was read.
    fn mark(&mut self, mut watch: Watch<Head>) -> Phase {
        match watch.try_next() {
            Ok(events) => {
                self.show(&events);
                let bookmark = self.bookmark(watch.position(), false);
                self.ready.push_back(bookmark);
                self.schedule_bookmark();
                Phase::Live(watch)
            }
            Err(compacted) => self.expired(watch.position(), compacted.compacted),
        }
    }

    fn show(&mut self, events: &[Arc<Event<Head>>]) {
        for event in events {
            if let Some(frame) = self.frame(event) {
                self.ready.push_back(frame);
            }
        }
    }

    fn schedule_bookmark(&mut self) {
        let now = Instant::now();
        let last = self.deadline.checked_sub(BOOKMARK_BEFORE_END).unwrap_or(now);
        self.next_bookmark = if now >= last { self.deadline } else { (now + BOOKMARK_EVERY).min(last) };
    }

    fn fill_initial(&mut self, entries: &mut std::vec::IntoIter<Stored>) {
        let mut size = 0;
        for entry in entries.by_ref() {
            let frame = self.rendered("ADDED", entry.value(), entry.revision());
            size += frame.len();
            self.ready.push_back(frame);
            if size >= TOGETHER {
                return;
            }
        }
    }

    /// Ready frames as one chunk; a single frame goes out as it is, without a copy.
    fn take_ready(&mut self) -> Option<Bytes> {
        let first = self.ready.pop_front()?;
        if self.ready.is_empty() || first.len() >= TOGETHER {
            return Some(first);
        }
        let mut chunk = BytesMut::with_capacity(TOGETHER);
        chunk.extend_from_slice(&first);
        while let Some(frame) = self.ready.front() {
            if chunk.len() + frame.len() > TOGETHER {
                break;
            }
            chunk.extend_from_slice(frame);
            self.ready.pop_front();
        }
        Some(chunk.freeze())
    }

    /// What an event is to this watcher: a change, something that came into or went out of the selection, or nothing.
    fn frame(&mut self, event: &Arc<Event<Head>>) -> Option<Bytes> {
        let entry = event.entry();
        if !entry.path().starts_with(&self.filter.prefix) {
            return None;
        }
        let before = event.previous().is_some_and(|previous| self.filter.matches(previous));
        let after = event.kind() == EventKind::Put && self.filter.matches(entry);
        match (before, after) {
            (false, false) => None,
            (false, true) if event.previous().is_none() => Some(self.shared(event, "ADDED")),
            (false, true) => Some(self.rendered("ADDED", entry.value(), entry.revision())),
            (true, true) => Some(self.shared(event, "MODIFIED")),
            (true, false) if event.kind() == EventKind::Delete => Some(self.shared(event, "DELETED")),
            // It went out of the selection: its last state inside, at the revision of the change.
            (true, false) => {
                let last = parse(event.previous()?.value());
                let stamped = Canonical::of(&last).stamped(&event.revision().to_string());
                Some(self.rendered("DELETED", &stamped, event.revision()))
            }
        }
    }

    fn shared(&mut self, event: &Arc<Event<Head>>, kind: &'static str) -> Bytes {
        let slot = match self.form {
            Form::Object if self.call.resource.sends_as_stored(event.revision()) => FULL,
            Form::Metadata(MetaVersion::V1, _) => METADATA,
            _ => return self.rendered(kind, event.entry().value(), event.revision()),
        };
        let event = event.clone();
        event.frame(slot, || self.rendered(kind, event.entry().value(), event.revision()))
    }

    fn rendered(&mut self, kind: &str, stored: &Bytes, at: Revision) -> Bytes {
        match (self.form, self.style) {
            (Form::Table(_), Some(style)) => frame(kind, &to_bytes(&self.table(stored, style))),
            (Form::Metadata(version, _), _) => {
                frame(kind, &to_bytes(&table::partial(parse(stored), version)))
            }
            _ => frame(kind, &render::versioned(&self.call.resource, stored, at)),
        }
    }

    /// The table of one object; only the first frame of a watch defines the columns.
    fn table(&mut self, stored: &Bytes, style: Style) -> Value {
        let style = Style { now: self.call.server.clock.now(), ..style };
        let object = parse(stored);
        let metadata = json!({"resourceVersion": object.meta_str("resourceVersion")});
        let columns = if std::mem::replace(&mut self.columns_sent, true) {
            Value::Null
        } else {
            table::columns(&self.call.resource)
        };
        table::table(style.version, metadata, columns, vec![table::row(&self.call.resource, object, style)])
    }

    fn bookmark(&mut self, revision: Revision, initial_events_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial_events_end {
            set(&mut metadata, "annotations", json!({"k8s.io/initial-events-end": "true"}));
        }
        let object = json!({
            "kind": self.call.resource.kind,
            "apiVersion": self.call.resource.api_version(),
            "metadata": metadata,
        });
        let bytes: Bytes = to_bytes(&object).into();
        match self.form {
            Form::Object => frame("BOOKMARK", &bytes),
            _ => self.rendered("BOOKMARK", &bytes, revision),
        }
    }
}

fn to_bytes(value: &Value) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

fn frame(kind: &str, object: &[u8]) -> Bytes {
    let mut frame = Vec::with_capacity(object.len() + 40);
    frame.extend_from_slice(b"{\"type\":\"");
    frame.extend_from_slice(kind.as_bytes());
    frame.extend_from_slice(b"\",\"object\":");
    frame.extend_from_slice(object);
    frame.extend_from_slice(b"}\n");
    frame.into()
}
