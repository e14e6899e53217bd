use rstest::rstest;

use super::*;

fn selectors(count: usize) -> Vec<Selector> {
    (1..=count).map(|index| format!("m{index}").parse().unwrap()).collect()
}

fn config(matches: usize, workers: usize) -> CollectorConfig {
    let url: HttpUrl = "http://127.0.0.1:9090".parse().unwrap();
    CollectorConfig {
        component: Component::Platform,
        source: Source::new(&url, None, CredentialFiles::default()),
        receiver: url,
        receiver_files: CredentialFiles::default(),
        interval: DEFAULT_INTERVAL,
        limit_bytes: DEFAULT_LIMIT_BYTES,
        matches: selectors(matches),
        recording_rules: Vec::new(),
        labels: LabelRules::default(),
        workers: NonZeroUsize::new(workers).unwrap(),
        failure_threshold: DEFAULT_FAILURE_THRESHOLD,
    }
}

#[rstest]
#[case(4, 1, "1 2 3 4")]
#[case(4, 2, "1 3, 2 4")]
#[case(5, 3, "1 4, 2 5, 3")]
#[case(3, 3, "1, 2, 3")]
fn selectors_are_dealt_in_turn(#[case] matches: usize, #[case] workers: usize, #[case] expected: &str) {
    let config = config(matches, workers);
    assert_eq!(config.validate(), Ok(()));
    let number = |selector: &Selector| selector.as_str().replace('m', "");
    let shard = |shard: &Vec<Selector>| shard.iter().map(number).collect::<Vec<_>>().join(" ");
    let shards: Vec<String> = config.shards().iter().map(shard).collect();
    assert_eq!(shards.join(", "), expected);
}

#[test]
fn more_workers_than_selectors_are_rejected() {
    let error = config(2, 3).validate().unwrap_err();
    assert_eq!(
        error.to_string(),
        "--worker-number 3 is larger than the number of selectors, which is 2: every worker needs at least one; lower \
         --worker-number or add --match"
    );
}

#[test]
fn recording_rules_need_no_selectors() {
    assert_eq!(config(0, 1).validate(), Err(ConfigError::NothingToCollect));
    let rule: RecordingRule = r#"{"name":"a:b","query":"sum(up)"}"#.parse().unwrap();
    let with_rule = |workers| CollectorConfig { recording_rules: vec![rule.clone()], ..config(0, workers) };
    assert_eq!(with_rule(1).validate(), Ok(()));
    assert_eq!(with_rule(1).shards(), Vec::<Vec<Selector>>::new());
    assert_eq!(with_rule(2).validate(), Err(ConfigError::TooManyWorkers { workers: 2, selectors: 0 }));
}

#[test]
fn limits_are_checked() {
    let short = Duration::from_millis(999);
    let rows = [
        (CollectorConfig { interval: short, ..config(1, 1) }, ConfigError::IntervalTooShort(short)),
        (CollectorConfig { limit_bytes: 0, ..config(1, 1) }, ConfigError::NoBytes),
        (
            CollectorConfig {
                receiver_files: CredentialFiles { key: Some("key".into()), ..CredentialFiles::default() },
                ..config(1, 1)
            },
            ConfigError::CertificateWithoutKey,
        ),
    ];
    for (config, error) in rows {
        assert_eq!(config.validate(), Err(error));
    }
}

#[rstest]
#[case("http://h:9090", None, "http://h:9090/federate", "http://h:9090/api/v1/query")]
#[case("http://h:9090/", None, "http://h:9090/federate", "http://h:9090/api/v1/query")]
#[case("https://h/prom/federate", None, "https://h/prom/federate", "https://h/prom/api/v1/query")]
#[case("https://h/metrics", None, "https://h/metrics", "https://h/api/v1/query")]
#[case("http://h", Some("http://q:1"), "http://h/federate", "http://q:1/api/v1/query")]
#[case("http://h", Some("http://q/thanos/query"), "http://h/federate", "http://q/thanos/query")]
fn paths_of_prometheus(
    #[case] from: &str,
    #[case] from_query: Option<&str>,
    #[case] federate: &str,
    #[case] query: &str,
) {
    let from_query: Option<HttpUrl> = from_query.map(|url| url.parse().unwrap());
    let source = Source::new(&from.parse().unwrap(), from_query.as_ref(), CredentialFiles::default());
    assert_eq!((source.federate.to_string().as_str(), source.query.to_string().as_str()), (federate, query));
}

