//! Loading and validating configurations: every error names its place.

use std::path::{Path, PathBuf};

use super::{Config, ConfigErrors, Overrides, RetryBackoff};

const ADAPTER: &str = "adapter: {name: a}\nclients: {hyperfleet_api: {base_url: 'http://127.0.0.1:1'}}\n";

struct Files(tempfile::TempDir);

impl Files {
    fn new(files: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        Self(directory)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn load(&self) -> Result<Config, ConfigErrors> {
        Config::load(&self.path("adapter.yaml"), &self.path("task.yaml"), &Overrides::default())
    }

    /// All errors, without the directory.
    fn errors(&self) -> Vec<String> {
        let errors = self.load().expect_err("the configuration must be rejected");
        let directory = format!("{}/", self.0.path().display());
        errors.0.iter().map(|error| error.to_string().replace(&directory, "")).collect()
    }
}

fn errors_of_task(task: &str) -> Vec<String> {
    Files::new(&[("adapter.yaml", ADAPTER), ("task.yaml", task)]).errors()
}

#[track_caller]
fn assert_rejected(task: &str, expected: &[&str]) {
    let errors = errors_of_task(task);
    assert_eq!(errors.len(), expected.len(), "{errors:#?}");
    for (error, expected) in errors.iter().zip(expected) {
        assert!(error.contains(expected), "{error}\nshould contain\n{expected}");
    }
}

#[test]
fn examples_load() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/examples/adapter");
    for name in ["namespace", "validation"] {
        let directory = examples.join(name);
        let loaded = Config::load(
            &directory.join("adapter.yaml"),
            &directory.join("task.yaml"),
            &Overrides::default(),
        );
        let config = loaded.unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(config.adapter.name, name);
        assert!(!config.task.resources.is_empty());
    }
}

#[test]
fn unknown_key_is_rejected_at_its_place() {
    assert_rejected(
        "params:\n  - name: a\n    source: event.id\n    requird: true\n",
        &["task.yaml:4:5: unknown field `requird` in a param; expected one of `default`, `description`"],
    );
    let files = Files::new(&[("adapter.yaml", &format!("{ADAPTER}nmae: x\n")), ("task.yaml", "")]);
    assert!(files.errors()[0].starts_with("adapter.yaml:3:1: unknown field `nmae`"), "{:?}", files.errors());
}

#[test]
fn invalid_yaml_is_rejected_at_its_place() {
    let errors = errors_of_task("params: [\n");
    assert!(errors[0].starts_with("task.yaml:"), "{errors:?}");
}

#[test]
fn cel_errors_are_reported_at_their_place_in_the_file() {
    assert_rejected(
        "params:\n  - {name: a, source: event.id}\npreconditions:\n  - name: p\n    expression: |\n      a == 'x' &&\n        'b' * 2 == 3\n",
        &["task.yaml:7:13: invalid CEL expression"],
    );
    assert_rejected(
        "preconditions:\n  - name: p\n    expression: \"clustr.x == 1\"\n",
        &["task.yaml:3:18: invalid CEL expression: undeclared reference to 'clustr'"],
    );
    assert_rejected(
        "preconditions:\n  - name: p\n    expression: 1 +\n",
        &["task.yaml:3:20: invalid CEL expression"],
    );
}

#[test]
fn undefined_template_variable_is_reported_at_its_place() {
    let task = "params:\n  - {name: a, source: event.id}\nresources:\n  - name: r\n    manifest:\n      apiVersion: v1\n      kind: ConfigMap\n      metadata:\n        name: \"x-{{ .clustrId }}\"\n    discovery: {by_name: \"{{ .a }}\"}\n";
    assert_rejected(
        task,
        &["task.yaml:9:21: undefined variable .clustrId in a template; defined here: a, adapter"],
    );
    assert_rejected(
        "params:\n  - name: a\n    source: {api_call: {method: GET, url: 'x/{{ .b }}'}}\n  - {name: b, source: event.id}\n",
        &["undefined variable .b"],
    );
    assert_rejected(
        "post:\n  post_actions:\n    - name: p\n      api_call: {method: PUT, url: x, body: \"{{ .payload }}\"}\n",
        &["undefined variable .payload"],
    );
}

