//! What the API says of itself: ids, the log, metrics, health, limits, and an orderly end.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use bellwether_clock::SystemClock;
use bellwether_fleet::client::Client;
use bellwether_fleet::config::Config;
use bellwether_fleet::kinds::BASE_PATH;
use bellwether_fleet::serve::{Assembled, assemble};
use bellwether_fleet::store::Store;
use bellwether_runtime::{Health, Metrics, Shutdown};
use futures::StreamExt as _;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::{Api, Reply, sqlite};
use crate::tokens::{ISSUER, KeyServer, Signer};

/// A whole process: the fleet as the configuration has it, with health and metrics.
struct Process {
    client: Client,
    address: std::net::SocketAddr,
    shutdown: Shutdown,
    store: Arc<dyn Store>,
}

impl Process {
    async fn start(config: &str) -> Self {
        let store = sqlite();
        let config = Config::parse(config, "fleet.yaml").expect("the configuration makes sense");
        let (metrics, health, shutdown) = (Metrics::default(), Health::default(), Shutdown::default());
        let clock = Arc::new(SystemClock);
        let Assembled { routes, .. } =
            assemble(store.clone(), config, clock, &metrics, &health, &shutdown).expect("it starts");
        let routes = routes.merge(bellwether_runtime::http::routes(health, metrics));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
        let address = listener.local_addr().expect("it is bound");
        let begun = shutdown.requested();
        shutdown.spawn(async move {
            axum::serve(listener, routes).with_graceful_shutdown(begun).await.expect("it serves");
        });
        let client = Client::new(&format!("http://{address}"), None).expect("the address is one");
        Self { client, address, shutdown, store }
    }

    async fn send(&self, method: &str, path: &str, body: Option<Value>, headers: &[(&str, &str)]) -> Reply {
        let mut request = axum::http::Request::builder().method(method).uri(path);
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        Reply(self.client.send(request.body(body.into()).unwrap()).await.expect("it answers"))
    }

    async fn create(&self, name: &str) -> Value {
        let body = json!({"kind": "Cluster", "name": name, "spec": {"text": "x".repeat(4000)}});
        self.send("POST", &format!("{BASE_PATH}/clusters"), Some(body), &[]).await.expect(201).json()
    }

    async fn metrics(&self) -> String {
        self.send("GET", "/metrics", None, &[]).await.expect(200).text()
    }
}

#[tokio::test]
async fn every_request_has_an_id_and_a_problem_names_it_or_the_trace_of_the_caller() {
    let api = Api::start(sqlite()).await;
    let (one, two) = (api.get("/clusters").await, api.get("/clusters").await);
    assert_ne!(one.0.headers["x-request-id"], two.0.headers["x-request-id"]);
    assert_eq!(one.0.headers["vary"], "Authorization");
    let missing = api.get("/nothing").await;
    assert_eq!(missing.json()["trace_id"], missing.0.headers["x-request-id"].to_str().unwrap());

    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let parent = format!("00-{trace}-00f067aa0ba902b7-01");
    let headers = [("traceparent", parent.as_str()), ("x-request-id", "theirs")];
    let traced = api.send_bytes("GET", "/nothing", None, &headers).await;
    assert_eq!(traced.json()["trace_id"], trace);
    assert_ne!(traced.0.headers["x-request-id"], "theirs");
}

#[tokio::test]
async fn metrics_count_requests_generations_and_the_database() {
    let process =
        Process::start("entities: [{kind: Cluster, plural: clusters, required_adapters: [dns]}]").await;
    let href = process.create("counted").await["href"].as_str().unwrap().to_owned();
    for (method, path, body) in [
        ("GET", href.as_str(), None),
        ("GET", &format!("{BASE_PATH}/clusters/0199"), None),
        ("GET", &format!("{BASE_PATH}/no/such/path"), None),
        ("GET", &format!("{BASE_PATH}/nor/this"), None),
        ("BREW", &href, None),
        ("PATCH", &href, Some(json!({"spec": {"a": 1}}))),
        ("PATCH", &href, Some(json!({"spec": {"a": 1}}))),
        ("DELETE", &href, None),
    ] {
        process.send(method, path, body, &[]).await;
    }
    let text = process.metrics().await;
    for line in [
        r#"hyperfleet_api_requests_total{method="POST",path="/api/hyperfleet/v1/clusters",code="201"} 1"#,
        r#"hyperfleet_api_requests_total{method="GET",path="/api/hyperfleet/v1/clusters/-",code="200"} 1"#,
        r#"hyperfleet_api_requests_total{method="GET",path="/api/hyperfleet/v1/clusters/-",code="404"} 1"#,
        r#"hyperfleet_api_requests_total{method="GET",path="unknown",code="404"} 2"#,
        r#"hyperfleet_api_requests_total{method="unknown",path="/api/hyperfleet/v1/clusters/-",code="405"} 1"#,
        r#"hyperfleet_api_request_duration_seconds_bucket{le="0.005",method="GET",path="/api/hyperfleet/v1/clusters/-"}"#,
        r#"hyperfleet_api_request_duration_seconds_bucket{le="10.0",method="GET",path="/api/hyperfleet/v1/clusters/-"} 2"#,
        r#"hyperfleet_api_build_info{version="0.1.0"} 1"#,
        r#"hyperfleet_api_reconciliation_started_total{resource_type="Cluster",is_delete="false"} 2"#,
        r#"hyperfleet_api_reconciliation_started_total{resource_type="Cluster",is_delete="true"} 1"#,
        r#"hyperfleet_api_resource_pending_reconciliation{resource_type="Cluster",is_delete="true"} 1"#,
        r#"hyperfleet_db_query_duration_seconds_count{operation="commit"} 3"#,
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("_stuck{") && !text.contains("db_errors_total{"), "{text}");
}

