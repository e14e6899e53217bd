//! HTTP calls against a server that fails, hangs and recovers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, put};
use bellwether_adapter::api::{Api as _, ApiError, ApiRequest, HttpApi};
use bellwether_adapter::config::{ApiConfig, RetryBackoff};

async fn serve(router: Router) -> String {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    url
}

fn config(base_url: &str) -> ApiConfig {
    ApiConfig {
        base_url: base_url.to_owned(),
        version: "v1".into(),
        timeout: Duration::from_millis(300),
        retry_attempts: 3,
        retry_backoff: RetryBackoff::Constant,
        base_delay: Duration::from_millis(10),
        max_delay: Duration::from_millis(10),
        default_headers: [("x-tenant".to_owned(), "t1".to_owned())].into(),
        token_path: None,
    }
}

fn request(method: &str, url: &str, attempts: u32) -> ApiRequest {
    ApiRequest {
        method: method.into(),
        url: url.into(),
        headers: vec![("x-trace".into(), "1".into())],
        body: (method == "PUT").then(|| "{}".to_owned()),
        timeout: Duration::from_millis(300),
        attempts,
        backoff: RetryBackoff::Constant,
    }
}

#[tokio::test]
async fn calls_are_retried_until_they_succeed_or_attempts_are_used_up() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let flaky = move || async move {
        match counted.fetch_add(1, Ordering::Relaxed) {
            0 | 1 => (StatusCode::INTERNAL_SERVER_ERROR, "busy"),
            _ => (StatusCode::OK, "{}"),
        }
    };
    let url = serve(
        Router::new()
            .route("/api/flaky", get(flaky))
            .route("/api/bad", get(|| async { StatusCode::BAD_REQUEST })),
    )
    .await;
    let api = HttpApi::new(config(&url));
    assert_eq!(api.call(&request("GET", "/api/flaky", 3)).await.unwrap().status, 200);
    assert_eq!(calls.load(Ordering::Relaxed), 3);
    calls.store(0, Ordering::Relaxed);
    assert_eq!(api.call(&request("GET", "/api/flaky", 2)).await.unwrap().status, 500);
    assert_eq!(api.call(&request("GET", "/api/bad", 3)).await.unwrap().status, 400);
}

#[tokio::test]
async fn api_that_hangs_is_given_up_in_time() {
    let url =
        serve(Router::new().route("/api/hang", get(|| async { std::future::pending::<()>().await }))).await;
    let start = Instant::now();
    let error = HttpApi::new(config(&url)).call(&request("GET", "/api/hang", 2)).await.unwrap_err();
    assert!(matches!(&error, ApiError::Unreachable { attempts: 2, .. }), "{error}");
    assert!(error.to_string().contains("it took longer than 300ms"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn refused_connection_names_the_call_and_the_cause() {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = HttpApi::new(config(&url)).call(&request("GET", "/api/x", 2)).await.unwrap_err();
    assert!(error.to_string().starts_with("GET /api/x: no response after 2 attempts"), "{error}");
}

#[tokio::test]
async fn headers_of_the_configuration_go_to_the_fleet_api_alone() {
    let echo = |headers: HeaderMap| async move {
        let text = |name: &str| headers.get(name).map_or("-", |value| value.to_str().unwrap()).to_owned();
        format!("{} {} {}", text("x-tenant"), text("x-trace"), text("content-type"))
    };
    let own = serve(Router::new().route("/api/echo", put(echo))).await;
    let other = serve(Router::new().route("/echo", put(echo))).await;
    let api = HttpApi::new(config(&own));
    assert_eq!(api.call(&request("PUT", "/api/echo", 1)).await.unwrap().body, "t1 1 application/json");
    assert_eq!(
        api.call(&request("PUT", &format!("{other}/echo"), 1)).await.unwrap().body,
        "- 1 application/json"
    );
    let with_slash = HttpApi::new(config(&format!("{own}/")));
    let body = with_slash.call(&request("PUT", &format!("{own}/api/echo"), 1)).await.unwrap().body;
    assert_eq!(body, "t1 1 application/json");
    let error = api.call(&request("PUT", "ftp://x/y", 1)).await.unwrap_err();
    assert!(matches!(error, ApiError::Invalid { .. }), "{error}");
}
