//! A fleet API on a port of its own, on a store of its own, with a clock that the test sets. Tests speak HTTP to it.

use std::sync::Arc;

use axum::body::Bytes;
use axum::http::{Method, Request, header};
use bellwether_clock::Clock;
use bellwether_fleet::client::{Answer, Client};
use bellwether_fleet::http::{Access, TenancyConfig};
use bellwether_fleet::kinds::{BASE_PATH, KindConfig, Kinds};
use bellwether_fleet::store::Store;
use bellwether_fleet::store::sqlite::Sqlite;
use bellwether_fleet::vocabulary::Vocabulary;
use bellwether_fleet::{Fleet, http};
use http_body_util::Full;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Where time begins, unless a test says otherwise.
pub(crate) const BEGINNING: &str = "2026-05-01T00:00:00Z";

/// Runs a scenario on each of the stores.
macro_rules! on_both_stores {
    ($(async fn $name:ident($api:ident: Api) $body:block)+) => {
        $(mod $name {
            #[allow(unused_imports)]
            use super::*;

            async fn scenario($api: Api) $body

            #[tokio::test]
            async fn sqlite() {
                scenario(Api::start(crate::harness::sqlite()).await).await;
            }

            #[cfg(feature = "real-postgres")]
            #[tokio::test]
            async fn postgres() {
                scenario(Api::start(crate::harness::postgres().await).await).await;
            }
        })+
    };
}
pub(crate) use on_both_stores;

/// An empty store.
pub(crate) fn sqlite() -> Arc<dyn Store> {
    Arc::new(Sqlite::in_memory().expect("a store in memory opens"))
}

#[cfg(feature = "real-postgres")]
pub(crate) async fn postgres() -> Arc<dyn Store> {
    use bellwether_fleet::store::postgres::Postgres;
    let server = bellwether_testkit::postgres::Postgres::start();
    Arc::new(Postgres::connect(server.url()).await.expect("the database opens"))
}

/// An empty store of each kind.
pub(crate) async fn every_store() -> Vec<Arc<dyn Store>> {
    #[allow(unused_mut)]
    let mut stores = vec![sqlite()];
    #[cfg(feature = "real-postgres")]
    stores.push(postgres().await);
    stores
}

/// A clock that stands still until it is set.
pub(crate) struct SetClock(Mutex<Timestamp>);

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        *self.0.lock()
    }
}

/// How the API of a test is set up.
pub(crate) struct Setup {
    pub(crate) kinds: Vec<KindConfig>,
    pub(crate) vocabulary: Vocabulary,
    pub(crate) access: Access,
}

impl Default for Setup {
    /// As the cases of the specification have it.
    fn default() -> Self {
        let kinds = json!([
            {
                "kind": "Cluster", "plural": "clusters", "name_min_len": 3, "name_max_len": 53,
                "required_adapters": ["validation", "dns", "pullsecret", "hypershift"],
            },
            {
                "kind": "NodePool", "plural": "nodepools", "name_min_len": 3, "name_max_len": 15,
                "parent_kind": "Cluster", "on_parent_delete": "cascade",
                "required_adapters": ["validation", "hypershift"],
            },
            { "kind": "Channel", "plural": "channels" },
            { "kind": "Version", "plural": "versions", "parent_kind": "Channel", "on_parent_delete": "restrict" },
        ]);
        Self {
            kinds: kinds_of(kinds),
            vocabulary: Vocabulary::default(),
            access: Access::open(TenancyConfig::default()),
        }
    }
}

impl Setup {
    /// Clusters that require these adapters.
    pub(crate) fn requiring(adapters: &[&str]) -> Self {
        let kinds = json!([
            { "kind": "Cluster", "plural": "clusters", "required_adapters": adapters },
            {
                "kind": "NodePool", "plural": "nodepools", "parent_kind": "Cluster", "on_parent_delete": "cascade",
                "required_adapters": adapters,
            },
        ]);
        Self { kinds: kinds_of(kinds), ..Self::default_access() }
    }

    fn default_access() -> Self {
        Self {
            kinds: Vec::new(),
            vocabulary: Vocabulary::default(),
            access: Access::open(TenancyConfig::default()),
        }
    }
}