#[test]
fn template_errors_of_referenced_files_name_that_file() {
    let task = "resources:\n  - name: r\n    manifest: {ref: job.yaml}\n    discovery: {by_name: x}\n";
    let files = Files::new(&[
        ("adapter.yaml", ADAPTER),
        ("task.yaml", task),
        ("job.yaml", "kind: Job\nname: {{ .x }}\n"),
    ]);
    assert!(files.errors()[0].starts_with("job.yaml:2:10: undefined variable .x"), "{:?}", files.errors());
    let files = Files::new(&[("adapter.yaml", ADAPTER), ("task.yaml", task)]);
    let errors = files.errors();
    assert!(errors[0].starts_with("task.yaml:3:21: job.yaml: the file cannot be read"), "{errors:?}");
}

#[test]
fn structure_is_checked() {
    for (task, message) in [
        ("params:\n  - {name: a}\n", "a param must have the field `source`"),
        (
            "params:\n  - {name: a, source: nope.id}\n",
            "must begin with event., env., config. or an earlier param",
        ),
        ("params:\n  - {name: a-b, source: event.id}\n", "must be letters, digits and '_'"),
        ("params:\n  - {name: a, source: event.id}\n  - {name: a, source: event.id}\n", "defined twice"),
        ("params:\n  - {name: a, source: event.id, type: text}\n", "`type` must be one of string, int"),
        ("params:\n  - {name: a, source: {file: {path: nope}}}\n", "the file does not exist"),
        ("preconditions:\n  - {name: p}\n", "must have one of `conditions`, `expression` and `api_call`"),
        (
            "params: [{name: a, source: event.id}]\npreconditions:\n  - {name: p, conditions: [{field: a, operator: like, value: 1}]}\n",
            "`operator` must be one of equals",
        ),
        (
            "params: [{name: a, source: event.id}]\npreconditions:\n  - {name: p, conditions: [{field: a, operator: in, value: 1}]}\n",
            "needs a list of values",
        ),
        (
            "preconditions:\n  - {name: p, conditions: [{field: b, operator: exists}]}\n",
            "does not begin with a param or captured variable",
        ),
        (
            "resources:\n  - {name: r, manifest: {apiVersion: v1, kind: X, metadata: {}}}\n",
            "a resource must have the field `discovery`",
        ),
        ("resources:\n  - {name: r, discovery: {by_name: x}}\n", "a resource must have the field `manifest`"),
        (
            "resources:\n  - {name: r, manifest: {kind: X, metadata: {}}, discovery: {by_name: x}}\n",
            "the field `apiVersion`",
        ),
        (
            "resources:\n  - {name: r, manifest: 'x', discovery: {}}\n",
            "exactly one of `by_name` and `by_selectors`",
        ),
        (
            "resources:\n  - {name: r, manifest: 'x', discovery: {by_name: x}, transport: {client: ssh}}\n",
            "must be kubernetes or maestro",
        ),
        (
            "resources:\n  - {name: r, manifest: 'x', discovery: {by_name: x}, transport: {client: maestro}}\n",
            "needs `maestro.target_cluster`",
        ),
        (
            "resources:\n  - {name: r, manifest: 'x', discovery: {by_name: x}, lifecycle: {delete: {}}}\n",
            "`delete` must have the field `when`",
        ),
        (
            "resources:\n  - {name: r, manifest: 'x', discovery: {by_name: x}, lifecycle: {}}\n",
            "one of `create` and `delete`",
        ),
        ("post: {payloads: [{name: p}]}\n", "exactly one of `build` and `build_ref`"),
        ("post: {post_actions: [{name: p}]}\n", "one of `api_call` and `log`"),
        (
            "post: {post_actions: [{name: p, api_call: {method: FETCH, url: x}}]}\n",
            "`method` must be one of GET",
        ),
        (
            "post: {post_actions: [{name: p, api_call: {method: GET, url: x, timeout: soon}}]}\n",
            "must be a duration",
        ),
        ("params: 7\n", "`params` must be a list, and it is a number"),
    ] {
        let errors = errors_of_task(task);
        assert!(
            errors.iter().any(|error| error.contains(message)),
            "{task}\n{errors:#?}\nshould contain {message}"
        );
    }
}

#[test]
fn all_errors_are_reported_at_once() {
    let errors = errors_of_task("params:\n  - {name: a}\n  - {nmae: b, source: event.id}\nextra: 1\n");
    assert!(errors.len() >= 4, "{errors:#?}");
}

