//! A connection to a cluster in which a test can inject faults, and which records the requests.

use std::sync::{Arc, Mutex};

use http::{HeaderValue, Method, Request, Response};
use kube::client::Body;
use serde_json::json;

use crate::Fixture;

/// What happens to requests.
#[derive(Clone, Debug, Default)]
pub(crate) enum Fault {
    #[default]
    None,
    /// Every request fails at once.
    Disconnected,
    /// No request gets a response.
    NoResponse,
    /// Another client writes before each of the next writes, so that they conflict.
    Conflicts(u32),
}

#[derive(Default)]
struct State {
    fault: Fault,
    requests: Vec<String>,
}

#[derive(Clone)]
pub(crate) struct FaultyConnection {
    cluster: kube::Client,
    instance: String,
    user: Option<String>,
    state: Arc<Mutex<State>>,
}

impl FaultyConnection {
    pub(crate) fn new(fixture: &Fixture) -> Self {
        Self {
            cluster: fixture.cluster.client(),
            instance: fixture.path(),
            user: None,
            state: Arc::default(),
        }
    }

    /// Sends requests as this user.
    #[cfg(feature = "real-kubernetes")]
    pub(crate) fn with_user(self, user: &str) -> Self {
        Self { user: Some(user.into()), ..self }
    }

    pub(crate) fn set_fault(&self, fault: Fault) {
        self.state.lock().unwrap().fault = fault;
    }

    /// Method and path of all requests so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.state.lock().unwrap().requests.clone()
    }

    pub(crate) fn client(&self) -> kube::Client {
        let connection = self.clone();
        let service = tower::service_fn(move |request| {
            let connection = connection.clone();
            async move { connection.forward(request).await }
        });
        kube::Client::new(service, "default")
    }

    async fn forward(self, mut request: Request<Body>) -> Result<Response<Body>, tower::BoxError> {
        self.state.lock().unwrap().requests.push(format!("{} {}", request.method(), request.uri().path()));
        match self.next_fault(request.method()) {
            Fault::None => {}
            Fault::Disconnected => return Err("the connection is lost".into()),
            Fault::NoResponse => std::future::pending().await,
            Fault::Conflicts(left) => self.write_concurrently(left).await,
        }
        if let Some(user) = &self.user {
            request.headers_mut().insert("impersonate-user", HeaderValue::from_str(user)?);
        }
        Ok(self.cluster.send(request).await?)
    }

    fn next_fault(&self, method: &Method) -> Fault {
        let mut state = self.state.lock().unwrap();
        match &mut state.fault {
            Fault::Conflicts(0) => Fault::None,
            Fault::Conflicts(_) if method != Method::PUT => Fault::None,
            Fault::Conflicts(left) => {
                *left -= 1;
                Fault::Conflicts(*left)
            }
            fault => fault.clone(),
        }
    }

    async fn write_concurrently(&self, left: u32) {
        let patch = json!({"metadata": {"annotations": {"conflicts-left": left.to_string()}}}).to_string();
        let request = Request::patch(&self.instance)
            .header("content-type", "application/merge-patch+json")
            .body(Body::from(patch.into_bytes()))
            .unwrap();
        let response = self.cluster.send(request).await.unwrap();
        assert!(response.status().is_success(), "{}", response.status());
    }
}

impl Fixture {
    pub(crate) fn faulty_connection(&self) -> FaultyConnection {
        FaultyConnection::new(self)
    }
}
