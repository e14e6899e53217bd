//! The receiver of the part `collector`: decodes remote write 1.0, and checks which series arrive, how often, and with which
//! value. It accepts everything.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use prost::Message;
use tokio::net::TcpListener;

use super::source::{ELIDED_LABELS, Series, value_of};

/// The labels that the collector and Prometheus add to every series.
pub(super) const ADDED_LABELS: [(&str, &str); 2] =
    [("cluster", "spoke-1"), ("clusterID", "2f7a4d1c-93b5-4f0e-8f4b-0f5d5c1f6a11")];
const NAME_LABEL: &str = "__name__";
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A request of remote write 1.0.
#[derive(Clone, PartialEq, Message)]
struct WriteRequest {
    #[prost(message, repeated, tag = "1")]
    timeseries: Vec<TimeSeries>,
}

#[derive(Clone, PartialEq, Message)]
struct TimeSeries {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Sample>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Sample {
    #[prost(double, tag = "1")]
    value: f64,
    #[prost(int64, tag = "2")]
    timestamp: i64,
}

/// What has arrived.
#[derive(Debug, Default)]
struct Received {
    /// The samples by their timestamp, which identifies the cycle.
    cycles: BTreeMap<i64, ReceivedCycle>,
    requests: usize,
    bytes: usize,
    /// What is wrong with the first sample that should not be there.
    problem: Option<String>,
}

#[derive(Debug)]
struct ReceivedCycle {
    /// Which series have arrived.
    seen: Vec<bool>,
    count: usize,
    last_at: Instant,
}

/// The receiver. It ends with the runtime.
pub(super) struct Receiver {
    address: SocketAddr,
    /// The number of each series that should arrive, by the hash of its labels.
    expected: HashMap<u64, usize>,
    received: Mutex<Received>,
}

/// The size of what has arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traffic {
    pub(super) requests: usize,
    pub(super) bytes: usize,
}

impl Receiver {
    /// Starts a receiver of these series, after their labels were changed.
    pub(super) async fn start(series: &[Series]) -> anyhow::Result<Arc<Self>> {
        let expected: HashMap<u64, usize> =
            series.iter().enumerate().map(|(number, series)| (expected_hash(series), number)).collect();
        anyhow::ensure!(expected.len() == series.len(), "two series have the same labels");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let receiver =
            Arc::new(Self { address: listener.local_addr()?, expected, received: Mutex::default() });
        tokio::spawn(accept(listener, receiver.clone()));
        Ok(receiver)
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/api/v1/write", self.address)
    }

    /// Forgets what has arrived.
    pub(super) fn reset(&self) {
        *self.received.lock() = Received::default();
    }

    pub(super) fn traffic(&self) -> Traffic {
        let received = self.received.lock();
        Traffic { requests: received.requests, bytes: received.bytes }
    }

