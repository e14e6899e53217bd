//! [`Cluster`], the one interface to every kind of test cluster.

use bellwether_apiserver::ApiServer;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use crate::real;
use crate::request::{Answer, Call};
use crate::wait::{WAIT_TIMEOUT, eventually};
use crate::watch::WatchStream;

/// The implementation of a test cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// The embedded API server, called in process.
    InProcess,
    /// The embedded API server, over TLS on a port.
    Tls,
    /// kube-apiserver and etcd.
    Kubernetes,
}

/// A cluster that tests send requests to, as its administrator unless stated otherwise.
pub struct Cluster {
    flavour: Flavour,
    client: kube::Client,
    /// The prefix of all paths: empty, or `/clusters/<name>` if one address serves several logical clusters.
    prefix: String,
    server: Option<ApiServer>,
    /// A client of the same cluster without credentials.
    anonymous: kube::Client,
    /// The bearer token of every request, in addition to the credentials of the client.
    token: Option<String>,
}

impl Cluster {
    pub(crate) fn new(
        flavour: Flavour,
        client: kube::Client,
        anonymous: kube::Client,
        server: Option<ApiServer>,
    ) -> Self {
        Self { flavour, client, prefix: String::new(), server, anonymous, token: None }
    }

    /// The same cluster for a user that authenticates with a bearer token only.
    pub fn with_token(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.anonymous() }
    }

    /// The same cluster for an anonymous user.
    pub fn anonymous(&self) -> Self {
        Self {
            flavour: self.flavour,
            client: self.anonymous.clone(),
            prefix: self.prefix.clone(),
            server: self.server.clone(),
            anonymous: self.anonymous.clone(),
            token: None,
        }
    }

    /// The implementation of the cluster.
    pub fn flavour(&self) -> Flavour {
        self.flavour
    }

    /// Whether this is kube-apiserver, and not the embedded API server.
    pub fn is_kubernetes(&self) -> bool {
        self.flavour == Flavour::Kubernetes
    }

    /// The embedded API server, or `None` for kube-apiserver.
    pub fn server(&self) -> Option<&ApiServer> {
        self.server.as_ref()
    }

    /// A client that does not retry requests.
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// Sends a request and reads the whole response.
    pub async fn send(&self, mut call: Call) -> Answer {
        call.path.insert_str(0, &self.prefix);
        if let Some(token) = &self.token {
            call = call.header("authorization", &format!("Bearer {token}"));
        }
        if self.flavour == Flavour::Kubernetes {
            return eventually("the storage of the resource is initialized", || async {
                match self.send_once(call.clone()).await {
                    Ok(answer) => (!is_initializing(&answer)).then_some(answer),
                    Err(error) if is_broken_pipe(&error) => None,
                    Err(error) => panic!("the server responds: {error:?}"),
                }
            })
            .await;
        }
        self.send_once(call).await.expect("the server responds")
    }

    async fn send_once(&self, call: Call) -> Result<Answer, kube::Error> {
        let description = format!("{} {}", call.method, call.path);
        let read_response = async {
            let (parts, body) = self.client.send(call.into_request()).await?.into_parts();
            let body = body.collect().await.expect("the response is complete").to_bytes();
            Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body })
        };
        tokio::time::timeout(WAIT_TIMEOUT, read_response)
            .await
            .unwrap_or_else(|_| panic!("{description}: no complete response within {WAIT_TIMEOUT:?}"))
    }

    /// Sends a GET.
    pub async fn get(&self, path: impl Into<String>) -> Answer {
        self.send(Call::get(path)).await
    }

    /// Sends a POST with a JSON body.
    pub async fn post(&self, path: impl Into<String>, body: &Value) -> Answer {
        self.send(Call::post(path, body)).await
    }

    /// Sends a PUT with a JSON body.
    pub async fn put(&self, path: impl Into<String>, body: &Value) -> Answer {
        self.send(Call::put(path, body)).await
    }

    /// Sends a JSON merge patch.
    pub async fn merge(&self, path: impl Into<String>, body: &Value) -> Answer {
        self.send(Call::merge(path, body)).await
    }

    /// Sends a DELETE without a body.
    pub async fn delete(&self, path: impl Into<String>) -> Answer {
        self.send(Call::delete(path)).await
    }

    /// Opens a watch. The path contains the query, with `watch=true`.
    pub async fn watch(&self, path: impl Into<String>) -> WatchStream {
        self.watch_as(Call::get(path)).await
    }

    /// Opens a watch with a request that may have further headers.
    pub async fn watch_as(&self, mut call: Call) -> WatchStream {
        call.path.insert_str(0, &self.prefix);
        let response = self.client.send(call.into_request()).await.expect("the server responds");
        let status = response.status();
        if !status.is_success() {
            let body = response.into_body().collect().await.expect("the response is complete").to_bytes();
            panic!("the watch was rejected with {status}: {}", String::from_utf8_lossy(&body));
        }
        WatchStream::new(response)
    }

    /// Creates a namespace with a unique name. Waits for the objects that Kubernetes creates in every
    /// namespace, so that later changes in it are those of the test.
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

    /// Installs CRDs unless they exist, and waits until all their served versions can be listed.
    pub async fn install_crds(&self, definitions: impl IntoIterator<Item = Value>) {
        const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let definitions: Vec<Value> = definitions.into_iter().collect();
        for definition in &definitions {
            let created = self.post(CRDS, definition).await;
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

    /// Compacts the history of the store, so that watches from earlier resourceVersions get `410 Gone`.
    pub async fn compact(&self) {
        match &self.server {
            Some(server) => server.compact_now().await,
            None => real::compact().await,
        }
    }
}

/// Whether the request was not sent completely, because the server had closed an idle connection. So it can be sent again.
fn is_broken_pipe(error: &kube::Error) -> bool {
    let mut next: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = next {
        if error
            .downcast_ref::<std::io::Error>()
            .is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
        {
            return true;
        }
        next = error.source();
    }
    false
}

/// Whether the response asks to retry later. kube-apiserver responds like this while it prepares the storage
/// of a changed CRD; the embedded API server never does.
fn is_initializing(answer: &Answer) -> bool {
    answer.status == 429 && answer.text().contains("storage is (re)initializing")
}