#[test]
fn adapter_config_has_defaults_and_overrides() {
    let files = Files::new(&[("adapter.yaml", ADAPTER), ("task.yaml", "")]);
    let api = files.load().unwrap().adapter.api;
    assert_eq!(
        (api.version.as_str(), api.retry_attempts, api.retry_backoff),
        ("v1", 3, RetryBackoff::Exponential)
    );
    assert_eq!((api.timeout.as_secs(), api.base_delay.as_secs(), api.max_delay.as_secs()), (10, 1, 30));

    let files = Files::new(&[("adapter.yaml", ""), ("task.yaml", "")]);
    let errors = files.errors();
    assert!(errors[0].contains("`adapter.name` is missing") && errors[1].contains("base_url"), "{errors:?}");
    let overrides = Overrides {
        name: Some("n".into()),
        api_base_url: Some("http://h".into()),
        topic: Some("t".into()),
        ..Overrides::default()
    };
    let config = Config::load(&files.path("adapter.yaml"), &files.path("task.yaml"), &overrides).unwrap();
    assert_eq!((config.adapter.name.as_str(), config.adapter.api.base_url.as_str()), ("n", "http://h"));
    assert_eq!(config.adapter.topic.as_deref(), Some("t"));
}

#[test]
fn settings_without_effect_are_accepted() {
    let adapter = "
adapter: {name: a}
log: {level: debug, format: json, output: stdout}
debug_config: true
clients:
  hyperfleet_api: {base_url: 'http://h', auth: {token_path: /t, token_cache_ttl: 5m}}
  kubernetes: {api_version: v1, qps: 100, burst: 200}
  maestro:
    {grpc_server_address: g, http_server_address: h, source_id: s, client_id: c, auth: {type: none}, timeout: 1s,
     server_healthiness_timeout: 1s, retry_attempts: 3, keepalive: {time: 1s}, insecure: true}
";
    let files = Files::new(&[("adapter.yaml", adapter), ("task.yaml", "")]);
    files.load().unwrap_or_else(|errors| panic!("{errors}"));
}

#[test]
fn version_must_match_major_and_minor() {
    use super::adapter::check_version;
    for (wanted, valid) in [
        ("0.1.0", true),
        ("0.1.9", true),
        ("v0.1.2-rc1", true),
        ("0.2.0", false),
        ("1.1.0", false),
        ("0.0.0-dev", true),
        ("new", false),
    ] {
        assert_eq!(check_version(wanted, "0.1.0").is_ok(), valid, "{wanted}");
    }
    let adapter = "adapter: {name: a, version: 9.9.9}\nclients: {hyperfleet_api: {base_url: 'http://x'}}\n";
    let errors = Files::new(&[("adapter.yaml", adapter), ("task.yaml", "")]).errors();
    assert!(
        errors[0].starts_with("adapter.yaml:1:29: the configuration is written for version 9.9.9"),
        "{errors:?}"
    );
}

#[test]
fn dump_shows_both_files_without_secrets() {
    let adapter = "adapter: {name: a}\nclients:\n  hyperfleet_api:\n    base_url: http://user:pw@host/x\n    default_headers: {X-Api-Key: s3cret}\n    auth: {token_path: /var/token}\n  maestro: {auth: {tls_config: {key_file: /k.pem}}}\n";
    let task = "params:\n  - {name: a, source: event.id}\n  - {name: dbPassword, source: env.DB, default: hunter2}\npost: {post_actions: [{name: p, api_call: {method: GET, url: 'http://u:pw2@h/', headers: [{name: Authorization, value: 'Basic eDp5'}]}}]}\n";
    let files = Files::new(&[("adapter.yaml", adapter), ("task.yaml", task)]);
    let dump = files.load().unwrap().dump();
    for secret in ["pw@", "pw2@", "s3cret", "/var/token", "/k.pem", "hunter2", "eDp5"] {
        assert!(!dump.contains(secret), "{dump}");
    }
    for shown in ["name: a", "event.id", "**REDACTED**", "@host/x", "X-Api-Key"] {
        assert!(dump.contains(shown), "{shown}: {dump}");
    }
}

