//! The collector between two Prometheus servers: one that scrapes, and one that receives.

use std::num::NonZeroU32;

use bellwether_testkit::eventually;
use bellwether_testkit::prometheus::Prometheus;
use serde_json::Value;

use crate::fixture::{Running, config};
use crate::server::{Answer, Server};

const METRICS: &str = "# TYPE shop_orders_total counter\nshop_orders_total{path=\"/a b\\\"c\",code=\"200\"} 42\nshop_orders_total{path=\"/x\",code=\"500\"} 1.5e3\n# TYPE shop_temperature gauge\nshop_temperature NaN\n# TYPE shop_latency histogram\nshop_latency_bucket{le=\"0.5\"} 3\nshop_latency_bucket{le=\"+Inf\"} 4\nshop_latency_sum 1.25\nshop_latency_count 4\n";

/// A Prometheus that scrapes a target every second.
fn scraping(target: &Server) -> Prometheus {
    let address = target.url().replace("http://", "");
    let config = format!(
        "global: {{scrape_interval: 1s, scrape_timeout: 1s}}\n\
         scrape_configs: [{{job_name: shop, static_configs: [{{targets: ['{address}']}}]}}]\n"
    );
    Prometheus::start(&config, &[])
}

fn receiving() -> Prometheus {
    Prometheus::start("global: {}\n", &["--web.enable-remote-write-receiver"])
}

/// The labels and values of a result, without time.
fn values(result: &[Value]) -> Vec<String> {
    let mut values: Vec<String> =
        result.iter().map(|element| format!("{} {}", element["metric"], element["value"][1])).collect();
    values.sort();
    values
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chosen_series_arrive_with_equal_values_and_failures_are_reported() {
    let target =
        Server::start(|_, _| Answer::Respond(200, "content-type: text/plain; version=0.0.4", METRICS.into()))
            .await;
    let (source, mut receiver) = tokio::task::block_in_place(|| (scraping(&target), receiving()));
    let mut config = config(&source.url(), &receiver.url());
    config.matches = [r#"{__name__=~"shop_.*"}"#, r#"{__name__="up",job="shop"}"#]
        .iter()
        .map(|text| text.parse().unwrap())
        .collect();
    config.recording_rules =
        vec![r#"{"name":"shop:orders:sum","query":"sum(shop_orders_total)"}"#.parse().unwrap()];
    config.failure_threshold = NonZeroU32::new(3).unwrap();
    let collector = Running::start(config).await;

    let all = r#"{__name__=~"shop_.*|up",cluster="spoke-1"}"#;
    eventually("all series at the receiver", || async {
        (receiver.query(all).await.len() == 8).then_some(())
    })
    .await;
    let expected = source.query(r#"{__name__=~"shop_.*|up"}"#).await;
    assert_eq!(expected.len(), 8);
    let mut received = receiver.query(all).await;
    for series in &mut received {
        assert_eq!(series["metric"].as_object_mut().unwrap().remove("cluster"), Some("spoke-1".into()));
    }
    assert_eq!(values(&received), values(&expected));
    let sum =
        eventually("the recording rule", || async { receiver.query("shop:orders:sum").await.pop() }).await;
    assert_eq!((&sum["value"][1], &sum["metric"]["cluster"]), (&"1542".into(), &"spoke-1".into()));
    collector.await_reason("ForwardSuccessful").await;
    assert_eq!(collector.metric("forward_write_requests_total{status_code=\"400\"}"), 0.0);

    tokio::task::block_in_place(|| receiver.kill());
    let failures = || collector.metric("forward_cycles_total{result=\"failure\"}");
    collector.await_reason("ForwardFailure").await;
    assert!(failures() >= 3.0, "failures below the threshold are not reported");
    let report = collector.report().await;
    let expected = format!(
        "ForwardFailure: Failed to send metrics: cannot connect to {}/api/v1/write: ",
        receiver.url()
    );
    assert!(report.starts_with(&expected), "{report}");

    tokio::task::block_in_place(|| receiver.start_again());
    collector.await_reason("ForwardSuccessful").await;
    eventually("series after the restart", || async { (receiver.query(all).await.len() == 8).then_some(()) })
        .await;
}