pub(crate) fn kinds_of(kinds: Value) -> Vec<KindConfig> {
    serde_json::from_value(kinds).expect("the kinds of a test are declared well")
}

/// An API that answers, until dropped.
pub(crate) struct Api {
    pub(crate) client: Client,
    pub(crate) fleet: Fleet,
    /// For programs that are not ours.
    #[allow(dead_code)]
    pub(crate) address: String,
    clock: Arc<SetClock>,
    _stop: DropGuard,
}

impl Api {
    pub(crate) async fn start(store: Arc<dyn Store>) -> Self {
        Self::start_with(store, Setup::default()).await
    }

    pub(crate) async fn start_with(store: Arc<dyn Store>, setup: Setup) -> Self {
        let clock = Arc::new(SetClock(Mutex::new(time(0))));
        let kinds = Kinds::new(setup.kinds, setup.vocabulary).expect("the kinds of a test make sense");
        let (fleet, _writing) = Fleet::open(store, kinds, clock.clone());
        let stop = CancellationToken::new();
        let routes = http::routes(fleet.clone(), setup.access, stop.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
        let address = format!("http://{}", listener.local_addr().expect("it is bound"));
        let stopped = stop.clone().cancelled_owned();
        tokio::spawn(async move { axum::serve(listener, routes).with_graceful_shutdown(stopped).await });
        let client = Client::new(&address, None).expect("the address is one");
        Self { client, fleet, address, clock, _stop: stop.drop_guard() }
    }

    /// Sets the clock to so many seconds after the beginning.
    pub(crate) fn set_clock(&self, seconds: i64) {
        *self.clock.0.lock() = time(seconds);
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: Option<Value>) -> Reply {
        let body = body.map(|body| body.to_string().into_bytes());
        self.send_bytes(method, path, body, &[]).await
    }

    pub(crate) async fn send_bytes(
        &self,
        method: &str,
        path: &str,
        body: Option<Vec<u8>>,
        headers: &[(&str, &str)],
    ) -> Reply {
        let json = body.is_some().then_some(("content-type", "application/json"));
        let headers: Vec<(&str, &str)> = json.into_iter().chain(headers.iter().copied()).collect();
        self.send_typed(method, path, body.unwrap_or_default(), &headers).await
    }

    /// A request with just these headers.
    pub(crate) async fn send_typed(
        &self,
        method: &str,
        path: &str,
        body: Vec<u8>,
        headers: &[(&str, &str)],
    ) -> Reply {
        let path = if path.starts_with("/api/") { path.to_owned() } else { format!("{BASE_PATH}{path}") };
        let mut request = Request::builder().method(Method::from_bytes(method.as_bytes()).unwrap()).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body))).expect("a request");
        Reply(self.client.send(request).await.expect("the API answers"))
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, None).await
    }

    /// Searches clusters; their names, sorted.
    pub(crate) async fn search(&self, search: &str) -> Result<Vec<String>, Reply> {
        let reply = self.get(&format!("/clusters?size=100&search={}", encode(search))).await;
        if reply.status() != 200 {
            return Err(reply);
        }
        let mut names = reply.names();
        names.sort();
        Ok(names)
    }

    /// Makes a cluster; it as it came back.
    pub(crate) async fn cluster(&self, name: &str) -> Value {
        self.cluster_with(name, json!({}), json!({"test": "spec"})).await
    }

    pub(crate) async fn cluster_with(&self, name: &str, labels: Value, spec: Value) -> Value {
        let body = json!({"kind": "Cluster", "name": name, "labels": labels, "spec": spec});
        self.send("POST", "/clusters", Some(body)).await.expect(201).json()
    }

    pub(crate) async fn node_pool(&self, cluster: &str, name: &str) -> Value {
        let body = json!({"kind": "NodePool", "name": name, "spec": {}});
        self.send("POST", &format!("{cluster}/nodepools"), Some(body)).await.expect(201).json()
    }

    /// Changes the spec of a resource; it as it came back.
    pub(crate) async fn touch(&self, href: &str) -> Value {
        let generation = self.read(href).await["generation"].clone();
        let body = json!({"spec": {"changed_at_generation": generation}});
        self.send("PATCH", href, Some(body)).await.expect(200).json()
    }

    pub(crate) async fn read(&self, href: &str) -> Value {
        self.get(href).await.expect(200).json()
    }

    /// Reports of an adapter, that all is well or is not, at a generation and so many seconds after the beginning.
    pub(crate) async fn report(&self, href: &str, adapter: &str, at: (i64, i64), available: &str) -> Reply {
        let conditions = [("Available", available), ("Applied", "True"), ("Health", "True")];
        self.report_conditions(href, adapter, at, &conditions).await
    }

    pub(crate) async fn report_conditions(
        &self,
        href: &str,
        adapter: &str,
        (generation, seconds): (i64, i64),
        conditions: &[(&str, &str)],
    ) -> Reply {
        let conditions: Vec<Value> =
            conditions.iter().map(|(type_, status)| json!({"type": type_, "status": status})).collect();
        let body = json!({
            "adapter": adapter,
            "observed_generation": generation,
            "observed_time": time(seconds).to_string(),
            "conditions": conditions,
        });
        self.send("PUT", &format!("{href}/statuses"), Some(body)).await
    }

    /// Reports of an adapter that it has cleaned up.
    pub(crate) async fn finalize(&self, href: &str, adapter: &str, at: (i64, i64)) -> Reply {
        let conditions =
            [("Available", "False"), ("Applied", "False"), ("Health", "True"), ("Finalized", "True")];
        self.report_conditions(href, adapter, at, &conditions).await
    }
}

