//! Get and list: a consistent snapshot at the revision that was asked for, filtered, in pages.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use bellwether_store::{Revision, Snapshot, SnapshotError};
use bytes::{BufMut as _, Bytes, BytesMut};
use http::{Response, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Call, render};
use crate::body::Body;
use crate::collection::Stored;
use crate::negotiate::{Accepted, Encoding, Form, Many};
use crate::object::{Head, Object, parse, set};
use crate::options::{At, ListOptions, parse_revision};
use crate::registry::Resource;
use crate::selector::{FieldSelector, LabelSelector};
use crate::status::{Answer, Refusal};
use crate::table;

/// How long a reader waits for a revision that is not there yet.
pub(super) const FRESHNESS: Duration = Duration::from_secs(3);
/// A list is sent in segments of about this size.
const SEGMENT: usize = 128 * 1024;

pub(super) async fn get(call: &Call, accepted: Accepted) -> Answer<Response<Body>> {
    if let Some(text) = call.query.filled("resourceVersion") {
        wait_for(call, parse_revision(text)?).await?;
    }
    let at = call.location()?;
    let stored =
        call.collection().find(at).ok_or_else(|| Refusal::not_found(call.resource.qualified(), at.name))?;
    render::one_at(call, StatusCode::OK, stored.value(), stored.revision(), accepted)
}

async fn wait_for(call: &Call, revision: u64) -> Answer<()> {
    if call.server.store.reached(Revision(revision), FRESHNESS).await {
        return Ok(());
    }
    Err(Refusal::future_revision(revision, call.server.store.revision().0))
}

