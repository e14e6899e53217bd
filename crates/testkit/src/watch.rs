//! A watch as a stream of events, each with a deadline.

use std::time::Duration;

use bytes::BytesMut;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use http::Response;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::Value;

use crate::wait::WAIT_TIMEOUT;

/// One event of a watch.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub kind: String,
    /// The object of the event, or a Status if the event is an error.
    pub object: Value,
}

impl Event {
    /// The name of the object.
    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// The resourceVersion of the object.
    pub fn revision(&self) -> u64 {
        self.object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// The type of the event and the name of the object, which most tests compare.
    pub fn brief(&self) -> (&str, &str) {
        (&self.kind, self.name())
    }
}

/// An open watch.
pub struct WatchStream {
    chunks: BoxStream<'static, bytes::Bytes>,
    buffer: BytesMut,
}

impl WatchStream {
    pub(crate) fn new(response: Response<Body>) -> Self {
        let chunks = response.into_body().into_data_stream().filter_map(async |chunk| chunk.ok()).boxed();
        Self { chunks, buffer: BytesMut::new() }
    }

    /// The next event, or `None` if the stream has ended. Panics if neither happens within [`WAIT_TIMEOUT`].
    pub async fn next(&mut self) -> Option<Event> {
        self.within(WAIT_TIMEOUT)
            .await
            .unwrap_or_else(|()| panic!("the watch had no event for {WAIT_TIMEOUT:?}"))
    }

    /// The next event. Panics if the stream has ended.
    pub async fn event(&mut self) -> Event {
        self.next().await.expect("the watch ended")
    }

    /// Asserts that the next event has this type and an object of this name, and returns the event. Bookmarks
    /// are skipped, because the server may send them at any time.
    #[track_caller]
    pub fn expect<'a>(&'a mut self, kind: &'a str, name: &'a str) -> impl Future<Output = Event> + 'a {
        let caller = std::panic::Location::caller();
        async move {
            let mut event = self.event().await;
            while event.kind == "BOOKMARK" {
                event = self.event().await;
            }
            assert_eq!(event.brief(), (kind, name), "at {caller}: {}", event.object);
            event
        }
    }

    /// Whether no event arrives within this time.
    pub async fn is_silent_for(&mut self, duration: Duration) -> bool {
        self.within(duration).await.is_err()
    }

    /// The next event, `None` if the stream has ended, or an error if neither happens within this time.
    pub async fn within(&mut self, duration: Duration) -> Result<Option<Event>, ()> {
        tokio::time::timeout(duration, self.read()).await.map_err(|_| ())
    }

    async fn read(&mut self) -> Option<Event> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(end + 1);
                let mut event: Value = serde_json::from_slice(&line).expect("a watch frame is JSON");
                let kind = event["type"].as_str().expect("a watch frame has a type").to_owned();
                return Some(Event { kind, object: event["object"].take() });
            }
            match self.chunks.next().await {
                Some(chunk) => self.buffer.extend_from_slice(&chunk),
                None => {
                    assert!(self.buffer.is_empty(), "the watch ended within a frame");
                    return None;
                }
            }
        }
    }
}