/// So many seconds after the beginning.
pub(crate) fn time(seconds: i64) -> Timestamp {
    let beginning: Timestamp = BEGINNING.parse().expect("a time");
    beginning + SignedDuration::from_secs(seconds)
}

/// How many seconds after the beginning.
fn seconds(time: &Value) -> i64 {
    let time: Timestamp = time.as_str().expect("a time is text").parse().expect("a time");
    time.duration_since(self::time(0)).as_secs()
}

/// A condition in brief, as the vectors of the specification have it: `True@g1 5/9`, the times in seconds.
pub(crate) fn brief(resource: &Value, type_: &str) -> String {
    let Some(condition) = condition(resource, type_) else { return "absent".to_owned() };
    format!(
        "{}@g{} {}/{}",
        condition["status"].as_str().unwrap(),
        condition["observed_generation"],
        seconds(&condition["last_updated_time"]),
        seconds(&condition["last_transition_time"]),
    )
}

pub(crate) fn condition<'a>(resource: &'a Value, type_: &str) -> Option<&'a Value> {
    let conditions = resource["status"]["conditions"].as_array().expect("conditions are a list");
    conditions.iter().find(|condition| condition["type"] == type_)
}

/// The status of a condition.
pub(crate) fn status<'a>(resource: &'a Value, type_: &str) -> &'a str {
    condition(resource, type_).map_or("absent", |condition| condition["status"].as_str().unwrap())
}

/// A value of a query, encoded.
pub(crate) fn encode(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply(pub(crate) Answer);

impl Reply {
    pub(crate) fn status(&self) -> u16 {
        self.0.status.as_u16()
    }

    /// With this status, or the test has failed.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status(), status, "{}", self.text());
        self
    }

    /// A problem with this status and code, whose detail has these words.
    #[track_caller]
    pub(crate) fn expect_problem(self, status: u16, code: &str, words: &str) -> Value {
        let reply = self.expect(status);
        assert_eq!(reply.0.headers[header::CONTENT_TYPE], "application/problem+json");
        let problem = reply.json();
        assert_eq!(problem["status"], json!(status));
        assert_eq!(problem["code"], json!(format!("HYPERFLEET-{code}")), "{problem}");
        let detail = problem["detail"].as_str().expect("a problem has a detail");
        assert!(detail.contains(words), "{detail:?} does not have {words:?}");
        for field in ["type", "title", "instance", "timestamp", "trace_id"] {
            assert!(problem[field].is_string(), "{field} is missing from {problem}");
        }
        problem
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.body).into_owned()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.0.body).unwrap_or_else(|_| panic!("no JSON: {:?}", self.text()))
    }

    /// The names of the items of a list, in their order.
    pub(crate) fn names(&self) -> Vec<String> {
        let items = self.json()["items"].as_array().expect("items are a list").clone();
        items.iter().map(|item| item["name"].as_str().expect("a name").to_owned()).collect()
    }
}
