//! What a controller says of itself while the API fails, and after.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bellwether_runtime::{Context, run};
use bellwether_testkit::{embedded, eventually, on_paused_time};
use kube::client::Body;

use crate::{Looks, configmap, context};

/// A client on which the first so many requests of a kind fail.
fn failing(client: kube::Client, part_of_query: &'static str, times: usize) -> kube::Client {
    let left = Arc::new(AtomicUsize::new(times));
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (client, left) = (client.clone(), left.clone());
        async move {
            let concerned = request.uri().query().is_some_and(|query| query.contains(part_of_query));
            let take = |left: usize| left.checked_sub(1);
            if concerned && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok() {
                return Err(kube::Error::Service("nobody answers".into()));
            }
            client.send(request).await
        }
    });
    kube::Client::new(service, "default")
}

#[test]
fn a_watch_that_is_back_is_well_though_nothing_changes() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let client = failing(cluster.client(), "watch=true", 1);
        let (looks, context) = (Looks::default(), Context { client, ..context(&cluster) });
        context.shutdown.spawn(run(looks.clone(), context.clone()));
        eventually("the watch has failed", || async {
            context.health.troubles().iter().any(|(_, words)| words.contains("watch")).then_some(())
        })
        .await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(context.health.troubles(), []);
        let namespace = cluster.namespace().await;
        configmap(&cluster, &namespace, "later").await;
        looks.until("later", 1).await;
    });
}

#[test]
fn who_has_not_been_answered_yet_is_not_well() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let silent = tower::service_fn(|_: http::Request<Body>| {
            std::future::pending::<Result<http::Response<Body>, kube::Error>>()
        });
        let client = kube::Client::new(silent, "default");
        let context = Context { client, ..context(&cluster) };
        context.shutdown.spawn(run(Looks::default(), context.clone()));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(context.health.troubles().len(), 1, "{:?}", context.health.troubles());
    });
}
