//! The source of the part `collector`: answers `/federate` as a Prometheus would, with the metrics of a cluster. Every response
//! has new values and a new timestamp; the value of a series follows from its number and the timestamp.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures::stream;
use http::{Request, Response, StatusCode};
use http_body_util::StreamBody;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// The labels that the collector removes from all series by default.
pub(super) const ELIDED_LABELS: [&str; 2] = ["prometheus", "prometheus_replica"];
/// The size of the parts in which a response is sent.
const CHUNK_BYTES: usize = 32 * 1024;
/// How old the samples are: a Prometheus has scraped them before it is asked.
const SAMPLE_AGE_MILLIS: i64 = 1_000;
/// The number of nodes of the cluster.
const NODES: usize = 50;

/// The metrics of containers, with the most labels.
const CONTAINER_METRICS: [&str; 12] = [
    "container_cpu_cfs_periods_total",
    "container_cpu_cfs_throttled_periods_total",
    "container_cpu_usage_seconds_total",
    "container_fs_reads_total",
    "container_fs_writes_total",
    "container_memory_cache",
    "container_memory_rss",
    "container_memory_swap",
    "container_memory_working_set_bytes",
    "container_spec_cpu_quota",
    "container_spec_memory_limit_bytes",
    "container_start_time_seconds",
];
/// The metrics of pods, from kube-state-metrics.
const POD_METRICS: [&str; 6] = [
    "kube_pod_container_resource_limits",
    "kube_pod_container_resource_requests",
    "kube_pod_container_status_ready",
    "kube_pod_container_status_restarts_total",
    "kube_pod_info",
    "kube_pod_status_phase",
];
/// The metrics of requests, which are buckets of histograms.
const REQUEST_METRICS: [&str; 2] =
    ["apiserver_request_duration_seconds_bucket", "etcd_request_duration_seconds_bucket"];

/// The name of a metric and the labels of a series, in the order of the response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Series {
    pub(super) name: &'static str,
    pub(super) labels: Vec<(&'static str, String)>,
}

impl Series {
    /// The series with a number.
    fn of(number: usize) -> Self {
        let metrics = CONTAINER_METRICS.iter().chain(&POD_METRICS).chain(&REQUEST_METRICS);
        let names: Vec<&'static str> = metrics.copied().collect();
        let (index, instance) = (number % names.len(), number / names.len());
        let name = names.get(index).copied().unwrap_or_default();
        let (node, pod) = (instance % NODES, instance / 2);
        let namespace = ("namespace", format!("team-{:02}", pod % 40));
        let pod_name = ("pod", format!("service-{:03}-7d9c6b5f4d-{:05x}", pod % 300, pod * 7919 % 0xf_ffff));
        let container = ("container", if instance % 2 == 0 { "app" } else { "sidecar" }.to_owned());
        let node_name = ("node", format!("ip-10-0-{}-{}.eu-west-1.compute.internal", node / 16, node));
        let elided = [
            ("prometheus", "openshift-monitoring/k8s".to_owned()),
            ("prometheus_replica", "prometheus-k8s-0".to_owned()),
        ];
        let mut labels = if index < CONTAINER_METRICS.len() {
            vec![
                container,
                ("endpoint", "https-metrics".to_owned()),
                (
                    "id",
                    format!("/kubepods.slice/kubepods-burstable.slice/pod{:08x}/crio-{instance:016x}", pod),
                ),
                ("image", format!("registry.example.com/team-{:02}/service:1.{}.0", pod % 40, pod % 30)),
                ("instance", format!("10.0.{}.{}:10250", node / 16, node)),
                ("job", "kubelet".to_owned()),
                ("metrics_path", "/metrics/cadvisor".to_owned()),
                ("name", format!("k8s_service_{instance:08x}")),
                namespace,
                node_name,
                pod_name,
                ("service", "kubelet".to_owned()),
            ]
        } else if index < CONTAINER_METRICS.len() + POD_METRICS.len() {
            vec![
                container,
                ("endpoint", "https-main".to_owned()),
                ("instance", "10.128.0.17:8443".to_owned()),
                ("job", "kube-state-metrics".to_owned()),
                namespace,
                node_name,
                pod_name,
                ("service", "kube-state-metrics".to_owned()),
                ("uid", format!("{:08x}-5c1d-4f7e-9a3b-{instance:012x}", pod)),
            ]
        } else {
            vec![
                ("endpoint", "https".to_owned()),
                ("group", format!("group-{}.example.com", instance / 800)),
                ("instance", format!("10.0.0.{}:6443", instance % 3)),
                ("job", "apiserver".to_owned()),
                ("le", format!("0.{:03}", instance / 3 % 20 * 5 + 5)),
                ("namespace", "default".to_owned()),
                ("resource", format!("resource{}", instance / 60)),
                ("service", "kubernetes".to_owned()),
                ("verb", "LIST".to_owned()),
                ("version", "v1".to_owned()),
            ]
        };
        labels.extend(elided);
        Self { name, labels }
    }
}

/// The value of a series in the response with a timestamp.
pub(super) fn value_of(number: usize, timestamp: i64) -> f64 {
    let mixed = (number as u64).wrapping_mul(2_654_435_761).wrapping_add(timestamp.unsigned_abs());
    (mixed % 1_000_000_000) as f64 / 1000.0
}

