//! A line to a cluster that can be cut, fall silent or be crossed by others, and that remembers what was sent.

use std::sync::{Arc, Mutex};

use http::{HeaderValue, Method, Request, Response};
use kube::client::Body;
use serde_json::json;

use crate::Place;

/// What befalls requests.
#[derive(Clone, Debug, Default)]
pub(crate) enum Trouble {
    #[default]
    None,
    /// Every request fails at once.
    Cut,
    /// No request is ever answered.
    Silent,
    /// Somebody else writes right before each of the next writes arrives.
    Crossed(u32),
}

#[derive(Default)]
struct State {
    trouble: Trouble,
    sent: Vec<String>,
}

#[derive(Clone)]
pub(crate) struct Line {
    cluster: kube::Client,
    instance: String,
    user: Option<String>,
    state: Arc<Mutex<State>>,
}

impl Line {
    pub(crate) fn to(place: &Place) -> Self {
        Self { cluster: place.cluster.client(), instance: place.path(), user: None, state: Arc::default() }
    }

    /// The same as another user.
    #[cfg(feature = "real-kubernetes")]
    pub(crate) fn signed_in_as(self, user: &str) -> Self {
        Self { user: Some(user.into()), ..self }
    }

    pub(crate) fn meets(&self, trouble: Trouble) {
        self.state.lock().unwrap().trouble = trouble;
    }

    /// Method and path of all requests so far.
    pub(crate) fn sent(&self) -> Vec<String> {
        self.state.lock().unwrap().sent.clone()
    }

    pub(crate) fn client(&self) -> kube::Client {
        let line = self.clone();
        let service = tower::service_fn(move |request| {
            let line = line.clone();
            async move { line.carry(request).await }
        });
        kube::Client::new(service, "default")
    }

    async fn carry(self, mut request: Request<Body>) -> Result<Response<Body>, tower::BoxError> {
        self.state.lock().unwrap().sent.push(format!("{} {}", request.method(), request.uri().path()));
        match self.befall(request.method()) {
            Trouble::None => {}
            Trouble::Cut => return Err("the line is cut".into()),
            Trouble::Silent => std::future::pending().await,
            Trouble::Crossed(left) => self.cross(left).await,
        }
        if let Some(user) = &self.user {
            request.headers_mut().insert("impersonate-user", HeaderValue::from_str(user)?);
        }
        Ok(self.cluster.send(request).await?)
    }

    fn befall(&self, method: &Method) -> Trouble {
        let mut state = self.state.lock().unwrap();
        match &mut state.trouble {
            Trouble::Crossed(0) => Trouble::None,
            Trouble::Crossed(_) if method != Method::PUT => Trouble::None,
            Trouble::Crossed(left) => {
                *left -= 1;
                Trouble::Crossed(*left)
            }
            trouble => trouble.clone(),
        }
    }

    async fn cross(&self, left: u32) {
        let patch = json!({"metadata": {"annotations": {"crossed": left.to_string()}}}).to_string();
        let request = Request::patch(&self.instance)
            .header("content-type", "application/merge-patch+json")
            .body(Body::from(patch.into_bytes()))
            .unwrap();
        let answer = self.cluster.send(request).await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.status());
    }
}

impl Place {
    pub(crate) fn line(&self) -> Line {
        Line::to(self)
    }
}
