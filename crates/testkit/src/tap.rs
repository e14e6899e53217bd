//! A client that records its requests, and runs an action of the test just before a request is sent or after it was answered.

use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use http::{Method, Request, Response};
use kube::client::Body;

/// The recorded requests of a client, and at most one action to run before or after a request.
#[derive(Clone, Default)]
pub struct Tap {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    requests: Vec<RecordedRequest>,
    hook: Option<Hook>,
}

/// One request that was sent through a [`Tap`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedRequest {
    /// The HTTP method.
    pub method: Method,
    /// Path and query.
    pub path: String,
}

impl RecordedRequest {
    /// Whether the request opens a watch, or is the initial list of one.
    fn is_watch(&self) -> bool {
        self.method == Method::GET && (self.path.contains("watch=true") || self.path.contains("limit="))
    }
}

/// When an action runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moment {
    BeforeRequest,
    /// After the server has answered, and before the client gets the response.
    BeforeResponse,
}

struct Hook {
    moment: Moment,
    method: Method,
    path_part: &'static str,
    action: Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>,
}

impl Tap {
    /// Wraps a client. Returns the client that records its requests, and the records.
    pub fn on(client: kube::Client) -> (kube::Client, Self) {
        let tap = Self::default();
        let service = tower::service_fn({
            let tap = tap.clone();
            move |request: Request<Body>| {
                let (client, tap) = (client.clone(), tap.clone());
                async move { tap.record_and_forward(&client, request).await }
            }
        });
        (kube::Client::new(service, "default"), tap)
    }

    async fn record_and_forward(
        &self,
        client: &kube::Client,
        request: Request<Body>,
    ) -> Result<Response<Body>, kube::Error> {
        let path = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
        let hook = {
            let mut inner = self.lock();
            inner.requests.push(RecordedRequest { method: request.method().clone(), path: path.clone() });
            inner.hook.take_if(|hook| hook.method == *request.method() && path.contains(hook.path_part))
        };
        match hook {
            None => client.send(request).await,
            Some(hook) if hook.moment == Moment::BeforeRequest => {
                (hook.action)().await;
                client.send(request).await
            }
            Some(hook) => {
                let response = client.send(request).await;
                (hook.action)().await;
                response
            }
        }
    }

    /// Sets an action that runs once, before the next request with this method and this part of the path is
    /// sent. The request waits until the action has finished. A previous action that has not run is replaced.
    pub fn before<F>(
        &self,
        method: Method,
        path_part: &'static str,
        action: impl FnOnce() -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        self.set_hook(Moment::BeforeRequest, method, path_part, action);
    }

    /// Like [`before`](Self::before), but the action runs after the server has answered, and the client gets the response when
    /// the action has finished.
    pub fn before_response<F>(
        &self,
        method: Method,
        path_part: &'static str,
        action: impl FnOnce() -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        self.set_hook(Moment::BeforeResponse, method, path_part, action);
    }

    fn set_hook<F>(
        &self,
        moment: Moment,
        method: Method,
        path_part: &'static str,
        action: impl FnOnce() -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let action = Box::new(move || -> BoxFuture<'static, ()> { Box::pin(action()) });
        self.lock().hook = Some(Hook { moment, method, path_part, action });
    }

    /// Whether an action is set that has not started yet.
    pub fn is_set(&self) -> bool {
        self.lock().hook.is_some()
    }

    /// All requests so far, except watches and their initial lists.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.lock().requests.iter().filter(|request| !request.is_watch()).cloned().collect()
    }

    /// All requests so far that are not GET.
    pub fn writes(&self) -> Vec<RecordedRequest> {
        self.requests().into_iter().filter(|request| request.method != Method::GET).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
