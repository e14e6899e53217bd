//! Cycles that succeed: what is requested, what is sent, and what is reported over several cycles.

use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use bellwether_testkit::eventually;

use crate::fixture::{Running, config};
use crate::server::{Answer, Request, Server};
use crate::wire;

async fn receiver() -> Server {
    Server::start(|_, _| Answer::ok("")).await
}

#[tokio::test]
async fn requests_are_those_of_federation_and_remote_write() {
    let source =
        Server::start(|_, _| Answer::ok("# TYPE up untyped\nup{job=\"a\",instance=\"\"} 1\nrenamed 2\n"))
            .await;
    let receiver = receiver().await;
    let collector = Running::start(config(&source.url(), &receiver.url())).await;
    assert_eq!(collector.report().await, "ForwardSuccessful: Cluster metrics sent successfully");

    let read = &source.requests()[0];
    assert_eq!(read.line, "GET /federate?match%5B%5D=up HTTP/1.1");
    assert_eq!(read.header("accept"), Some("text/plain;version=0.0.4"));
    assert_eq!(read.header("authorization"), None);

    let write = &receiver.requests()[0];
    assert_eq!(write.line, "POST /api/v1/write HTTP/1.1");
    assert_eq!(write.header("content-encoding"), Some("snappy"));
    assert_eq!(write.header("content-type"), Some("application/x-protobuf"));
    assert_eq!(write.header("x-prometheus-remote-write-version"), Some("0.1.0"));
    assert_eq!(
        wire::series(write),
        ["up{cluster=\"spoke-1\",job=\"a\"} 1", "new_name{cluster=\"spoke-1\"} 2"]
    );
    assert!(collector.metric("forward_last_success_timestamp_seconds") > 1_600_000_000.0);
}

#[tokio::test]
async fn many_series_are_sent_in_batches() {
    let text: String = (0..25_000).map(|index| format!("up{{i=\"{index}\"}} 1\n")).collect();
    let source = Server::start(move |_, _| Answer::ok(text.clone())).await;
    let receiver = receiver().await;
    let mut config = config(&source.url(), &receiver.url());
    config.interval = Duration::from_secs(60);
    let collector = Running::start(config).await;
    assert_eq!(collector.report().await, "ForwardSuccessful: Cluster metrics sent successfully");
    let counts: Vec<usize> = receiver.requests().iter().map(wire::count).collect();
    assert_eq!(counts, [10_000, 10_000, 5_000]);
    assert_eq!(collector.metric("federate_samples"), 25_000.0);
}

#[tokio::test]
async fn selectors_are_divided_among_workers() {
    let source = Server::start(|_, _| Answer::ok("up 1\n")).await;
    let receiver = receiver().await;
    let mut config = config(&source.url(), &receiver.url());
    config.interval = Duration::from_secs(60);
    config.matches = ["a", "b", "c", "d", "e"].iter().map(|text| text.parse().unwrap()).collect();
    config.workers = NonZeroUsize::new(3).unwrap();
    let collector = Running::start(config).await;
    collector.report().await;
    let mut lines: Vec<String> = source.requests().into_iter().map(|request| request.line).collect();
    lines.sort();
    let expected = ["match%5B%5D=a&match%5B%5D=d", "match%5B%5D=b&match%5B%5D=e", "match%5B%5D=c"];
    assert_eq!(lines, expected.map(|query| format!("GET /federate?{query} HTTP/1.1")));
}

fn is_query(request: &Request) -> bool {
    request.line.starts_with("GET /api/v1/query?")
}

const VECTOR: &str = r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"up","job":"a"},"value":[TIME,"7"]}]}}"#;

fn vector() -> Answer {
    let now = jiff::Timestamp::now().as_second();
    Answer::ok(VECTOR.replace("TIME", &now.to_string()))
}

