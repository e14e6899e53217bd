//! What depends on time, on a paused clock: an hour passes in a moment.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on ends with a panic"
)]

use std::time::Duration;

use bellwether_testkit::{Cluster, embedded};
use serde_json::{Value, json};
use tokio::time::Instant;

const MINUTE: Duration = Duration::from_secs(60);

fn config_map(name: &str) -> Value {
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}})
}

async fn cluster_with_maps() -> (Cluster, String) {
    let cluster = embedded::in_process().await;
    let maps = format!("/api/v1/namespaces/{}/configmaps", cluster.namespace().await);
    (cluster, maps)
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn events_are_gone_after_an_hour() {
    let cluster = embedded::in_process().await;
    let namespace = cluster.namespace().await;
    let events = format!("/api/v1/namespaces/{namespace}/events");
    let event = json!({
        "kind": "Event", "apiVersion": "v1", "metadata": {"name": "e"}, "involvedObject": {"namespace": namespace},
    });
    cluster.post(&events, &event).await.expect(201);
    tokio::time::sleep(MINUTE * 59).await;
    cluster.get(format!("{events}/e")).await.expect(200);
    tokio::time::sleep(MINUTE * 3).await;
    cluster.get(format!("{events}/e")).await.expect_failure(404, "NotFound");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_seen_again_stays_an_hour_longer() {
    let cluster = embedded::in_process().await;
    let namespace = cluster.namespace().await;
    let events = format!("/api/v1/namespaces/{namespace}/events");
    let event = json!({
        "kind": "Event", "apiVersion": "v1", "metadata": {"name": "e"}, "involvedObject": {"namespace": namespace},
    });
    let created = cluster.post(&events, &event).await.expect(201);
    tokio::time::sleep(MINUTE * 50).await;
    let began: jiff::Timestamp = created["metadata"]["creationTimestamp"].as_str().unwrap().parse().unwrap();
    let seen = began + jiff::SignedDuration::from_mins(50);
    let again = json!({"count": 2, "lastTimestamp": seen.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()});
    cluster.merge(format!("{events}/e"), &again).await.expect(200);
    tokio::time::sleep(MINUTE * 50).await;
    cluster.get(format!("{events}/e")).await.expect(200);
    tokio::time::sleep(MINUTE * 12).await;
    cluster.get(format!("{events}/e")).await.expect_failure(404, "NotFound");
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_every_minute_and_before_the_end() {
    let (cluster, maps) = cluster_with_maps().await;
    let from = revision(&cluster.get(&maps).await.expect(200));
    let query = format!("watch=1&resourceVersion={from}&allowWatchBookmarks=true&timeoutSeconds=200");
    let began = Instant::now();
    let mut watch = cluster.watch(format!("{maps}?{query}")).await;
    let mut times = Vec::new();
    let mut last = from;
    while let Some(event) = watch.within(MINUTE * 10).await.unwrap() {
        assert_eq!(event.kind, "BOOKMARK");
        assert!(event.revision() >= last);
        last = event.revision();
        times.push(began.elapsed().as_secs());
    }
    assert_eq!(times, [60, 120, 180, 198]);
    assert_eq!(began.elapsed().as_secs(), 200, "and then the watch ends");
}

#[tokio::test(start_paused = true)]
async fn nobody_gets_bookmarks_unasked() {
    let (cluster, maps) = cluster_with_maps().await;
    let from = revision(&cluster.get(&maps).await.expect(200));
    let mut watch = cluster.watch(format!("{maps}?watch=1&resourceVersion={from}&timeoutSeconds=200")).await;
    assert_eq!(watch.within(MINUTE * 10).await, Ok(None));
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_a_timeout_ends_after_half_an_hour_to_an_hour() {
    let (cluster, maps) = cluster_with_maps().await;
    let from = revision(&cluster.get(&maps).await.expect(200));
    let began = Instant::now();
    let mut watch = cluster.watch(format!("{maps}?watch=1&resourceVersion={from}")).await;
    assert_eq!(watch.within(MINUTE * 61).await, Ok(None));
    let lasted = began.elapsed();
    assert!((MINUTE * 30..=MINUTE * 60).contains(&lasted), "{lasted:?}");
}

#[tokio::test(start_paused = true)]
async fn history_expires_after_five_to_eight_minutes() {
    let (cluster, maps) = cluster_with_maps().await;
    cluster.post(&maps, &config_map("a")).await.expect(201);
    let page = cluster.get(format!("{maps}?limit=1")).await.expect(200);
    let token = page["metadata"]["continue"].as_str().unwrap().to_owned();
    let from = revision(&page);
    let began = Instant::now();
    let next = format!("{maps}?limit=1&continue={token}");
    // Somebody writes all the time, so that there is history to drop.
    let mut round = 0;
    loop {
        cluster.merge(format!("{maps}/a"), &json!({"data": {"round": round.to_string()}})).await.expect(200);
        round += 1;
        let answer = cluster.get(&next).await;
        if answer.status == 410 {
            answer.expect_failure(410, "Expired");
            break;
        }
        answer.expect(200);
        assert!(began.elapsed() < MINUTE * 8, "the page is still there");
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    assert!(began.elapsed() >= MINUTE * 5, "gone after {:?}", began.elapsed());
    let mut watch = cluster.watch(format!("{maps}?watch=1&resourceVersion={from}")).await;
    let event = watch.event().await;
    assert_eq!((event.kind.as_str(), &event.object["reason"]), ("ERROR", &json!("Expired")));
}

#[tokio::test(start_paused = true)]
async fn an_idle_watch_survives_the_end_of_history() {
    let (cluster, maps) = cluster_with_maps().await;
    let from = revision(&cluster.get(&maps).await.expect(200));
    let mut watch = cluster.watch(format!("{maps}?watch=1&resourceVersion={from}")).await;
    for _ in 0..20 {
        // History moves on, but not here.
        cluster
            .merge("/api/v1/namespaces/default", &json!({"metadata": {"labels": {"x": "y"}}}))
            .await
            .expect(200);
        cluster
            .merge("/api/v1/namespaces/default", &json!({"metadata": {"labels": {"x": null}}}))
            .await
            .expect(200);
        tokio::time::sleep(MINUTE).await;
    }
    cluster.post(&maps, &config_map("late")).await.expect(201);
    watch.expect("ADDED", "late").await;
}

#[tokio::test(start_paused = true)]
async fn a_revision_of_the_future_is_waited_for_three_seconds() {
    let (cluster, maps) = cluster_with_maps().await;
    let next = revision(&cluster.get(&maps).await.expect(200)) + 1;
    let path = format!("{maps}?resourceVersion={next}");
    let began = Instant::now();
    let (list, ()) = tokio::join!(cluster.get(&path), async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        cluster.post(&maps, &config_map("a")).await.expect(201);
    });
    assert!(revision(&list.expect(200)) >= next);
    assert_eq!(began.elapsed().as_secs(), 2);
    let began = Instant::now();
    cluster.get(format!("{maps}?resourceVersion=99999999")).await.expect_failure(504, "Timeout");
    assert_eq!(began.elapsed().as_secs(), 3);
}

#[tokio::test(start_paused = true)]
async fn objects_are_dated_by_the_injected_clock() {
    let (cluster, maps) = cluster_with_maps().await;
    let first = cluster.post(&maps, &config_map("a")).await.expect(201);
    tokio::time::sleep(MINUTE * 60).await;
    let second = cluster.post(&maps, &config_map("b")).await.expect(201);
    let time = |object: &Value| -> jiff::Timestamp {
        object["metadata"]["creationTimestamp"].as_str().unwrap().parse().unwrap()
    };
    assert_eq!((time(&second) - time(&first)).total(jiff::Unit::Minute).unwrap().round(), 60.0);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_nobody_reads_to_its_end_becomes_too_old_also_where_nothing_else_is_written() {
    let (cluster, maps) = cluster_with_maps().await;
    for name in ["a", "b", "c"] {
        cluster.post(&maps, &config_map(name)).await.expect(201);
    }
    let first = cluster.get(format!("{maps}?limit=1")).await.expect(200);
    let rest = format!("{maps}?limit=1&continue={}", first["metadata"]["continue"].as_str().unwrap());
    tokio::time::sleep(MINUTE * 4).await;
    assert_eq!(revision(&cluster.get(&rest).await.expect(200)), revision(&first), "it is still whole");
    tokio::time::sleep(MINUTE * 3).await;
    let expired = cluster.get(&rest).await;
    let token = expired.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    expired.expect_failure(410, "Expired");
    // The rest of it as it is by now, which need not fit what was read before.
    let second = cluster.get(format!("{maps}?limit=1&continue={token}")).await.expect(200);
    assert_eq!(second["items"][0]["metadata"]["name"], "b");
    assert!(revision(&second) > revision(&first));

    let quiet = revision(&cluster.get(&maps).await.expect(200));
    tokio::time::sleep(MINUTE * 60).await;
    assert!(
        revision(&cluster.get(&maps).await.expect(200)) <= quiet + 1,
        "nothing is written where nobody reads pages"
    );
}
