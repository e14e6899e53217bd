//! Sends series to the receiver in batches, with retries and smaller batches where the receiver asks for them. What follows an
//! attempt is decided in [`retry`](super::retry).

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bellwether_clock::Clock;
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderName, Method, Request};
use http_body_util::Full;
use tokio::time::{Instant, sleep};

use super::client::{Client, HttpUrl, RequestError, Response, TimeLimit};
use super::metrics::CollectorMetrics;
use super::remote_write::{Batch, MAX_BATCH_SERIES, TimeSeries};
use super::retry::{Attempt, Next, decide, parse_retry_after, retry_time};

/// How long one request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const REQUEST_TIMEOUT_TEXT: &str = "within 10 s; check the load of the receiver";
const REMOTE_WRITE_VERSION: HeaderName = HeaderName::from_static("x-prometheus-remote-write-version");
/// How much of a successful response is read, so that its connection can be used again.
const MAX_DRAINED_BYTES: usize = 64 * 1024;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Why series were not sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    /// The last attempt failed.
    #[error("{error}{}", after_retries(*.attempts))]
    Request { error: RequestError, attempts: u32 },
    /// The batch cannot be encoded.
    #[error("cannot compress a request: {0}")]
    Compress(#[from] snap::Error),
    /// The address is invalid.
    #[error("cannot build a request: {0}")]
    Build(#[from] http::Error),
}

/// The number is left out, so that the message of the condition is the same after every failed cycle.
fn after_retries(attempts: u32) -> &'static str {
    if attempts > 1 { " (also after retries)" } else { "" }
}

/// Collects series into batches and sends each when it is full.
pub(crate) struct Sender {
    client: Arc<Client>,
    url: HttpUrl,
    clock: Arc<dyn Clock>,
    metrics: CollectorMetrics,
    retry_time: Duration,
    batch: Batch,
    /// The largest number of series that the receiver has accepted in this cycle after it found more too large.
    max_series: usize,
}

enum Delivery {
    Done,
    TooLarge(RequestError),
}

impl Sender {
    /// A sender to an address, of a collector with this interval.
    pub(crate) fn new(
        client: Arc<Client>,
        url: HttpUrl,
        interval: Duration,
        clock: Arc<dyn Clock>,
        metrics: CollectorMetrics,
    ) -> Self {
        let retry_time = retry_time(interval);
        Self {
            client,
            url,
            clock,
            metrics,
            retry_time,
            batch: Batch::default(),
            max_series: MAX_BATCH_SERIES,
        }
    }

    /// Begins a cycle: forgets what a failed one has left.
    pub(crate) fn begin(&mut self) {
        self.batch.clear();
        self.max_series = MAX_BATCH_SERIES;
    }

    /// Adds a series, and sends the batch before it if the series does not fit in.
    pub(crate) async fn push(&mut self, series: &TimeSeries, cycle_end: Instant) -> Result<(), SendError> {
        if self.batch.len() >= self.max_series || !self.batch.can_take(series) {
            self.flush(cycle_end).await?;
        }
        self.batch.push(series);
        Ok(())
    }

    /// Sends what is left.
    pub(crate) async fn flush(&mut self, cycle_end: Instant) -> Result<(), SendError> {
        let mut parts = Vec::new();
        if !self.batch.is_empty() {
            parts.push(0..self.batch.len());
        }
        while let Some(part) = parts.pop() {
            let body = self.batch.compress(part.clone())?;
            match self.deliver(body, cycle_end).await? {
                Delivery::Done => {
                    if part.len() < self.batch.len() {
                        self.max_series = self.max_series.min(part.len());
                    }
                }
                Delivery::TooLarge(error) => match halves(&part) {
                    Some((first, second)) => parts.extend([second, first]),
                    None => return Err(SendError::Request { error, attempts: 1 }),
                },
            }
        }
        self.batch.clear();
        Ok(())
    }

    async fn deliver(&self, body: Bytes, cycle_end: Instant) -> Result<Delivery, SendError> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(self.url.uri())
            .header(CONTENT_ENCODING, "snappy")
            .header(CONTENT_TYPE, "application/x-protobuf")
            .header(REMOTE_WRITE_VERSION, "0.1.0")
            .header(USER_AGENT, concat!("bellwether/", env!("CARGO_PKG_VERSION")))
            .body(Full::new(body))?;
        let give_up = cycle_end.min(Instant::now() + self.retry_time);
        let mut attempts = 0_u32;
        loop {
            attempts = attempts.saturating_add(1);
            let answered = self.client.send(&request, request_limit(cycle_end)).await;
            self.metrics.count_write(answered.as_ref().ok().map(|response| response.status));
            let attempt = self.classify(&answered);
            let time_left = give_up.saturating_duration_since(Instant::now());
            match decide(attempt, attempts, time_left, rand::random()) {
                Next::Done => {
                    if let Ok(response) = answered {
                        drain(response).await;
                    }
                    return Ok(Delivery::Done);
                }
                Next::Retry(delay) => {
                    tracing::debug!("retry in {delay:?}: {}", describe(answered).await);
                    sleep(delay).await;
                }
                Next::Split => return Ok(Delivery::TooLarge(describe(answered).await)),
                Next::Fail | Next::OutOfTime => {
                    return Err(SendError::Request { error: describe(answered).await, attempts });
                }
            }
        }
    }

    fn classify(&self, answered: &Result<Response, RequestError>) -> Attempt {
        match answered {
            Ok(response) => {
                let retry_after = response.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
                let retry_after = retry_after.and_then(|value| parse_retry_after(value, self.clock.now()));
                Attempt::Answered { status: response.status, retry_after }
            }
            Err(RequestError::TimedOut { .. }) => Attempt::TimedOut,
            Err(_) => Attempt::Disconnected,
        }
    }
}

fn request_limit(cycle_end: Instant) -> TimeLimit {
    let at = Instant::now() + REQUEST_TIMEOUT;
    if cycle_end < at { TimeLimit::of_cycle(cycle_end) } else { TimeLimit { at, text: REQUEST_TIMEOUT_TEXT } }
}

async fn describe(answered: Result<Response, RequestError>) -> RequestError {
    match answered {
        Ok(response) => response.into_error().await,
        Err(error) => error,
    }
}

async fn drain(mut response: Response) {
    let limit = TimeLimit { at: Instant::now() + DRAIN_TIMEOUT, text: "" };
    let mut read = 0;
    while let Ok(Some(chunk)) = response.chunk(limit).await {
        read += chunk.len();
        if read > MAX_DRAINED_BYTES {
            return;
        }
    }
}

/// The halves of a range; nothing if it has less than two elements.
fn halves(part: &Range<usize>) -> Option<(Range<usize>, Range<usize>)> {
    let middle = part.start + part.len() / 2;
    (part.len() > 1).then_some((part.start..middle, middle..part.end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_cover_the_range_in_order() {
        assert_eq!(halves(&(0..1)), None);
        assert_eq!(halves(&(0..2)), Some((0..1, 1..2)));
        assert_eq!(halves(&(3..8)), Some((3..5, 5..8)));
    }
}
