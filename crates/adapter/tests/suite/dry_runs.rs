//! Dry runs with files: their traces as JSON and as text.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bellwether_adapter::config::{Config, Overrides};
use bellwether_adapter::dry_run::{Detail, DryRun, DryRunFiles, dry_run};
use bellwether_clock::Clock;

use crate::fixture::example;

struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> jiff::Timestamp {
        "2026-01-02T03:04:05Z".parse().unwrap()
    }
}

/// The directory of the files of this suite.
fn suite() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/dry_run")
}

async fn run(task: &str, event: &str, responses: &str, discovery: Option<&str>) -> DryRun {
    let directory = suite();
    let overrides = Overrides::default();
    let config = Config::load(&directory.join("adapter.yaml"), &directory.join(task), &overrides);
    let files = DryRunFiles {
        event: directory.join(event),
        api_responses: Some(directory.join(responses)),
        discovery: discovery.map(|name| directory.join(name)),
    };
    run_files(config.unwrap_or_else(|errors| panic!("{errors}")), &files).await
}

/// A dry run of an example adapter, with the event and the responses of the example `namespace`.
async fn run_example(name: &str) -> DryRun {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/examples/adapter");
    let files = DryRunFiles {
        event: examples.join("namespace/event.json"),
        api_responses: Some(examples.join("namespace/responses.json")),
        discovery: None,
    };
    run_files(example(name), &files).await
}

async fn run_files(config: Config, files: &DryRunFiles) -> DryRun {
    dry_run(Arc::new(config), files, [], Arc::new(FixedClock)).await.unwrap()
}

macro_rules! dry_runs {
    ($($name:ident: $run:expr;)*) => {
        $(
            #[tokio::test]
            async fn $name() {
                let run = $run.await;
                insta::assert_snapshot!(concat!(stringify!($name), "_json"), run.json(Detail::Verbose));
                insta::assert_snapshot!(concat!(stringify!($name), "_text"), run.text(Detail::Summary));
            }
        )*
    };
}

dry_runs! {
    kubernetes: run("kubernetes.yaml", "event.json", "responses.json", None);
    kubernetes_delete: run("kubernetes.yaml", "event.json", "responses-deleting.json", Some("discovery.json"));
    maestro: run("maestro.yaml", "event.json", "responses.json", Some("discovery-maestro.json"));
    maestro_delete: run("maestro.yaml", "event.json", "responses-deleting.json", Some("discovery-maestro.json"));
    cel_showcase: run("cel-showcase.yaml", "event.json", "responses.json", Some("discovery.json"));
    not_found: run("cel-showcase.yaml", "event.json", "responses-404.json", None);
    example_namespace: run_example("namespace");
    example_validation: run_example("validation");
}

#[tokio::test]
async fn invalid_file_is_named_in_the_error() {
    let directory = suite();
    let config = Config::load(
        &directory.join("adapter.yaml"),
        &directory.join("kubernetes.yaml"),
        &Overrides::default(),
    );
    let files = DryRunFiles { event: directory.join("kubernetes.yaml"), ..DryRunFiles::default() };
    let error = dry_run(Arc::new(config.unwrap()), &files, [], Arc::new(FixedClock)).await.unwrap_err();
    assert!(error.to_string().contains("kubernetes.yaml: the file is not valid JSON"), "{error}");
}
