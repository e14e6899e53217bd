//! A client that tells what is sent through it, and lets a test step in just before a request goes out.

use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use http::{Method, Request, Response};
use kube::client::Body;

/// What was sent through a client.
#[derive(Clone, Default)]
pub struct Tap {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    sent: Vec<Sent>,
    interruption: Option<Interruption>,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The HTTP method.
    pub method: Method,
    /// Path and query.
    pub path: String,
}

impl Sent {
    /// Whether it opens a watch, or lists to open one.
    fn is_of_a_watch(&self) -> bool {
        self.method == Method::GET && (self.path.contains("watch=true") || self.path.contains("limit="))
    }
}

struct Interruption {
    method: Method,
    part_of_path: &'static str,
    action: Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>,
}

impl Tap {
    /// Wraps a client.
    pub fn on(client: kube::Client) -> (kube::Client, Self) {
        let tap = Self::default();
        let service = tower::service_fn({
            let tap = tap.clone();
            move |request: Request<Body>| {
                let (client, tap) = (client.clone(), tap.clone());
                async move { tap.pass(&client, request).await }
            }
        });
        (kube::Client::new(service, "default"), tap)
    }

    async fn pass(
        &self,
        client: &kube::Client,
        request: Request<Body>,
    ) -> Result<Response<Body>, kube::Error> {
        let path = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
        let interruption = {
            let mut inner = self.lock();
            inner.sent.push(Sent { method: request.method().clone(), path: path.clone() });
            inner
                .interruption
                .take_if(|wanted| wanted.method == *request.method() && path.contains(wanted.part_of_path))
        };
        if let Some(interruption) = interruption {
            (interruption.action)().await;
        }
        client.send(request).await
    }

    /// Does something once, just before the next such request goes out.
    pub fn before<F>(
        &self,
        method: Method,
        part_of_path: &'static str,
        action: impl FnOnce() -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let action = Box::new(move || -> BoxFuture<'static, ()> { Box::pin(action()) });
        self.lock().interruption = Some(Interruption { method, part_of_path, action });
    }

    /// Whether the interruption is still to come.
    pub fn is_set(&self) -> bool {
        self.lock().interruption.is_some()
    }

    /// What was sent, but for watches.
    pub fn requests(&self) -> Vec<Sent> {
        self.lock().sent.iter().filter(|sent| !sent.is_of_a_watch()).cloned().collect()
    }

    /// What was sent to change something.
    pub fn writes(&self) -> Vec<Sent> {
        self.requests().into_iter().filter(|sent| sent.method != Method::GET).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