#[tokio::test]
async fn recording_rules_are_forwarded_under_their_names() {
    let source = Server::start(|_, request| if is_query(request) { vector() } else { Answer::ok("") }).await;
    let receiver = receiver().await;
    let mut config = config(&source.url(), &receiver.url());
    config.recording_rules = vec![r#"{"name":"job:up:sum","query":"sum by (job) (up)"}"#.parse().unwrap()];
    let collector = Running::start(config).await;
    assert_eq!(collector.report().await, "ForwardSuccessful: Cluster metrics sent successfully");
    assert_eq!(wire::series(&receiver.requests()[0]), ["job:up:sum{cluster=\"spoke-1\",job=\"a\"} 7"]);
    let query = source.requests().into_iter().find(is_query).unwrap();
    assert_eq!(query.line, "GET /api/v1/query?query=sum%20by%20%28job%29%20%28up%29 HTTP/1.1");
}

#[tokio::test]
async fn failed_rule_counts_only_if_no_rule_has_a_result() {
    let bad = |request: &Request| request.line.contains("query=bad");
    let source = Server::start(move |_, request| match request {
        request if bad(request) => {
            Answer::Respond(400, "", r#"{"status":"error","error":"parse error"}"#.into())
        }
        request if is_query(request) => vector(),
        _ => Answer::ok("up 1\n"),
    })
    .await;
    let receiver = receiver().await;
    let rule = |name: &str, query: &str| format!(r#"{{"name":"{name}","query":"{query}"}}"#).parse().unwrap();
    let with = |rules| {
        let mut config = config(&source.url(), &receiver.url());
        config.interval = Duration::from_secs(60);
        config.recording_rules = rules;
        config
    };
    let collector = Running::start(with(vec![rule("broken", "bad"), rule("fine", "up")])).await;
    assert_eq!(collector.report().await, "ForwardSuccessful: Cluster metrics sent successfully");
    let collector = Running::start(with(vec![rule("broken", "bad")])).await;
    let report = collector.report().await;
    let expected = format!(
        "ForwardFailure: Failed to retrieve recording metrics: rule broken: {}/api/v1/query answered 400 Bad Request: ",
        source.url()
    );
    assert!(report.starts_with(&expected), "{report}");
    assert!(report.ends_with("(1 of 2 workers failed)"), "{report}");
}

#[tokio::test]
async fn failure_is_reported_after_the_threshold_and_success_at_once() {
    let source = Server::start(|_, _| Answer::ok("up 1\n")).await;
    let receiver = receiver().await;
    let mut config = config(&source.url(), &receiver.url());
    config.failure_threshold = NonZeroU32::new(3).unwrap();
    let collector = Running::start(config).await;
    collector.await_reason("ForwardSuccessful").await;

    receiver.answer(|_, _| Answer::status(400));
    let failures = || collector.metric("forward_cycles_total{result=\"failure\"}");
    eventually("two failures", || async { (failures() >= 2.0).then_some(()) }).await;
    if failures() < 3.0 {
        assert_eq!(collector.condition().await.unwrap()["reason"], "ForwardSuccessful");
    }
    collector.await_reason("ForwardFailure").await;
    assert!(failures() >= 3.0);

    receiver.answer(|_, _| Answer::ok(""));
    let successes = || collector.metric("forward_cycles_total{result=\"success\"}");
    let before = successes();
    collector.await_reason("ForwardSuccessful").await;
    assert!(successes() <= before + 2.0, "the first success is reported");
}

#[tokio::test]
async fn failing_worker_does_not_flap() {
    let source = Server::start(|_, request| match request {
        request if request.line.contains("=bad ") => Answer::status(500),
        _ => Answer::ok("up 1\n"),
    })
    .await;
    let receiver = receiver().await;
    let mut config = config(&source.url(), &receiver.url());
    config.matches = ["good", "bad"].iter().map(|text| text.parse().unwrap()).collect();
    config.workers = NonZeroUsize::new(2).unwrap();
    let collector = Running::start(config).await;
    collector.await_reason("ForwardFailure").await;
    let transition = collector.condition().await.unwrap()["lastTransitionTime"].clone();
    let cycles = || collector.metric("forward_cycles_total{result=\"failure\"}");
    let before = cycles();
    eventually("two more cycles", || async { (cycles() >= before + 2.0).then_some(()) }).await;
    let condition = collector.condition().await.unwrap();
    assert_eq!(
        (&condition["reason"], &condition["lastTransitionTime"]),
        (&"ForwardFailure".into(), &transition)
    );
}

#[tokio::test]
async fn nothing_is_reported_and_nothing_ready_before_the_first_cycle_ends() {
    let source = Server::start(|_, _| Answer::Hang).await;
    let receiver = receiver().await;
    let mut config = config(&source.url(), &receiver.url());
    config.interval = Duration::from_secs(60);
    let collector = Running::start(config).await;
    eventually("a request", || async { source.requests().first().cloned() }).await;
    assert_eq!(collector.condition().await, None);
    assert_eq!(collector.health.not_ready().len(), 1);
    tokio::time::timeout(Duration::from_secs(5), collector.shutdown.finish())
        .await
        .expect("it stops at once");
}