/// What a list or watch selects.
pub(super) struct Filter {
    /// Keys must begin with this: the namespace, or nothing.
    pub(super) prefix: String,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Filter {
    pub(super) fn read(call: &Call, options: &ListOptions) -> Answer<Self> {
        let labels = options.label_selector.as_deref().unwrap_or_default();
        let labels = LabelSelector::parse(labels).map_err(Refusal::bad_request)?;
        let fields = options.field_selector.as_deref().unwrap_or_default();
        let namespaced = call.resource.is_namespaced();
        let fields = FieldSelector::parse(fields, &call.resource.selectable, namespaced)
            .map_err(Refusal::bad_request)?;
        let prefix = if call.namespace.is_empty() { String::new() } else { format!("{}/", call.namespace) };
        Ok(Self { prefix, labels, fields })
    }

    /// Whether everything below the prefix is selected.
    pub(super) fn is_open(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(super) fn matches(&self, entry: &Stored) -> bool {
        entry.path().starts_with(&self.prefix)
            && (self.labels.is_empty() || self.labels.matches(entry.facts()))
            && (self.fields.is_empty() || self.fields.matches(entry.path(), || parse(entry.value())))
    }

    /// The one key that can match, if the selectors leave only one.
    fn only_path(&self) -> Option<String> {
        let name = self.fields.only_name()?;
        (!self.prefix.is_empty()).then(|| format!("{}{name}", self.prefix))
    }
}

/// One page of a list.
pub(super) struct Page {
    pub(super) entries: Vec<Stored>,
    revision: Revision,
    continue_token: Option<String>,
    remaining: Option<usize>,
}

/// Where the next page begins.
#[derive(Serialize, Deserialize)]
struct Continue {
    v: String,
    rv: i64,
    start: String,
}

impl Continue {
    const VERSION: &'static str = "meta.k8s.io/v1";

    /// `rv` −1: go on at the newest revision, whatever it is.
    fn encode(rv: i64, start: &str) -> String {
        let token = Self { v: Self::VERSION.into(), rv, start: start.into() };
        base64::engine::general_purpose::URL_SAFE_NO_PAD
            .encode(serde_json::to_vec(&token).unwrap_or_default())
    }

    fn decode(text: &str) -> Answer<Self> {
        let bad = |why: String| {
            Refusal::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
        };
        let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD
            .decode(text.trim_end_matches('='))
            .map_err(|error| bad(error.to_string()))?;
        let token: Self = serde_json::from_slice(&bytes).map_err(|error| bad(error.to_string()))?;
        if token.v != Self::VERSION {
            return Err(bad(format!("server does not recognize this encoded version {}", token.v)));
        }
        if token.rv == 0 || token.rv < -1 {
            return Err(bad("incorrect encoded start resourceVersion (version meta.k8s.io/v1)".into()));
        }
        let clean =
            !token.start.is_empty() && token.start.split('/').all(|part| !matches!(part, "" | "." | ".."));
        if !clean {
            return Err(bad(token.start));
        }
        Ok(token)
    }
}

/// The snapshot that options ask for, and where in it to begin.
async fn snapshot(call: &Call, options: &ListOptions, filter: &Filter) -> Answer<(Snapshot<Head>, String)> {
    let store = &call.server.store;
    let space = call.collection().space();
    if let Some(token) = &options.continue_token {
        if call.query.filled("resourceVersion").is_some_and(|revision| revision != "0") {
            return Err(Refusal::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let token = Continue::decode(token)?;
        if !token.start.starts_with(&filter.prefix) {
            return Err(Refusal::bad_request("continue key is not valid: it is from another list"));
        }
        let start = token.start;
        let Ok(revision) = u64::try_from(token.rv) else { return Ok((store.snapshot(&space), start)) };
        return match store.snapshot_at(&space, Revision(revision)) {
            Ok(snapshot) => Ok((snapshot, start)),
            Err(SnapshotError::Compacted { .. }) => Err(Refusal::expired_page(Continue::encode(-1, &start))),
            Err(SnapshotError::Future { current }) => Err(Refusal::future_revision(revision, current.0)),
        };
    }
    let start = filter.prefix.clone();
    match options.at {
        At::Newest | At::Any => Ok((store.snapshot(&space), start)),
        At::NotOlderThan(revision) => {
            wait_for(call, revision).await?;
            Ok((store.snapshot(&space), start))
        }
        At::Exactly(revision) => {
            wait_for(call, revision).await?;
            match store.snapshot_at(&space, Revision(revision)) {
                Ok(snapshot) => Ok((snapshot, start)),
                Err(SnapshotError::Compacted { .. }) => {
                    Err(Refusal::expired("The resourceVersion for the provided list is too old."))
                }
                Err(SnapshotError::Future { current }) => Err(Refusal::future_revision(revision, current.0)),
            }
        }
    }
}

/// Reads the page that the options ask for.
pub(super) async fn select(call: &Call, options: &ListOptions) -> Answer<Page> {
    let filter = Filter::read(call, options)?;
    let (snapshot, start) = snapshot(call, options, &filter).await?;
    let revision = snapshot.revision();
    if let Some(path) = filter.only_path() {
        let entries = snapshot.get(&path).into_iter().filter(|entry| filter.matches(entry)).cloned();
        return Ok(Page { entries: entries.collect(), revision, continue_token: None, remaining: None });
    }
    let limit = if options.limit == 0 { usize::MAX } else { options.limit };
    let mut selected = snapshot
        .range(&start)
        .take_while(|entry| entry.path().starts_with(&filter.prefix))
        .filter(|entry| filter.matches(entry));
    let entries: Vec<Stored> = selected.by_ref().take(limit).cloned().collect();
    let more = selected.next().is_some();
    let mut page = Page { entries, revision, continue_token: None, remaining: None };
    if more {
        let last = page.entries.last().map(|entry| format!("{}\0", entry.path())).unwrap_or_default();
        call.server.pages.begun();
        page.continue_token = Some(Continue::encode(i64::try_from(revision.0).unwrap_or(i64::MAX), &last));
        // What selectors leave over is unknown without looking at all of it.
        page.remaining = filter.is_open().then(|| 1 + selected.count());
    }
    Ok(page)
}

pub(super) async fn list(call: Call, options: ListOptions, accepted: Accepted) -> Answer<Response<Body>> {
    let page = select(&call, &options).await?;
    render(&call, page, accepted)
}

impl Page {
    fn metadata(&self) -> Value {
        let mut metadata = json!({"resourceVersion": self.revision.to_string()});
        if let Some(token) = &self.continue_token {
            set(&mut metadata, "continue", token.as_str());
        }
        if let Some(remaining) = self.remaining {
            set(&mut metadata, "remainingItemCount", remaining);
        }
        metadata
    }
}

/// A page in the form that the client accepts.
pub(super) fn render(call: &Call, page: Page, accepted: Accepted) -> Answer<Response<Body>> {
    let resource = &call.resource;
    match accepted.form {
        Form::Object if accepted.encoding == Encoding::Json => {
            let body = list_body(resource, page);
            Ok(render::with_headers(StatusCode::OK, body, Encoding::Json))
        }
        Form::Object => {
            let items: Vec<Value> =
                page.entries.iter().map(|entry| Value::Object(list_item(resource, entry))).collect();
            let list = json!({
                "kind": resource.list_kind,
                "apiVersion": resource.api_version(),
                "metadata": page.metadata(),
                "items": items,
            });
            Ok(respond(&list, accepted))
        }
        Form::Metadata(version, many) => {
            let item = |value: &[u8]| match many {
                Many::BareList => json!({"metadata": parse(value).remove("metadata")}),
                Many::One | Many::List => table::partial(parse(value), version),
            };
            let items: Vec<Value> = page.entries.iter().map(|entry| item(entry.value())).collect();
            let list = json!({
                "kind": "PartialObjectMetadataList",
                "apiVersion": version.api_version(),
                "metadata": page.metadata(),
                "items": items,
            });
            Ok(respond(&list, accepted))
        }
        Form::Table(version) => {
            let style = render::style(call, version)?;
            let rows =
                page.entries.iter().map(|entry| table::row(resource, parse(entry.value()), style)).collect();
            let table = table::table(version, page.metadata(), table::columns(resource), rows);
            Ok(respond(&table, accepted))
        }
    }
}

fn respond(value: &Value, accepted: Accepted) -> Response<Body> {
    let json = serde_json::to_vec(value).unwrap_or_default().into();
    render::respond(StatusCode::OK, json, accepted.encoding)
}

/// The segments of a list, spliced from stored bytes as the client takes them.
struct Segments {
    resource: Arc<Resource>,
    head: BytesMut,
    entries: std::vec::IntoIter<Stored>,
    /// How many bytes of a stored object name its kind, which items of a built-in list leave out.
    skipped: usize,
    state: Progress,
}

#[derive(PartialEq, Eq)]
enum Progress {
    First,
    Going,
    Done,
}

impl Iterator for Segments {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.state == Progress::Done {
            return None;
        }
        let mut segment = std::mem::take(&mut self.head);
        for entry in self.entries.by_ref() {
            if std::mem::replace(&mut self.state, Progress::Going) == Progress::Going {
                segment.put_u8(b',');
            }
            if !self.resource.sends_as_stored(entry.revision()) {
                let object = list_item(&self.resource, &entry);
                segment.put_slice(&serde_json::to_vec(&object).unwrap_or_default());
            } else if self.resource.names_kind_in_lists() {
                segment.put_slice(entry.value());
            } else {
                segment.put_u8(b'{');
                segment.put_slice(entry.value().get(self.skipped..).unwrap_or_default());
            }
            if segment.len() >= SEGMENT {
                return Some(segment.freeze());
            }
        }
        self.state = Progress::Done;
        segment.put_slice(b"]}\n");
        Some(segment.freeze())
    }
}

/// An object as an item of a list: of a built-in kind it does not say its kind.
fn list_item(resource: &Resource, entry: &Stored) -> Object {
    let mut object = resource.to_served(parse(entry.value()));
    if !resource.names_kind_in_lists() {
        object.remove("kind");
        object.remove("apiVersion");
    }
    object
}

fn list_body(resource: &Arc<Resource>, page: Page) -> Body {
    let (kind, api_version) = (&resource.kind, resource.api_version());
    let head = format!(
        "{{\"kind\":\"{}\",\"apiVersion\":\"{api_version}\",\"metadata\":{},\"items\":[",
        resource.list_kind,
        page.metadata()
    );
    let size: usize = page.entries.iter().map(|entry| entry.value().len()).sum();
    let mut segments = Segments {
        head: BytesMut::from(head.as_bytes()),
        skipped: format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",").len(),
        resource: resource.clone(),
        entries: page.entries.into_iter(),
        state: Progress::First,
    };
    // What fits in one segment has a known length.
    if size < SEGMENT / 2 {
        return segments.next().map(Body::from).unwrap_or_else(Body::empty);
    }
    Body::stream(futures::stream::iter(segments))
}
