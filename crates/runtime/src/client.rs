//! Clients with one addition each: one reports to a health component that the API answers, one limits the time of a
//! request.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Request;
use kube::Client;
use kube::client::Body;

/// A client that calls `on_success` after every successful response.
///
/// Watch events would not do for health: a watch that resumes after a failure delivers nothing until an object changes,
/// which may be days later; and `Init` is delivered before the API was asked.
pub(crate) fn notify_on_success(client: &Client, on_success: Arc<dyn Fn() + Send + Sync>) -> Client {
    let (client, namespace) = (client.clone(), client.default_namespace().to_owned());
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, on_success) = (client.clone(), on_success.clone());
        async move {
            let response = client.send(request).await?;
            if response.status().is_success() {
                on_success();
            }
            Ok::<_, kube::Error>(response)
        }
    });
    Client::new(service, namespace)
}

/// A client whose requests fail when the response takes longer than `limit`.
pub(crate) fn limit_response_time(client: &Client, limit: Duration) -> Client {
    let (client, namespace) = (client.clone(), client.default_namespace().to_owned());
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move {
            let timed_out = || kube::Error::Service(format!("no response within {limit:?}").into());
            tokio::time::timeout(limit, client.send(request)).await.unwrap_or_else(|_| Err(timed_out()))
        }
    });
    Client::new(service, namespace)
}
