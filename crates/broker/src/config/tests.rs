use super::*;

/// Upstream's example, with every member.
const UPSTREAM: &str = r#"
log_config: true
broker:
  type: rabbitmq
  rabbitmq:
    url: amqp://guest:secret@localhost:5672/
    exchange: "hyperfleet"
    exchange_type: "topic"
    queue: "q"
    routing_key: "key"
    prefetch_count: 20
    prefetch_size: 0
    consumer_tag: "tag"
    publisher_confirm: true
  googlepubsub:
    project_id: "hcm-hyperfleet"
    ack_deadline_seconds: 60
subscriber:
  parallelism: 4
"#;

fn parse(text: &str) -> Result<BrokerConfig, ConfigError> {
    BrokerConfig::parse(text, "broker.yaml", &|_| None)
}

fn parse_with(text: &str, variables: &[(&str, &str)]) -> Result<BrokerConfig, ConfigError> {
    let variable =
        |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    BrokerConfig::parse(text, "broker.yaml", &variable)
}

fn rabbitmq(config: BrokerConfig) -> RabbitMqConfig {
    match config.backend {
        Backend::RabbitMq(config) => config,
        other => panic!("{other:?}"),
    }
}

#[test]
fn upstream_file_is_parsed_and_printed_without_the_password() {
    let config = parse(UPSTREAM).unwrap();
    assert!(!format!("{config:?}").contains("secret"));
    assert_eq!((config.parallelism, config.log_config), (4, true));
    let url = "amqp://guest:secret@localhost:5672/".parse().unwrap();
    let expected = RabbitMqConfig {
        exchange: Some("hyperfleet".into()),
        exchange_type: ExchangeType::Topic,
        queue: Some("q".into()),
        routing_key: "key".into(),
        prefetch_count: 20,
        consumer_tag: "tag".into(),
        ..RabbitMqConfig::new(url)
    };
    assert_eq!(rabbitmq(config), expected);
}

#[test]
fn empty_members_have_upstreams_defaults() {
    let text = "broker: {type: rabbitmq, rabbitmq: {url: 'amqp://r', exchange: '', exchange_type: '', queue: '', prefetch_count: 0}}";
    let config = parse(text).unwrap();
    assert_eq!((config.parallelism, config.log_config), (1, false));
    assert_eq!(rabbitmq(config), RabbitMqConfig::new("amqp://r".parse().unwrap()));
    let text = "broker: {type: rabbitmq, rabbitmq: {url: 'amqp://r'}}\nsubscriber: {parallelism: 50}";
    assert_eq!(rabbitmq(parse(text).unwrap()).prefetch_count, 50, "all parallel handlers get an event");
}

#[test]
fn our_brokers_are_parsed() {
    let text = "broker: {type: embedded, embedded: {path: /q.db, visibility_timeout: 5s, max_events: 7}}";
    let limits = Limits { visibility_timeout: Duration::from_secs(5), max_events: 7, ..Limits::default() };
    let expected = Backend::Embedded(EmbeddedConfig { path: "/q.db".into(), limits });
    assert_eq!(parse(text).unwrap().backend, expected);

    let text = "broker: {type: nats, nats: {url: 'nats://n:4222', credentials_file: /c, max_age: 24h, max_bytes: 9, replicas: 3}}";
    let expected = Backend::Nats(NatsConfig {
        credentials_file: Some("/c".into()),
        max_age: Duration::from_secs(24 * 3600),
        max_bytes: 9,
        replicas: 3,
        ..NatsConfig::new("nats://n:4222".parse().unwrap())
    });
    assert_eq!(parse(text).unwrap().backend, expected);
}

