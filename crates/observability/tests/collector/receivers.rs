//! Receivers that reject, delay or lose what they are sent.

use std::time::{Duration, Instant};

use bellwether_testkit::eventually;
use rstest::rstest;

use crate::fixture::{Running, config};
use crate::server::{Answer, Server};
use crate::wire;

const SENT: &str = "ForwardSuccessful: Cluster metrics sent successfully";

async fn source() -> Server {
    Server::start(|_, _| Answer::ok("up 1\n")).await
}

#[rstest]
#[case::bad_request(400, "400 Bad Request: why it was rejected; check the log of the receiver")]
#[case::unauthorized(
    401,
    "401 Unauthorized: why it was rejected; check --to-upload-cert, --to-upload-key and --to-upload-token-file"
)]
#[case::not_found(404, "404 Not Found: why it was rejected; check the address --to-upload")]
#[case::not_implemented(
    501,
    "501 Not Implemented: why it was rejected; check the address --to-upload: it does not accept remote write"
)]
#[case::one_series_is_too_large(
    413,
    "413 Payload Too Large: why it was rejected; raise the request size limit of the receiver: it is smaller than one series"
)]
#[tokio::test]
async fn rejection_fails_the_cycle_without_a_retry(#[case] status: u16, #[case] message: &str) {
    let (source, receiver) = (source().await, Server::start(move |_, _| Answer::status(status)).await);
    let mut config = config(&source.url(), &receiver.url());
    config.interval = Duration::from_secs(60);
    let collector = Running::start(config).await;
    let expected =
        format!("ForwardFailure: Failed to send metrics: {}/api/v1/write answered {message}", receiver.url());
    let report = collector.report().await;
    assert!(report.starts_with(&expected), "{report}");
    assert_eq!(receiver.requests().len(), 1);
    assert_eq!(collector.metric(&format!("forward_write_requests_total{{status_code=\"{status}\"}}")), 1.0);
}

#[tokio::test]
async fn conflict_counts_as_success() {
    let (source, receiver) = (source().await, Server::start(|_, _| Answer::status(409)).await);
    let collector = Running::start(config(&source.url(), &receiver.url())).await;
    assert_eq!(collector.report().await, SENT);
}

#[rstest]
#[case::internal_error(Answer::status(500))]
#[case::unavailable(Answer::status(503))]
#[case::too_many_requests(Answer::status(429))]
#[tokio::test]
async fn temporary_error_is_retried_within_the_cycle(#[case] first: Answer) {
    let answer = move |number, _: &_| if number == 0 { first.clone() } else { Answer::ok("") };
    let (source, receiver) = (source().await, Server::start(answer).await);
    let mut config = config(&source.url(), &receiver.url());
    config.interval = Duration::from_secs(60);
    let collector = Running::start(config).await;
    assert_eq!(collector.report().await, SENT);
    let requests = receiver.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].body, requests[1].body);
    assert_eq!(source.requests().len(), 1, "the samples are not read again");
}

#[tokio::test]
async fn retry_waits_as_long_as_the_receiver_asks() {
    let answer = |number, _: &_| match number {
        0 => Answer::Respond(429, "retry-after: 2", String::new()),
        _ => Answer::ok(""),
    };
    let (source, receiver) = (source().await, Server::start(answer).await);
    let mut config = config(&source.url(), &receiver.url());
    config.interval = Duration::from_secs(60);
    let collector = Running::start(config).await;
    eventually("the first request", || async { receiver.requests().first().cloned() }).await;
    let first = Instant::now();
    assert_eq!(collector.report().await, SENT);
    assert!(first.elapsed() >= Duration::from_millis(1900), "{:?}", first.elapsed());
}

#[tokio::test]
async fn retry_after_beyond_the_cycle_fails_it_at_once() {
    let answer = |_, _: &_| Answer::Respond(503, "retry-after: 3600", "busy".into());
    let (source, receiver) = (source().await, Server::start(answer).await);
    let mut config = config(&source.url(), &receiver.url());
    config.interval = Duration::from_secs(60);
    let collector = Running::start(config).await;
    let report = collector.report().await;
    assert!(
        report.contains("answered 503 Service Unavailable: busy; check the log of the receiver"),
        "{report}"
    );
    assert_eq!(receiver.requests().len(), 1);
}

#[rstest]
#[case::hang(Answer::Hang, "no complete answer from URL before the cycle ended")]
#[case::reset(Answer::Reset, "the connection to URL was lost: ")]
#[tokio::test]
async fn receiver_that_does_not_answer_is_named(#[case] answer: Answer, #[case] message: &str) {
    let (source, receiver) = (source().await, Server::start(move |_, _| answer.clone()).await);
    let collector = Running::start(config(&source.url(), &receiver.url())).await;
    let expected = message.replace("URL", &format!("{}/api/v1/write", receiver.url()));
    let report = collector.report().await;
    assert!(report.starts_with(&format!("ForwardFailure: Failed to send metrics: {expected}")), "{report}");
}

#[tokio::test]
async fn receiver_that_is_down_is_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let source = source().await;
    let mut config = config(&source.url(), &url);
    config.interval = Duration::from_secs(60);
    let collector = Running::start(config).await;
    let report = collector.report().await;
    let expected = format!("ForwardFailure: Failed to send metrics: cannot connect to {url}/api/v1/write: ");
    assert!(report.starts_with(&expected), "{report}");
    assert!(report.ends_with("; check --to-upload and that the receiver is running"), "{report}");
}

#[tokio::test]
async fn batch_that_is_too_large_is_sent_in_parts() {
    let text: String = (0..1000).map(|index| format!("up{{i=\"{index}\"}} {index}\n")).collect();
    let source = Server::start(move |_, _| Answer::ok(text.clone())).await;
    let receiver = Server::start(|_, request| match wire::count(request) {
        0..=300 => Answer::ok(""),
        _ => Answer::status(413),
    })
    .await;
    let mut config = config(&source.url(), &receiver.url());
    config.interval = Duration::from_secs(60);
    let collector = Running::start(config).await;
    assert_eq!(collector.report().await, SENT);
    let counts: Vec<usize> = receiver.requests().iter().map(wire::count).collect();
    assert_eq!(counts, [1000, 500, 250, 250, 500, 250, 250]);
    let accepted = receiver.requests().into_iter().filter(|request| wire::count(request) <= 300);
    let series: Vec<String> = accepted.flat_map(|request| wire::series(&request)).collect();
    let expected: Vec<String> =
        (0..1000).map(|index| format!("up{{cluster=\"spoke-1\",i=\"{index}\"}} {index}")).collect();
    assert_eq!(series, expected, "every series is sent once and in order");
}
