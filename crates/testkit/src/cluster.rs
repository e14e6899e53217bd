//! The one interface to every kind of test cluster.

use bellwether_apiserver::ApiServer;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use crate::real;
use crate::request::{Answer, Call};
use crate::wait::{PATIENCE, eventually};
use crate::watch::WatchStream;

/// What stands behind a test cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// Our server, called in process.
    InProcess,
    /// Our server, over TLS on a port.
    Tls,
    /// kube-apiserver and etcd.
    Kubernetes,
}

/// A cluster to test against.
pub struct Cluster {
    flavour: Flavour,
    client: kube::Client,
    /// Paths begin with this: empty, or `/clusters/<name>` where one address serves several.
    prefix: String,
    server: Option<ApiServer>,
    /// The same cluster for somebody who shows nothing.
    stranger: kube::Client,
    /// What is shown with every request, beside what the client shows.
    token: Option<String>,
}

impl Cluster {
    pub(crate) fn new(
        flavour: Flavour,
        client: kube::Client,
        stranger: kube::Client,
        server: Option<ApiServer>,
    ) -> Self {
        Self { flavour, client, prefix: String::new(), server, stranger, token: None }
    }

    /// The same cluster, for whoever has a token and nothing else.
    pub fn bearer(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.stranger() }
    }

    /// The same cluster, for somebody who shows nothing.
    pub fn stranger(&self) -> Self {
        Self {
            flavour: self.flavour,
            client: self.stranger.clone(),
            prefix: self.prefix.clone(),
            server: self.server.clone(),
            stranger: self.stranger.clone(),
            token: None,
        }
    }

    /// What stands behind it.
    pub fn flavour(&self) -> Flavour {
        self.flavour
    }

    /// Whether this is kube-apiserver rather than ours.
    pub fn is_kubernetes(&self) -> bool {
        self.flavour == Flavour::Kubernetes
    }

    /// Our server itself, where it is ours.
    pub fn server(&self) -> Option<&ApiServer> {
        self.server.as_ref()
    }

    /// A client that retries nothing.
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// Sends a request and reads the whole answer.
    pub async fn send(&self, mut call: Call) -> Answer {
        call.path.insert_str(0, &self.prefix);
        if let Some(token) = &self.token {
            call = call.header("authorization", &format!("Bearer {token}"));
        }
        if self.flavour == Flavour::Kubernetes {
            return eventually("a kind that is served again", || async {
                let answer = self.send_once(call.clone()).await;
                (!is_initializing(&answer)).then_some(answer)
            })
            .await;
        }
        self.send_once(call).await
    }

    async fn send_once(&self, call: Call) -> Answer {
        let what = format!("{} {}", call.method, call.path);
        let whole = async {
            let response = self.client.send(call.into_request()).await.expect("the server answers");
            let (parts, body) = response.into_parts();
            let body = body.collect().await.expect("the answer has an end").to_bytes();
            Answer { status: parts.status.as_u16(), headers: parts.headers, body }
        };
        tokio::time::timeout(PATIENCE, whole)
            .await
            .unwrap_or_else(|_| panic!("{what}: the answer has no end within {PATIENCE:?}"))
    }

    /// Reads a path.
    pub async fn get(&self, path: impl Into<String>) -> Answer {
        self.send(Call::get(path)).await
    }

    /// Posts a document.
    pub async fn post(&self, path: impl Into<String>, body: &Value) -> Answer {
        self.send(Call::post(path, body)).await
    }

    /// Puts a document.
    pub async fn put(&self, path: impl Into<String>, body: &Value) -> Answer {
        self.send(Call::put(path, body)).await
    }

    /// Applies a JSON merge patch.
    pub async fn merge(&self, path: impl Into<String>, body: &Value) -> Answer {
        self.send(Call::merge(path, body)).await
    }

    /// Deletes what a path names.
    pub async fn delete(&self, path: impl Into<String>) -> Answer {
        self.send(Call::delete(path)).await
    }

    /// Opens a watch; the path has the query.
    pub async fn watch(&self, path: impl Into<String>) -> WatchStream {
        self.watch_as(Call::get(path)).await
    }

    /// Opens a watch with headers of its own.
    pub async fn watch_as(&self, mut call: Call) -> WatchStream {
        call.path.insert_str(0, &self.prefix);
        let response = self.client.send(call.into_request()).await.expect("the server answers");
        let status = response.status();
        if !status.is_success() {
            let body = response.into_body().collect().await.expect("the answer has an end").to_bytes();
            panic!("the watch was refused with {status}: {}", String::from_utf8_lossy(&body));
        }
        WatchStream::new(response)
    }

    /// A new namespace with all that comes with it, so that nothing stirs in it but what the test does.
    pub async fn namespace(&self) -> String {
        let name = format!("t-{}", &uuid::Uuid::new_v4().simple().to_string()[..12]);
        let namespace = json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}});
        self.post("/api/v1/namespaces", &namespace).await.expect(201);
        for provided in ["serviceaccounts/default", "configmaps/kube-root-ca.crt"] {
            let path = format!("/api/v1/namespaces/{name}/{provided}");
            eventually(provided, || async { (self.get(&path).await.status == 200).then_some(()) }).await;
        }
        name
    }

    /// Installs definitions of custom kinds, or finds them installed, and waits until their objects are served.
    pub async fn install_definitions(&self, definitions: impl IntoIterator<Item = Value>) {
        const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let definitions: Vec<Value> = definitions.into_iter().collect();
        for definition in &definitions {
            let created = self.post(DEFINITIONS, definition).await;
            assert!(matches!(created.status, 201 | 409), "{}", created.text());
        }
        for definition in &definitions {
            let spec = &definition["spec"];
            let served =
                spec["versions"].as_array().into_iter().flatten().filter(|version| version["served"] == true);
            for version in served {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let (group, version) = (text(&spec["group"]), text(&version["name"]));
                let path = format!("/apis/{group}/{version}/{}", text(&spec["names"]["plural"]));
                eventually(&path, || async { (self.get(&path).await.status == 200).then_some(()) }).await;
            }
        }
    }

    /// Drops all history, as time would.
    pub async fn compact(&self) {
        match &self.server {
            Some(server) => server.compact_now().await,
            None => real::compact().await,
        }
    }
}

/// Whether Kubernetes asks to come back later, as it does while it takes up a changed definition. Ours never does.
fn is_initializing(answer: &Answer) -> bool {
    answer.status == 429 && answer.text().contains("storage is (re)initializing")
}