#[rstest]
#[case("up", true)]
#[case("job:up:sum", true)]
#[case(r#"{__name__="up"}"#, true)]
#[case(r#" up{job="a"} "#, true)]
#[case("", false)]
#[case("sum(up)", false)]
#[case("{", false)]
#[case("}", false)]
fn selector_is_a_name_or_has_braces(#[case] text: &str, #[case] is_valid: bool) {
    assert_eq!(text.parse::<Selector>().is_ok(), is_valid, "{text}");
}

#[test]
fn match_file_is_a_list_or_lines() {
    let expected: Vec<Selector> =
        [r#"{__name__="up"}"#, "node_load1"].iter().map(|text| text.parse().unwrap()).collect();
    let rows = [
        "# platform\n{__name__=\"up\"}\n\nnode_load1\n",
        "---\n# platform\n- '{__name__=\"up\"}'\n- node_load1\n",
        "[\"{__name__=\\\"up\\\"}\", node_load1]",
    ];
    for text in rows {
        assert_eq!(parse_match_file(text).unwrap(), expected, "{text}");
    }
    assert_eq!(parse_match_file("").unwrap(), []);
    let error = parse_match_file("up\n\nsum(up)\n").unwrap_err();
    assert!(error.starts_with("line 3 \"sum(up)\" must be a series selector"), "{error}");
    let error = parse_match_file("- up\n- sum(up)\n").unwrap_err();
    assert!(error.starts_with("item 2 \"sum(up)\" must be a series selector"), "{error}");
    assert!(parse_match_file("- a: b\n").unwrap_err().starts_with("it is not a YAML list"));
}

#[rstest]
#[case("not JSON", "must be JSON such as")]
#[case(r#"{"name":"a"}"#, "missing field `query`")]
#[case(r#"{"name":"a","query":"up","for":"5m"}"#, "unknown field `for`")]
#[case(r#"{"name":"a b","query":"up"}"#, r#"name "a b" must be the name of a metric"#)]
#[case(r#"{"name":"a","query":" "}"#, "query must not be empty")]
fn invalid_rule_is_rejected(#[case] text: &str, #[case] problem: &str) {
    let error = text.parse::<RecordingRule>().unwrap_err();
    assert!(error.contains(problem), "{error}");
}

#[rstest]
#[case("cluster", "must be NAME=VALUE")]
#[case("=x", "must be the name of a label")]
#[case("a-b=x", "must be the name of a label")]
#[case("__name__=x", "reserved for Prometheus")]
#[case("cluster=", "must have a value")]
fn invalid_label_is_rejected(#[case] text: &str, #[case] problem: &str) {
    let error = text.parse::<AddedLabel>().unwrap_err();
    assert!(error.contains(problem), "{error}");
}

#[rstest]
#[case("up", "must be OLD=NEW")]
#[case("up=", r#""" must be the name of a metric"#)]
#[case("a b=up", r#""a b" must be the name of a metric"#)]
fn invalid_rename_is_rejected(#[case] text: &str, #[case] problem: &str) {
    let error = text.parse::<Rename>().unwrap_err();
    assert!(error.contains(problem), "{error}");
}

#[test]
fn label_or_metric_given_twice_is_rejected() {
    let labels: Vec<AddedLabel> = ["a=1", "a=2"].iter().map(|text| text.parse().unwrap()).collect();
    assert_eq!(LabelRules::new(&labels, &[], Vec::new()), Err(ConfigError::LabelAddedTwice("a".into())));
    let renames: Vec<Rename> = ["a=b", "a=c"].iter().map(|text| text.parse().unwrap()).collect();
    assert_eq!(LabelRules::new(&[], &renames, Vec::new()), Err(ConfigError::RenamedTwice("a".into())));
}
