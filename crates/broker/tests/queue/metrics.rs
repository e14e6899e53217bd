//! The metrics have upstream's names and labels.

use std::sync::Arc;
use std::time::Duration;

use bellwether_broker::BrokerMetrics;
use bellwether_broker::config::{BrokerConfig, connect_metered};
use bellwether_clock::SteadyClock;
use bellwether_runtime::Metrics;

use crate::{event, next};

#[tokio::test]
async fn metrics_have_upstreams_names_and_labels() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("queue.db");
    let config = BrokerConfig::from_url(format!("sqlite:{}", path.display()).parse().unwrap());
    let metrics = Metrics::default();
    let registered = BrokerMetrics::register(&metrics, "sentinel", "1.2");
    let broker = connect_metered(&config, Arc::new(SteadyClock::default()), registered).unwrap();
    let mut subscriber = broker.subscribe("t", "s").await.unwrap();
    broker.publish("t", &event(1)).await.unwrap();
    rusqlite::Connection::open(&path).unwrap().execute("UPDATE event SET body = x'00'", []).unwrap();
    broker.publish("t", &event(2)).await.unwrap();
    next(&mut subscriber).await.nack(Duration::ZERO).await.unwrap();
    next(&mut subscriber).await.ack().await.unwrap();
    broker.publish("not valid", &event(3)).await.unwrap_err();

    let text = metrics.text();
    let labels = r#"topic="t",component="sentinel",version="1.2""#;
    for line in [
        format!("hyperfleet_broker_messages_published_total{{{labels}}} 2"),
        format!("hyperfleet_broker_messages_consumed_total{{{labels}}} 3"),
        format!("hyperfleet_broker_message_duration_seconds_count{{{labels}}} 2"),
        r#"hyperfleet_broker_errors_total{topic="t",error_type="conversion",component="sentinel",version="1.2"} 1"#.into(),
        r#"hyperfleet_broker_errors_total{topic="t",error_type="handler",component="sentinel",version="1.2"} 1"#.into(),
        r#"hyperfleet_broker_errors_total{topic="not valid",error_type="publish",component="sentinel",version="1.2"} 1"#
            .into(),
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}
