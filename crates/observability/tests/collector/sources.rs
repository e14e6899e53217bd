//! Sources that are down, slow, too large, or send something else than metrics.

use std::time::Duration;

use rstest::rstest;

use crate::fixture::{Running, config};
use crate::server::{Answer, Server};
use crate::wire;

#[rstest]
#[case::hang(
    Answer::Hang,
    "no complete answer from URL before the cycle ended; check its load, or raise the interval"
)]
#[case::reset(Answer::Reset, "the connection to URL was lost: ")]
#[case::cut_off(Answer::CutOff("up 1\n"), "the connection to URL was lost: ")]
#[case::bad_request(
    Answer::status(400),
    "URL answered 400 Bad Request: why it was rejected; correct the selector or query that it names"
)]
#[case::unauthorized(
    Answer::status(401),
    "URL answered 401 Unauthorized: why it was rejected; check --from-token-file"
)]
#[case::forbidden(
    Answer::status(403),
    "URL answered 403 Forbidden: why it was rejected; allow the account of --from-token-file"
)]
#[case::not_found(
    Answer::status(404),
    "URL answered 404 Not Found: why it was rejected; check the address --from"
)]
#[case::redirect(
    Answer::status(302),
    "URL answered 302 Found: why it was rejected; check the address --from"
)]
#[case::unavailable(
    Answer::status(503),
    "URL answered 503 Service Unavailable: why it was rejected; check the log of Prometheus"
)]
#[case::two_gibibytes(Answer::Announce(2 << 30), "the response of URL is larger than the limit of 67108864 bytes; raise scrapeSizeLimitBytes")]
#[case::endless_line(
    Answer::Endless("a"),
    "URL: line 1 is not in the Prometheus text format: it is longer than 1 MiB"
)]
#[case::a_web_page(
    Answer::ok("<html>\n"),
    "URL: line 1 is not in the Prometheus text format: it does not begin with the name of a metric: \"<html>\"; check the address --from"
)]
#[case::invalid_line(
    Answer::ok("up 1\nup one\n"),
    "URL: line 2 is not in the Prometheus text format: its value is not a number: \"up one\""
)]
#[case::truncated(Answer::Stream("up 1\nup{a=\"b\"} 12".into()), "URL: line 2 is not in the Prometheus text format: the response ends before the end of the line")]
#[tokio::test]
async fn failure_names_the_address_and_the_next_step(#[case] answer: Answer, #[case] message: &str) {
    let source = Server::start(move |_, _| answer.clone()).await;
    let receiver = Server::start(|_, _| Answer::ok("")).await;
    let collector = Running::start(config(&source.url(), &receiver.url())).await;
    let expected = message.replace("URL", &format!("{}/federate", source.url()));
    let report = collector.report().await;
    assert!(
        report.starts_with(&format!("ForwardFailure: Failed to retrieve metrics: {expected}")),
        "{report}"
    );
    assert!(collector.health.not_ready().is_empty(), "a failed cycle does not make the process not ready");
    assert!(receiver.requests().is_empty(), "a failed cycle sends no partial batch");
}

#[tokio::test]
async fn source_that_is_down_is_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let receiver = Server::start(|_, _| Answer::ok("")).await;
    let collector = Running::start(config(&url, &receiver.url())).await;
    let report = collector.report().await;
    let expected = format!("ForwardFailure: Failed to retrieve metrics: cannot connect to {url}/federate: ");
    assert!(report.starts_with(&expected), "{report}");
    assert!(report.contains("Connection refused"), "{report}");
    assert!(report.ends_with("; check --from and that Prometheus is running"), "{report}");
    assert!(collector.metric("federate_requests_total{type=\"federate\",status_code=\"0\"}") >= 1.0);
}

#[tokio::test]
async fn endless_source_is_stopped_at_the_limit_and_never_a_success() {
    let source = Server::start(|_, _| Answer::Endless("up{a=\"b\"} 1\n")).await;
    let receiver = Server::start(|_, _| Answer::ok("")).await;
    let mut config = config(&source.url(), &receiver.url());
    config.limit_bytes = 3_000_000;
    config.interval = Duration::from_secs(60);
    let collector = Running::start(config).await;
    let report = collector.report().await;
    let expected = format!(
        "ForwardFailure: Failed to retrieve metrics: the response of {}/federate is larger than the limit of 3000000 bytes; \
         raise scrapeSizeLimitBytes in the spec of the ObservabilityAddon (--limit-bytes), or select fewer series",
        source.url()
    );
    assert_eq!(report, expected);
}

#[tokio::test]
async fn not_a_number_is_forwarded_and_duplicates_are_not() {
    let text = "up{i=\"1\"} NaN\nup{i=\"1\"} 2\nup{i=\"2\",prometheus_replica=\"a\"} 3\nup{i=\"2\",prometheus_replica=\"b\"} 4\nold 1 1000\n";
    let source = Server::start(move |_, _| Answer::ok(text)).await;
    let receiver = Server::start(|_, _| Answer::ok("")).await;
    let collector = Running::start(config(&source.url(), &receiver.url())).await;
    assert_eq!(collector.report().await, "ForwardSuccessful: Cluster metrics sent successfully");
    let expected = ["up{cluster=\"spoke-1\",i=\"1\"} NaN", "up{cluster=\"spoke-1\",i=\"2\"} 3"];
    assert_eq!(wire::series(&receiver.requests()[0]), expected);
    assert_eq!(collector.metric("federate_samples"), 5.0);
    assert_eq!(collector.metric("federate_filtered_samples"), 3.0);
    assert!(collector.metric("federate_dropped_samples_total{reason=\"duplicate\"}") >= 2.0);
    assert!(collector.metric("federate_dropped_samples_total{reason=\"too_old\"}") >= 1.0);
}

#[rstest]
#[case::empty("")]
#[case::only_comments("# TYPE up untyped\n")]
#[case::only_old_samples("up 1 1000\n")]
#[tokio::test]
async fn no_series_is_a_success(#[case] text: &'static str) {
    let source = Server::start(move |_, _| Answer::ok(text)).await;
    let receiver = Server::start(|_, _| Answer::ok("")).await;
    let collector = Running::start(config(&source.url(), &receiver.url())).await;
    assert_eq!(collector.report().await, "ForwardSuccessful: No metrics to send");
    assert!(receiver.requests().is_empty());
}