#[test]
fn variables_override_the_file() {
    let variables = [
        ("BROKER_RABBITMQ_URL", "amqps://other"),
        ("BROKER_RABBITMQ_EXCHANGE_TYPE", "direct"),
        ("BROKER_RABBITMQ_QUEUE", ""),
        ("SUBSCRIBER_PARALLELISM", "3"),
        ("LOG_CONFIG", "false"),
    ];
    let config = parse_with(UPSTREAM, &variables).unwrap();
    assert_eq!((config.parallelism, config.log_config), (3, false));
    let config = rabbitmq(config);
    assert_eq!(
        (config.url.to_string().as_str(), config.exchange_type),
        ("amqps://other", ExchangeType::Direct)
    );
    assert_eq!(config.queue.as_deref(), Some("q"), "an empty variable is as one that is not set");

    let variables = [("BROKER_TYPE", "nats"), ("BROKER_NATS_URL", "nats://n")];
    let config = parse_with("", &variables).unwrap();
    assert_eq!(config.backend, Backend::Nats(NatsConfig::new("nats://n".parse().unwrap())));
}

#[test]
fn url_has_the_default_settings() {
    let config = BrokerConfig::from_url("sqlite:/q.db".parse().unwrap());
    let expected = Backend::Embedded(EmbeddedConfig { path: "/q.db".into(), limits: Limits::default() });
    assert_eq!(config.backend, expected);
}

#[test]
fn invalid_files_are_rejected_with_the_place_and_without_credentials() {
    let rows = [
        ("", "broker.yaml: broker.type (embedded, nats or rabbitmq) is required"),
        ("broker: {type: googlepubsub}", "broker.yaml: broker.type googlepubsub is not supported"),
        ("broker:\n  type: kafka", "broker.yaml:2:9: unknown variant `kafka`"),
        ("broker:\n  type: rabbitmq", "broker.yaml: broker.rabbitmq.url is required"),
        ("broker:\n  type: nats", "broker.yaml: broker.nats.url is required"),
        ("broker:\n  type: embedded", "broker.yaml: broker.embedded.path is required"),
        ("broker:\n  typ: nats", "broker.yaml:2:3: unknown field `typ`"),
        ("broker:\n  rabbitmq:\n    urls: x", "broker.yaml:3:5: unknown field `urls`"),
        (
            "broker:\n  rabbitmq:\n    url: http://u:secret@h",
            "broker.yaml:3:10: the URL must start with amqp:// or amqps://",
        ),
        (
            "broker:\n  rabbitmq:\n    url: amqp://u:secret@h:x",
            "broker.yaml:3:10: the URL of the broker is invalid: invalid port number",
        ),
        (
            "broker:\n  nats:\n    url: amqp://h",
            "broker.yaml:3:10: the URL must start with nats:// or tls://",
        ),
        (
            "broker:\n  rabbitmq:\n    exchange_type: ring",
            "broker.yaml:3:20: \"ring\" is not a type of exchange",
        ),
        ("broker:\n  rabbitmq:\n    prefetch_count: -1", "broker.yaml:3:21: "),
        (
            "broker:\n  embedded:\n    visibility_timeout: soon",
            "broker.yaml:3:25: \"soon\" is not a duration",
        ),
        (
            "broker: {type: embedded, embedded: {path: q, visibility_timeout: 1ms}}",
            "broker.yaml: broker.embedded.visibility_timeout must be from 100ms to 12h",
        ),
        ("subscriber:\n  parallelism: many", "broker.yaml:2:16: "),
        ("broker: [", "broker.yaml:1:"),
    ];
    for (text, message) in rows {
        let error = parse(text).expect_err(text).to_string();
        assert!(error.starts_with(message) && !error.contains("secret"), "{text}\n{error}");
    }
}

#[test]
fn invalid_variables_are_rejected_by_name() {
    let rows = [
        ("BROKER_RABBITMQ_URL", "http://u:secret@h", "the URL must start with amqp:// or amqps://"),
        ("BROKER_TYPE", "kafka", "unknown variant `kafka`"),
        ("SUBSCRIBER_PARALLELISM", "-1", "\"-1\" is not a number from 0 to 65535"),
        ("LOG_CONFIG", "perhaps", "must be true or false"),
    ];
    for (name, value, cause) in rows {
        let error = parse_with(UPSTREAM, &[(name, value)]).expect_err(name).to_string();
        let message = format!("the environment variable {name} is invalid: {cause}");
        assert!(error.starts_with(&message) && !error.contains("secret"), "{error}");
    }
}