    /// Waits until every series of a cycle has arrived, and returns when the last one did. It fails if anything else arrives.
    pub(super) async fn wait_for_cycle(&self, timestamp: i64, timeout: Duration) -> anyhow::Result<Instant> {
        let deadline = Instant::now() + timeout;
        loop {
            let arrived = {
                let received = self.received.lock();
                if let Some(problem) = &received.problem {
                    anyhow::bail!("the receiver got what it should not get: {problem}");
                }
                match received.cycles.get(&timestamp) {
                    Some(cycle) if cycle.count == self.expected.len() => return Ok(cycle.last_at),
                    Some(cycle) => cycle.count,
                    None => 0,
                }
            };
            anyhow::ensure!(
                Instant::now() < deadline,
                "only {arrived} of {} series of a cycle arrived within {timeout:?}",
                self.expected.len()
            );
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    fn receive(&self, body: &[u8]) -> anyhow::Result<()> {
        let decoded = snap::raw::Decoder::new().decompress_vec(body).context("the body is not snappy")?;
        let request = WriteRequest::decode(decoded.as_slice()).context("the body is not a WriteRequest")?;
        let samples: Vec<Result<(usize, Sample), String>> =
            request.timeseries.iter().filter_map(|series| self.check(series).transpose()).collect();
        let received = &mut *self.received.lock();
        received.requests += 1;
        received.bytes += body.len();
        for sample in samples {
            let recorded =
                sample.and_then(|(number, sample)| received.record(number, sample, &self.expected));
            if let Err(problem) = recorded {
                received.problem.get_or_insert(problem);
            }
        }
        Ok(())
    }

    /// The number of a series, and its sample; nothing for a series that Prometheus adds about its own scrapes.
    fn check(&self, series: &TimeSeries) -> Result<Option<(usize, Sample)>, String> {
        let name = series.labels.iter().find(|label| label.name == NAME_LABEL);
        let name = name.map(|label| label.value.as_str()).unwrap_or_default();
        if name == "up" || name.starts_with("scrape_") {
            return Ok(None);
        }
        let labels = series.labels.iter().map(|label| (label.name.as_str(), label.value.as_str()));
        match (self.expected.get(&hash(labels)), series.samples.as_slice()) {
            (Some(number), [sample]) => Ok(Some((*number, *sample))),
            (Some(_), samples) => Err(format!("{name} has {} samples", samples.len())),
            (None, _) => Err(format!("{name} has unexpected labels: {:?}", series.labels)),
        }
    }
}

impl Received {
    fn record(
        &mut self,
        number: usize,
        sample: Sample,
        expected: &HashMap<u64, usize>,
    ) -> Result<(), String> {
        let Sample { value, timestamp } = sample;
        if value != value_of(number, timestamp) {
            return Err(format!("the value of series {number} at {timestamp} is {value}"));
        }
        let now = Instant::now();
        let cycle = self.cycles.entry(timestamp).or_insert_with(|| ReceivedCycle {
            seen: vec![false; expected.len()],
            count: 0,
            last_at: now,
        });
        match cycle.seen.get_mut(number) {
            Some(seen) if !*seen => *seen = true,
            _ => return Err(format!("series {number} arrived twice at {timestamp}")),
        }
        cycle.count += 1;
        cycle.last_at = now;
        Ok(())
    }
}

/// The hash of the labels that a series should have when it arrives.
fn expected_hash(series: &Series) -> u64 {
    let kept = series.labels.iter().filter(|(name, _)| !ELIDED_LABELS.contains(name));
    let kept = kept.map(|(name, value)| (*name, value.as_str()));
    let mut labels: Vec<(&str, &str)> = kept.chain(ADDED_LABELS).chain([(NAME_LABEL, series.name)]).collect();
    labels.sort_unstable();
    hash(labels.into_iter())
}

fn hash<'a>(labels: impl Iterator<Item = (&'a str, &'a str)>) -> u64 {
    let mut hasher = DefaultHasher::new();
    labels.for_each(|label| label.hash(&mut hasher));
    hasher.finish()
}

async fn accept(listener: TcpListener, receiver: Arc<Receiver>) {
    while let Ok((stream, _)) = listener.accept().await {
        let receiver = receiver.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let receiver = receiver.clone();
            async move { Ok::<_, Infallible>(answer(&receiver, request).await) }
        });
        tokio::spawn(async move {
            // A client may close its connection at any time.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn answer(receiver: &Receiver, request: Request<Incoming>) -> Response<Empty<Bytes>> {
    let received = match request.into_body().collect().await {
        Ok(body) => receiver.receive(&body.to_bytes()),
        Err(error) => Err(error.into()),
    };
    let mut response = Response::new(Empty::new());
    *response.status_mut() = match received {
        Ok(()) => StatusCode::NO_CONTENT,
        Err(error) => {
            receiver.received.lock().problem.get_or_insert(format!("{error:#}"));
            StatusCode::BAD_REQUEST
        }
    };
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: i64 = 1_700_000_000_000;

    fn source_series() -> Vec<Series> {
        let series = |job: &str| Series {
            name: "kube_pod_info",
            labels: vec![("job", job.to_owned()), ("prometheus", "k8s".to_owned())],
        };
        vec![series("a"), series("b")]
    }

    fn body(job: &str, samples: &[(f64, i64)]) -> Vec<u8> {
        let label = |(name, value): (&str, &str)| Label { name: name.into(), value: value.into() };
        let labels = [("__name__", "kube_pod_info")].into_iter().chain(ADDED_LABELS).chain([("job", job)]);
        let samples =
            samples.iter().map(|(value, timestamp)| Sample { value: *value, timestamp: *timestamp });
        let series = TimeSeries { labels: labels.map(label).collect(), samples: samples.collect() };
        let request = WriteRequest { timeseries: vec![series] }.encode_to_vec();
        snap::raw::Encoder::new().compress_vec(&request).unwrap()
    }

    #[tokio::test]
    async fn cycle_is_complete_when_each_series_has_arrived_once() {
        let receiver = Receiver::start(&source_series()).await.unwrap();
        receiver.receive(&body("a", &[(value_of(0, TIME), TIME)])).unwrap();
        let error = receiver.wait_for_cycle(TIME, Duration::ZERO).await.unwrap_err().to_string();
        assert!(error.contains("only 1 of 2 series"), "{error}");
        receiver.receive(&body("b", &[(value_of(1, TIME), TIME)])).unwrap();
        receiver.wait_for_cycle(TIME, Duration::ZERO).await.unwrap();
        assert_eq!(receiver.traffic().requests, 2);
    }

    #[tokio::test]
    async fn what_should_not_arrive_is_named() {
        let right = value_of(0, TIME);
        for (job, samples, expected) in [
            ("c", vec![(right, TIME)], "unexpected labels"),
            ("a", vec![(right + 1.0, TIME)], "the value of series 0"),
            ("a", vec![(right, TIME), (right, TIME)], "2 samples"),
        ] {
            let receiver = Receiver::start(&source_series()).await.unwrap();
            receiver.receive(&body(job, &samples)).unwrap();
            let error = receiver.wait_for_cycle(TIME, Duration::ZERO).await.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
