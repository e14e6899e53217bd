//! The change feed: nobody who watches misses anything, wherever they begin.

use std::collections::BTreeMap;
use std::time::Duration;

use bellwether_fleet::client::WatchEvent;
use futures::{Stream, StreamExt as _};
use serde_json::{Value, json};

use crate::harness::{Api, on_both_stores};

async fn next(
    events: &mut (impl Stream<Item = Result<WatchEvent, bellwether_fleet::client::ClientError>> + Unpin),
) -> WatchEvent {
    let event = tokio::time::timeout(Duration::from_secs(20), events.next()).await;
    event.expect("an event comes in time").expect("the feed goes on").expect("the event is understood")
}

on_both_stores! {
    async fn changes_are_told_as_they_happen(api: Api) {
        let mut events = Box::pin(api.client.watch("/clusters", 0).await.unwrap());
        let cluster = api.cluster("watched").await;
        let href = cluster["href"].as_str().unwrap();
        let added = next(&mut events).await;
        assert_eq!((added.event.as_str(), json!(added.resource)), ("ADDED", cluster.clone()));
        // What happens to other kinds is not told here.
        api.node_pool(href, "pool").await;
        api.report(href, "dns", (1, 5), "True").await.expect(201);
        let modified = next(&mut events).await;
        assert_eq!((modified.event.as_str(), json!(modified.resource)), ("MODIFIED", api.read(href).await));
        assert!(modified.revision > added.revision);
        // A report that changes nothing is no change.
        api.report(href, "dns", (1, 4), "True").await.expect(204);
        api.send("DELETE", href, None).await.expect(202);
        assert!(next(&mut events).await.resource.is_deleting());
        let body = json!({"reason": "test"});
        api.send("POST", &format!("{href}/force-delete"), Some(body)).await.expect(204);
        let gone = next(&mut events).await;
        assert_eq!((gone.event.as_str(), gone.resource.id.to_string()), ("DELETED", cluster["id"].as_str().unwrap().to_owned()));
    }

    async fn who_resumes_hears_what_they_missed(api: Api) {
        let list = api.get("/clusters").await;
        let since: i64 = list.0.headers["bellwether-revision"].to_str().unwrap().parse().unwrap();
        let first = api.cluster("first").await;
        let mut events = Box::pin(api.client.watch("/clusters", since).await.unwrap());
        let heard = next(&mut events).await;
        drop(events);
        api.touch(first["href"].as_str().unwrap()).await;
        api.cluster("second").await;
        let mut events = Box::pin(api.client.watch("/clusters", heard.revision).await.unwrap());
        let (one, two) = (next(&mut events).await, next(&mut events).await);
        assert_eq!((one.event.as_str(), one.resource.name.as_str(), one.resource.generation), ("MODIFIED", "first", 2));
        assert_eq!((two.event.as_str(), two.resource.name.as_str()), ("ADDED", "second"));
        // As a browser would, by the id of the last event.
        let path = "/clusters?watch=true";
        let error = api.client.watch("/clusters", two.revision + 1000).await.err().unwrap();
        assert_eq!(error.status().unwrap(), 410);
        let reply = api.send_bytes("GET", path, None, &[("last-event-id", "nonsense")]).await;
        reply.expect_problem(400, "VAL-000", "since");
    }

    async fn what_was_forgotten_is_gone(api: Api) {
        let cluster = api.cluster("short-lived").await;
        let href = cluster["href"].as_str().unwrap();
        let since: i64 = api.get("/clusters").await.0.headers["bellwether-revision"].to_str().unwrap().parse().unwrap();
        api.send("DELETE", href, None).await.expect(202);
        let body = json!({"reason": "test"});
        api.send("POST", &format!("{href}/force-delete"), Some(body)).await.expect(204);
        while api.fleet.store().prune(crate::harness::time(0), 0).await.unwrap() {}
        let reply = api.get(&format!("/clusters?watch=true&since={since}")).await;
        reply.expect_problem(410, "NTF-005", "list again");
        // From the beginning there is always a way.
        api.cluster("later").await;
        let mut events = Box::pin(api.client.watch("/clusters", 0).await.unwrap());
        assert_eq!(next(&mut events).await.resource.name, "later");
    }

    async fn a_watch_takes_no_search(api: Api) {
        for query in ["search=name%3D%27a%27", "page=1", "order=name", "fields=name"] {
            let reply = api.get(&format!("/clusters?watch=true&{query}")).await;
            reply.expect_problem(400, "VAL-005", "cannot be combined");
        }
    }

    async fn a_parent_is_watched_for_its_children(api: Api) {
        let (one, two) = (api.cluster("one").await, api.cluster("two").await);
        let (one, two) = (one["href"].as_str().unwrap(), two["href"].as_str().unwrap());
        api.node_pool(two, "other").await;
        api.node_pool(one, "mine").await;
        let path = format!("{}/nodepools", one.strip_prefix("/api/hyperfleet/v1").unwrap());
        let mut events = Box::pin(api.client.watch(&path, 0).await.unwrap());
        assert_eq!(next(&mut events).await.resource.name, "mine");
    }

    async fn what_changes_while_it_is_told_what_there_is_comes_as_new(api: Api) {
        let mut clusters = Vec::new();
        for number in 0..600 {
            clusters.push(api.cluster(&format!("cluster-{number}")).await["href"].as_str().unwrap().to_owned());
        }
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let writer = |number: usize| {
            let (api, clusters, stopped) = (&api, &clusters, stopped.clone());
            async move {
                for step in 0.. {
                    if *stopped.borrow() {
                        return;
                    }
                    let href = &clusters[(step * 37 + number * 151) % clusters.len()];
                    api.send("PATCH", href, Some(json!({"spec": {"step": step, "by": number}}))).await.expect(200);
                }
            }
        };
        let watching = async {
            for _ in 0..20 {
                let mut events = Box::pin(api.client.watch("/clusters", 0).await.unwrap());
                let mut seen = BTreeMap::new();
                while seen.len() < clusters.len() {
                    let event = next(&mut events).await;
                    let first = seen.insert(event.resource.id, event.revision).is_none();
                    assert_eq!(first, event.event == "ADDED", "{} {}", event.event, event.resource.name);
                }
            }
            stop.send(true).unwrap();
        };
        tokio::join!(watching, writer(0), writer(1), writer(2), writer(3));
    }

    async fn thousands_of_resources_are_told_in_slices(api: Api) {
        let creates = (0..1000).map(|number| {
            let api = &api;
            async move { api.cluster(&format!("cluster-{number}")).await }
        });
        futures::stream::iter(creates).buffer_unordered(64).collect::<Vec<Value>>().await;
        let mut events = Box::pin(api.client.watch("/clusters", 0).await.unwrap());
        let mut names = BTreeMap::new();
        let mut last = 0;
        for _ in 0..1000 {
            let event = next(&mut events).await;
            assert!(event.revision > last);
            last = event.revision;
            names.insert(event.resource.name.clone(), event.event);
        }
        assert_eq!(names.len(), 1000);
        assert!(names.values().all(|event| event == "ADDED"));
    }
}