/// A request to the source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served {
    /// When it arrived.
    pub(super) at: Instant,
    /// The timestamp of its samples.
    pub(super) timestamp: i64,
}

/// The source. It ends with the runtime.
pub(super) struct Source {
    address: SocketAddr,
    series: Vec<Series>,
    served: watch::Sender<Vec<Served>>,
}

impl Source {
    /// Starts a source with this number of series.
    pub(super) async fn start(series: usize) -> anyhow::Result<Arc<Self>> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let mut all: Vec<Series> = (0..series).map(Series::of).collect();
        // As Prometheus answers.
        all.sort_by_key(|series| series.name);
        let source = Arc::new(Self {
            address: listener.local_addr()?,
            series: all,
            served: watch::Sender::new(Vec::new()),
        });
        let lines = Arc::<[String]>::from(write_lines(&source.series));
        tokio::spawn(accept(listener, source.clone(), lines));
        Ok(source)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// All series, in the order of the response.
    pub(super) fn series(&self) -> &[Series] {
        &self.series
    }

    /// The selectors of all series.
    pub(super) fn selectors(&self) -> Vec<String> {
        let metrics = CONTAINER_METRICS.iter().chain(&POD_METRICS).chain(&REQUEST_METRICS);
        metrics.map(|name| format!(r#"{{__name__="{name}"}}"#)).collect()
    }

    /// Forgets the requests so far.
    pub(super) fn reset(&self) {
        self.served.send_replace(Vec::new());
    }

    /// Waits until this many requests have arrived, and returns them.
    pub(super) async fn wait_for_requests(&self, count: usize) -> anyhow::Result<Vec<Served>> {
        let mut served = self.served.subscribe();
        let served = served.wait_for(|served| served.len() >= count).await?;
        Ok(served.iter().take(count).copied().collect())
    }
}

/// The beginning of the line of each series, which is the same in every response: the name and the labels. The first series of
/// a metric also has the line with the type.
fn write_lines(all: &[Series]) -> Vec<String> {
    let mut lines = Vec::with_capacity(all.len());
    let mut metric = "";
    for series in all {
        let mut line = String::new();
        if series.name != metric {
            metric = series.name;
            let _ = writeln!(line, "# TYPE {metric} untyped");
        }
        let labels: Vec<String> =
            series.labels.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
        let _ = write!(line, "{metric}{{{}}}", labels.join(","));
        lines.push(line);
    }
    lines
}

async fn accept(listener: TcpListener, source: Arc<Source>, lines: Arc<[String]>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (source, lines) = (source.clone(), lines.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            let (source, lines) = (source.clone(), lines.clone());
            async move { Ok::<_, Infallible>(answer(&source, &lines, &request)) }
        });
        tokio::spawn(async move {
            // A client may close its connection at any time.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

type ResponseBody = UnsyncBoxBody<Bytes, Infallible>;

fn answer(source: &Source, lines: &[String], request: &Request<Incoming>) -> Response<ResponseBody> {
    let mut response = Response::new(Empty::new().boxed_unsync());
    if request.uri().path() != "/federate" {
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response;
    }
    let timestamp = Timestamp::now().as_millisecond() - SAMPLE_AGE_MILLIS;
    source.served.send_modify(|served| served.push(Served { at: Instant::now(), timestamp }));
    let content_type = http::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(http::header::CONTENT_TYPE, content_type);
    let chunks = write_chunks(lines, timestamp);
    let frames = chunks.into_iter().map(|chunk| Ok::<_, Infallible>(Frame::data(chunk)));
    *response.body_mut() = StreamBody::new(stream::iter(frames)).boxed_unsync();
    response
}

/// Writes the response, in chunks that may end within a line.
fn write_chunks(lines: &[String], timestamp: i64) -> Vec<Bytes> {
    let mut text = String::with_capacity(lines.iter().map(|line| line.len() + 40).sum());
    for (number, line) in lines.iter().enumerate() {
        let _ = writeln!(text, "{line} {} {timestamp}", value_of(number, timestamp));
    }
    let mut rest = Bytes::from(text);
    let mut chunks = Vec::with_capacity(rest.len() / CHUNK_BYTES + 1);
    while !rest.is_empty() {
        chunks.push(rest.split_to(rest.len().min(CHUNK_BYTES)));
    }
    chunks
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn all_series_differ_even_without_the_elided_labels() {
        let series: Vec<Series> = (0..50_000).map(Series::of).collect();
        let distinct: HashSet<String> = series
            .iter()
            .map(|series| {
                let kept = series.labels.iter().filter(|(name, _)| !ELIDED_LABELS.contains(name));
                format!("{} {:?}", series.name, kept.collect::<Vec<_>>())
            })
            .collect();
        assert_eq!(distinct.len(), series.len());
    }

    #[test]
    fn response_has_a_line_for_each_series_with_its_value() {
        let mut series: Vec<Series> = (0..500).map(Series::of).collect();
        series.sort_by_key(|series| series.name);
        let text: Vec<u8> = write_chunks(&write_lines(&series), 1_700_000_000_000).concat();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text.lines().filter(|line| !line.starts_with('#')).count(), 500);
        assert_eq!(text.lines().filter(|line| line.starts_with("# TYPE ")).count(), 20);
        let value = value_of(499, 1_700_000_000_000);
        assert!(text.ends_with(&format!("}} {value} 1700000000000\n")));
    }
}
