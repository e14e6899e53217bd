//! The change feed over HTTP, from servers that fail in every way. What was received before the failure counts.

use std::time::Duration;

use bellwether_fleet::resource::Id;
use bellwether_sentinel::config::{Config, Overrides};
use bellwether_sentinel::feed::{ChangeFeed as _, FeedError, HttpFeed};
use futures::StreamExt as _;
use rstest::rstest;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// What a server does after its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Closes,
    StaysSilent,
}

const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
const CUT_STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n";

fn event(revision: i64) -> String {
    let (id, time) = (Id::at("2026-05-01T00:00:00Z".parse().unwrap()), "2026-05-01T00:00:00Z");
    let resource = json!({
        "id": id, "kind": "Cluster", "name": "abc", "href": "/a", "spec": {}, "generation": 1, "created_time": time,
        "created_by": "a", "updated_time": time, "updated_by": "a",
    });
    format!("event: MODIFIED\nid: {revision}\ndata: {resource}\n\n")
}

fn problem(status: &str, code: &str, detail: &str) -> String {
    let body = json!({"code": code, "detail": detail}).to_string();
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// A server that sends these bytes to one client, and then resolves the receiver.
async fn serve(response: String, then: Then) -> (String, oneshot::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sent, is_sent) = oneshot::channel();
    tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 4096];
        let _ = connection.read(&mut request).await.unwrap();
        // A client that has seen enough closes the connection.
        let _ = connection.write_all(response.as_bytes()).await;
        let _ = sent.send(());
        if then == Then::StaysSilent {
            std::future::pending::<()>().await;
        }
    });
    (address, is_sent)
}

fn feed(address: String, more: &str) -> HttpFeed {
    let overrides = Overrides { api: Some(address), ..Overrides::default() };
    let config = Config::parse(&format!("resource_type: clusters\n{more}"), "sentinel.yaml", overrides);
    HttpFeed::new(&config.unwrap()).unwrap()
}

/// The revisions of all changes until the end, and the error.
async fn follow(feed: HttpFeed) -> (Vec<i64>, Option<FeedError>) {
    let mut revisions = Vec::new();
    let mut changes = match feed.watch(5).await {
        Ok(changes) => changes,
        Err(error) => return (revisions, Some(error)),
    };
    while let Some(change) = changes.next().await {
        match change {
            Ok(change) => revisions.push(change.revision),
            Err(error) => return (revisions, Some(error)),
        }
    }
    (revisions, None)
}

#[rstest]
#[case::an_error(problem("500 Internal Server Error", "INT-000", "disk full"), Then::Closes, &[], "disk full (INT-000")]
#[case::a_proxy_in_between("HTTP/1.1 503 No\r\ncontent-length: 5\r\n\r\nsorry".to_owned(), Then::Closes, &[], "HTTP 503")]
#[case::an_error_that_hangs("HTTP/1.1 500 No\r\ncontent-length: 9\r\n\r\n".to_owned(), Then::StaysSilent, &[], "it took longer than 35s")]
#[case::no_response(String::new(), Then::StaysSilent, &[], "it took longer than 35s")]
#[case::a_closed_connection(String::new(), Then::Closes, &[], "no response from http://127.0.0.1")]
#[case::silence(format!("{STREAM}{}", event(7)), Then::StaysSilent, &[7], "the watch received nothing for 45s")]
#[case::a_cut(format!("{CUT_STREAM}{}event: MODI", event(7)), Then::Closes, &[7], "no response from")]
#[case::no_resource(format!("{STREAM}event: ADDED\nid: 6\ndata: []\n\n"), Then::Closes, &[], "does not respond like the fleet API")]
#[case::no_text(format!("{STREAM}event: \u{1F600}\nid: x\ndata: {{\n\n"), Then::Closes, &[], "does not respond like the fleet API")]
#[case::an_endless_event(format!("{STREAM}data: {}", "x".repeat(9 << 20)), Then::StaysSilent, &[], "a watch event is too large")]
#[tokio::test]
async fn failing_server_ends_the_feed_with_the_cause(
    #[case] response: String,
    #[case] then: Then,
    #[case] revisions: &[i64],
    #[case] cause: &str,
) {
    let (address, is_sent) = serve(response, then).await;
    let following = tokio::spawn(follow(feed(address, "")));
    if is_sent.await.is_ok() {
        // From here on, time passes as soon as nothing else happens.
        tokio::time::pause();
    }
    let (received, error) = following.await.unwrap();
    let Some(FeedError::Failed(error)) = error else { panic!("{error:?}") };
    assert_eq!(received, revisions);
    assert!(error.contains(cause), "{error}");
}

#[tokio::test]
async fn stream_that_the_server_ends_is_no_error_of_the_feed() {
    let (address, _) = serve(format!("{STREAM}{}: keep-alive\n\nevent: MODI", event(7)), Then::Closes).await;
    let (received, error) = follow(feed(address, "")).await;
    assert_eq!(received, [7], "without the event that is cut");
    assert!(error.is_none(), "{error:?}");
}

#[tokio::test]
async fn lost_revision_and_rejected_credentials_are_different_errors() {
    let lost = r#"event: ERROR
data: {"status": 410, "code": "GON-000", "detail": "too old"}

"#;
    for response in [problem("410 Gone", "GON-000", "too old"), format!("{STREAM}{lost}")] {
        let (address, _) = serve(response, Then::Closes).await;
        let (_, error) = follow(feed(address, "")).await;
        assert!(matches!(error, Some(FeedError::Expired)), "{error:?}");
    }
    for status in ["401 Unauthorized", "403 Forbidden"] {
        let (address, _) = serve(problem(status, "AUT-000", "expired"), Then::Closes).await;
        let (_, error) = follow(feed(address, "")).await;
        assert!(matches!(error, Some(FeedError::Unauthorized(_))), "{error:?}");
    }
    let auth = "clients: {hyperfleet_api: {auth: {token_path: /nowhere/token}}}";
    let (_, error) = follow(feed("http://127.0.0.1:9".to_owned(), auth)).await;
    let error = error.unwrap();
    assert!(matches!(error, FeedError::Token { .. }));
    assert!(error.to_string().starts_with("cannot read the token file /nowhere/token: "), "{error}");
}

#[tokio::test]
async fn large_event_in_many_frames_is_read_once() {
    let text = "x".repeat(4 << 20);
    let large = event(7).replace("\"spec\":{}", &format!("\"spec\":{{\"text\":\"{text}\"}}"));
    let (address, _) = serve(format!("{STREAM}{large}{}", event(8)), Then::Closes).await;
    let following = tokio::time::timeout(Duration::from_secs(20), follow(feed(address, ""))).await;
    let (received, error) = following.unwrap();
    assert_eq!((received.as_slice(), error.is_none()), ([7, 8].as_slice(), true));
}
