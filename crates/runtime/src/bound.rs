//! Clients that know when they were answered: one that says so to a part of the process, and one that does not wait for
//! ever.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Request;
use kube::Client;
use kube::client::Body;

use crate::health::Part;

/// A client for the watch that a part of the process lives by: every answer that is no refusal says that it is well.
///
/// Its events would not do. A watch that goes on after a failure tells nothing until something changes, which may be
/// days later; and that a list begins is told before anybody was asked.
pub fn heard(client: &Client, part: Arc<Part>) -> Client {
    let (client, namespace) = (client.clone(), client.default_namespace().to_owned());
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, part) = (client.clone(), part.clone());
        async move {
            let answer = client.send(request).await?;
            if answer.status().is_success() {
                part.well();
            }
            Ok::<_, kube::Error>(answer)
        }
    });
    Client::new(service, namespace)
}

/// A client whose requests fail when they are not answered in time.
pub(crate) fn within(limit: Duration, client: &Client) -> Client {
    let (client, namespace) = (client.clone(), client.default_namespace().to_owned());
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move {
            let late = || kube::Error::Service(format!("no answer within {limit:?}").into());
            tokio::time::timeout(limit, client.send(request)).await.unwrap_or_else(|_| Err(late()))
        }
    });
    Client::new(service, namespace)
}
