//! Dry runs with files: their traces as JSON and as text.

use std::path::Path;
use std::sync::Arc;

use bellwether_adapter::config::{Config, Overrides};
use bellwether_adapter::dry_run::{Detail, DryRun, DryRunFiles, dry_run};
use bellwether_clock::Clock;

struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> jiff::Timestamp {
        "2026-01-02T03:04:05Z".parse().unwrap()
    }
}

async fn run(task: &str, event: &str, responses: &str, discovery: Option<&str>) -> DryRun {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/dry_run");
    let overrides = Overrides::default();
    let config = Config::load(&directory.join("adapter.yaml"), &directory.join(task), &overrides);
    let config = config.unwrap_or_else(|errors| panic!("{errors}"));
    let files = DryRunFiles {
        event: directory.join(event),
        api_responses: Some(directory.join(responses)),
        discovery: discovery.map(|name| directory.join(name)),
    };
    dry_run(Arc::new(config), &files, [], Arc::new(FixedClock)).await.unwrap()
}

macro_rules! dry_runs {
    ($($name:ident: $task:literal, $event:literal, $responses:literal, $discovery:expr;)*) => {
        $(
            #[tokio::test]
            async fn $name() {
                let run = run($task, $event, $responses, $discovery).await;
                insta::assert_snapshot!(concat!(stringify!($name), "_json"), run.json(Detail::Verbose));
                insta::assert_snapshot!(concat!(stringify!($name), "_text"), run.text(Detail::Summary));
            }
        )*
    };
}

dry_runs! {
    kubernetes: "kubernetes.yaml", "event.json", "responses.json", None;
    kubernetes_delete: "kubernetes.yaml", "event.json", "responses-deleting.json", Some("discovery.json");
    maestro: "maestro.yaml", "event.json", "responses.json", Some("discovery-maestro.json");
    maestro_delete: "maestro.yaml", "event.json", "responses-deleting.json", Some("discovery-maestro.json");
    cel_showcase: "cel-showcase.yaml", "event.json", "responses.json", Some("discovery.json");
    not_found: "cel-showcase.yaml", "event.json", "responses-404.json", None;
}

#[tokio::test]
async fn invalid_file_is_named_in_the_error() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/dry_run");
    let config = Config::load(
        &directory.join("adapter.yaml"),
        &directory.join("kubernetes.yaml"),
        &Overrides::default(),
    );
    let files = DryRunFiles { event: directory.join("kubernetes.yaml"), ..DryRunFiles::default() };
    let error = dry_run(Arc::new(config.unwrap()), &files, [], Arc::new(FixedClock)).await.unwrap_err();
    assert!(error.to_string().contains("kubernetes.yaml: the file is not valid JSON"), "{error}");
}