#[tokio::test]
async fn large_answers_are_compressed_for_who_takes_it_and_watches_never_are() {
    let process = Process::start("").await;
    let href = process.create("large").await["href"].as_str().unwrap().to_owned();
    let gzip = [("accept-encoding", "gzip")];
    let plain = process.send("GET", &href, None, &[]).await.expect(200);
    assert!(!plain.0.headers.contains_key("content-encoding"));
    let compressed = process.send("GET", &href, None, &gzip).await.expect(200);
    assert_eq!(compressed.0.headers["content-encoding"], "gzip");
    assert!(compressed.0.body.len() * 4 < plain.0.body.len());
    let small = process.send("GET", "/healthz", None, &gzip).await.expect(200);
    assert!(!small.0.headers.contains_key("content-encoding"));
    let watching = process.client.clone().header("accept-encoding".parse().unwrap(), "gzip".parse().unwrap());
    let mut events = Box::pin(watching.watch("/clusters", 0).await.unwrap());
    assert_eq!(events.next().await.unwrap().unwrap().resource.name, "large");
}

#[tokio::test]
async fn limits_are_those_of_the_configuration() {
    let config = "limits: {max_body_bytes: 1024, request_timeout: 100ms, max_watchers: 1}";
    let process = Process::start(config).await;
    let clusters = format!("{BASE_PATH}/clusters");
    let large = json!({"kind": "Cluster", "name": "large", "spec": {"text": "x".repeat(1024)}});
    let reply = process.send("POST", &clusters, Some(large), &[]).await;
    reply.expect_problem(413, "LMT-002", "more than 1024 bytes");

    let first = process.client.watch("/clusters", 0).await.unwrap();
    let watch = format!("{clusters}?watch=true");
    process.send("GET", &watch, None, &[]).await.expect_problem(503, "SVC-001", "watch");
    drop(first);

    let mut slow = TcpStream::connect(process.address).await.unwrap();
    let head = format!(
        "POST {clusters} HTTP/1.1\r\nhost: fleet\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{{"
    );
    slow.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    slow.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 504");
}

#[tokio::test]
async fn the_process_is_ready_when_its_database_answers() {
    let process = Process::start("").await;
    process.send("GET", "/healthz", None, &[]).await.expect(200);
    let ready = async {
        while process.send("GET", "/readyz", None, &[]).await.status() != 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), ready).await.expect("it becomes ready");
}

#[tokio::test]
async fn at_the_end_watches_end_and_what_was_begun_is_on_disk() {
    let process = Process::start("").await;
    let mut events = Box::pin(process.client.watch("/clusters", 0).await.unwrap());
    process.create("last").await;
    assert_eq!(events.next().await.unwrap().unwrap().resource.name, "last");
    let Process { client, shutdown, store, .. } = process;
    drop(client);
    let end = async {
        let (_, rest) = tokio::join!(shutdown.finish(), events.next());
        assert!(rest.is_none(), "{rest:?}");
    };
    tokio::time::timeout(Duration::from_secs(10), end).await.expect("it ends");
    let listing = store.list(&bellwether_fleet::store::Query::default()).await.unwrap();
    assert_eq!(listing.total, 1);
}

/// What is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn the_log_says_who_asked_what_and_nothing_that_is_secret() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter("bellwether_fleet=trace")
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    // Of the whole process: one of a thread misses what another thread came by first. So it also has what others log.
    tracing::subscriber::set_global_default(subscriber).expect("nobody else listens");
    let keys = KeyServer::with(&[&Signer::issuer()]).await;
    let process = Process::start(&format!(
        "auth: {{issuers: [{{issuer_url: '{ISSUER}', jwk_cert_url: '{}'}}]}}",
        keys.url
    ))
    .await;
    let expires = jiff::Timestamp::now().as_second() + 300;
    let token = Signer::issuer().token(json!({"exp": expires}));
    let body = json!({"kind": "Cluster", "name": "logged", "spec": {"password": "hunter2"}});
    let headers = [("authorization", &*format!("Bearer {token}")), ("cookie", "session=crumbs")];
    let path = format!("{BASE_PATH}/clusters");
    let reply = process.send("POST", &path, Some(body), &headers).await.expect(201);
    let refused =
        process.send("GET", &format!("{path}?search=name%3D'whisper'"), None, &[]).await.expect(401);

    let log = String::from_utf8(log.0.lock().clone()).unwrap();
    let line = |reply: &Reply, words: &str| {
        let id = reply.0.headers["x-request-id"].to_str().unwrap();
        log.lines().find(|line| line.contains(words) && line.contains(id)).expect(&log).to_owned()
    };
    line(&refused, "rejected the credentials of a caller");
    let line = line(&reply, "request finished");
    for words in
        ["INFO", "method=POST", &format!("path={path}"), "status=201", "milliseconds=", "ada@example.com"]
    {
        assert!(line.contains(words), "{words} is not in {line}");
    }
    for secret in [token.as_str(), "hunter2", "crumbs", "whisper"] {
        assert!(!log.contains(secret), "{secret} is in {log}");
    }
}