#[test]
fn retry_delays_grow_as_configured() {
    let second = std::time::Duration::from_secs(1);
    let delays =
        |backoff: RetryBackoff| [1, 2, 3, 9].map(|n| backoff.delay(n, second, 10 * second).as_secs());
    assert_eq!(delays(RetryBackoff::Exponential), [1, 2, 4, 10]);
    assert_eq!(delays(RetryBackoff::Linear), [1, 2, 3, 9]);
    assert_eq!(delays(RetryBackoff::Constant), [1, 1, 1, 1]);
}

#[test]
fn durations_are_those_of_go() {
    for (text, expected) in [
        ("500ms", Some(500)),
        ("1m30s", Some(90_000)),
        ("2h", Some(7_200_000)),
        ("1.5s", Some(1500)),
        ("", None),
        ("10", None),
        ("5x", None),
    ] {
        assert_eq!(super::parse_duration(text).map(|found| found.as_millis()), expected, "{text}");
    }
}

#[test]
fn features_of_published_configurations_load() {
    let task = r#"
params:
  - {name: "clusterId", source: "event.id", type: "string", required: true}
  - {name: "generation", source: "event.generation", type: "int", required: true}
  - {name: "region", source: "env.REGION", type: "string", default: "us-east-1", description: "where"}
preconditions:
  - name: "checkClusterState"
    api_call:
      method: "GET"
      url: "/clusters/{{ .clusterId }}"
      timeout: 10s
      retry_attempts: 3
      retry_backoff: "exponential"
    capture:
      - {name: "clusterName", field: "name"}
      - {name: "generation", field: "generation"}
      - name: "notReady"
        expression: |
          status.conditions.filter(c, c.type == "Ready").size() > 0
            ? status.conditions.filter(c, c.type == "Ready")[0].status != "True"
            : true
      - name: "isStable"
        expression: |
          (timestamp(now()) - timestamp(
            status.conditions.filter(c, c.type == "Ready").size() > 0
              ? status.conditions.filter(c, c.type == "Ready")[0].last_transition_time
              : now()
          )).getSeconds() >= 300
      - {name: "target", expression: "\"cluster1\"", description: "from placement"}
  - name: "validationCheck"
    expression: |
      notReady || isStable
resources:
  - name: "work"
    transport: {client: "maestro", maestro: {target_cluster: "{{ .target }}"}}
    manifest:
      apiVersion: work.open-cluster-management.io/v1
      kind: ManifestWork
      metadata: {name: "mw-{{ .clusterId }}"}
    discovery: {by_selectors: {label_selector: {hyperfleet.io/cluster-id: "{{ .clusterId }}"}}}
    nested_discoveries:
      - {name: "ns", discovery: {by_name: "{{ .clusterId | lower }}"}}
post:
  payloads:
    - name: "clusterStatusPayload"
      build:
        adapter: "{{ .adapter.name }}"
        conditions:
          - type: "Available"
            status:
              expression: |
                has(resources.work) ?
                 ( resources.?work.?status.?conditions.orValue([]).exists(c, c.type == "Available")
                  ? resources.work.status.conditions.filter(c, c.type == "Available")[0].status : "Unknown")
                 : "Unknown"
            reason:
              expression: |
                adapter.?executionStatus.orValue("") != "success"
                ? "ExecutionFailed:" + adapter.?executionError.?phase.orValue("unknown")
                : adapter.?resourcesSkipped.orValue(false) ? "ResourcesSkipped" : "Healthy"
            message:
              expression: |
                "Adapter failed at phase [" + adapter.?executionError.?phase.orValue("unknown") + "]: "
                  + adapter.?executionError.?message.orValue(adapter.?errorMessage.orValue("no details"))
        observed_generation:
          expression: "generation"
        observed_time: "{{ now | date \"2006-01-02T15:04:05Z07:00\" }}"
        data:
          phase:
            expression: |
              resources.ns.statusFeedback.values.filter(v, v.name == "phase")[0].fieldValue.string
            default: ""
  post_actions:
    - name: "reportClusterStatus"
      api_call:
        method: "POST"
        url: "/clusters/{{ .clusterId }}/statuses"
        headers:
          - {name: "Content-Type", value: "application/json"}
        body: "{{ .clusterStatusPayload }}"
"#;
    let files = Files::new(&[("adapter.yaml", ADAPTER), ("task.yaml", task)]);
    let config = files.load().unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(config.task.env_names, ["REGION"]);
    assert_eq!(config.task.post.actions[0].payloads, ["clusterStatusPayload"]);
}
