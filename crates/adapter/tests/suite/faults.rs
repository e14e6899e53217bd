//! An API that fails, params that are missing, resources that are gone.

use bellwether_adapter::trace::{Phase, Report, Status};
use bellwether_testkit::{embedded, on_paused_time};

use crate::fixture::{Fixture, Mode, config_of, example, operations};

#[test]
fn failed_required_param_is_reported_as_unavailable_and_unhealthy() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let task = r#"
params:
  - {name: token, source: env.NOT_SET, required: true}
resources:
  - name: config
    manifest: {apiVersion: v1, kind: ConfigMap, metadata: {name: "x-{{ .token }}", namespace: default}}
    discovery: {namespace: default, by_name: x}
post:
  payloads:
    - name: status
      build:
        observed_generation: {expression: "event.generation"}
        conditions:
          - {type: Available, status: {expression: "has(resources.config) ? 'True' : 'Unknown'"}, reason: r, message: m}
          - {type: Health, status: {expression: "adapter.executionStatus == 'success' ? 'True' : 'False'"}, reason: {expression: "adapter.errorReason"}, message: {expression: "adapter.executionError.message"}}
          - {type: Applied, status: "False", reason: r, message: {expression: "'token ' + token"}}
  post_actions:
    - {name: report, api_call: {method: PUT, url: "clusters/c1/statuses", body: "{{ .status }}"}}
"#;
        let fixture = Fixture::new(config_of(task), &cluster);
        let trace = fixture.pulse().await;
        assert_eq!((trace.status, trace.report), (Status::Failed, Report::Delivered));
        assert!(
            trace.errors[&Phase::ParamExtraction].contains("env.NOT_SET is not set"),
            "{:?}",
            trace.errors
        );
        assert!(trace.resources.is_empty());
        assert_eq!(fixture.api.condition("Available"), ("False".into(), "ParamExtractionFailed".into()));
        assert_eq!(fixture.api.condition("Health"), ("False".into(), "ParamExtractionFailed".into()));
        let message = fixture.api.last_report()["conditions"][2]["message"].to_string();
        assert!(message.contains("token"), "the value that cannot be computed says why: {message}");
    });
}

#[test]
fn api_that_answers_500_leaves_the_event_undelivered_and_applies_nothing() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let fixture = Fixture::new(example("namespace"), &cluster);
        for mode in [Mode::Failing, Mode::Down] {
            fixture.api.set_mode(mode);
            let trace = fixture.pulse().await;
            assert_eq!((trace.status, trace.report), (Status::Failed, Report::Undelivered), "{mode:?}");
            assert!(trace.resources.is_empty());
        }
        fixture.api.set_mode(Mode::Up);
        let trace = fixture.pulse().await;
        assert_eq!(
            (operations(&trace), trace.report),
            (vec!["create".to_owned(), "create".to_owned()], Report::Delivered)
        );
    });
}

#[test]
fn failed_report_is_undelivered_after_resources_were_applied() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let fixture = Fixture::new(example("namespace"), &cluster);
        fixture.api.set_mode(Mode::ReportsFail);
        let trace = fixture.pulse().await;
        assert_eq!((trace.resources.len(), &trace.report), (2, &Report::Undelivered));
        assert!(trace.errors[&Phase::PostActions].contains("HTTP 500"), "{:?}", trace.errors);
    });
}

#[test]
fn missing_resource_is_skipped_gracefully() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let fixture = Fixture::new(example("validation"), &cluster);
        fixture.api.set_mode(Mode::Missing);
        let trace = fixture.pulse().await;
        assert_eq!((trace.status, &trace.report), (Status::Success, &Report::ResourceGone));
        assert!(trace.resources.is_empty() && fixture.api.reports.lock().is_empty());
    });
}

#[test]
fn environment_is_visible_only_where_a_param_names_it() {
    let task =
        "params:\n  - {name: a, source: env.NAMED}\n  - {name: b, source: {expression: \"toJson(env)\"}}\n";
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let fixture = Fixture::new(config_of(task), &cluster);
        let clients = bellwether_adapter::execute::Clients {
            api: fixture.api.clone(),
            kubernetes: std::sync::Arc::new(bellwether_adapter::kubernetes::KubernetesTransport::new(
                cluster.client(),
                "t",
            )),
            hub: std::sync::Arc::new(bellwether_adapter::kubernetes::KubernetesTransport::new(
                cluster.client(),
                "t",
            )),
            clock: std::sync::Arc::new(bellwether_testkit::SteadyClock::default()),
        };
        let env = [("NAMED".to_owned(), "yes".to_owned()), ("SECRET".to_owned(), "no".to_owned())];
        let executor =
            bellwether_adapter::execute::Executor::new(std::sync::Arc::new(config_of(task)), clients, env);
        let trace = executor.execute(&crate::fixture::event(1)).await;
        assert_eq!(trace.params["b"], "{\"NAMED\":\"yes\"}");
    });
}
