//! The fleet API as a process: start, start errors, health, and several replicas on one database.

use std::path::Path;
use std::time::{Duration, Instant};

use axum::http::Method;
use bellwether_api::cluster::ManagedCluster;
use bellwether_fleet::client::{Client, ListOf};
use bellwether_fleet::resource::Resource;
use bellwether_testkit::eventually;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::server::{FleetApi, Server, bellwether, fleet_api, get, run, up};

const START_TIMEOUT: Duration = Duration::from_secs(5);

fn sqlite(dir: &Path) -> String {
    format!("sqlite:{}", dir.join("fleet.db").display())
}

fn authority(api: &FleetApi) -> &str {
    api.address().strip_prefix("http://").unwrap()
}

async fn create(client: &Client, name: &str) -> Resource {
    let body = json!({"kind": "Cluster", "name": name, "spec": {}});
    client.call(Method::POST, "/clusters", Some(&body)).await.unwrap()
}

/// The names of all clusters, in order.
async fn names(client: &Client) -> Vec<String> {
    let path = "/clusters?order=name&size=100";
    let list: ListOf<Resource> = client.call(Method::GET, path, None).await.unwrap();
    list.items.into_iter().map(|item| item.name).collect()
}

#[tokio::test]
async fn fleet_api_starts_in_time_and_serves_health_and_metrics() {
    let dir = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    let api = FleetApi::start(&dir.path().join("fleet"), &mut fleet_api(&sqlite(dir.path())));
    assert!(begun.elapsed() < START_TIMEOUT, "it took {:?}", begun.elapsed());
    create(&api.client(), "first").await;
    let address = authority(&api);
    assert_eq!(get(address, "/healthz"), (200, "ok\n".to_owned()));
    eventually("/readyz returns 200", async || {
        (get(address, "/readyz") == (200, "ok\n".to_owned())).then_some(())
    })
    .await;
    let (status, metrics) = get(address, "/metrics");
    assert_eq!(status, 200);
    assert!(metrics.contains("\nhyperfleet_api_requests_total{"), "{metrics}");
}

#[tokio::test]
async fn second_process_on_an_sqlite_file_fails() {
    let dir = tempfile::tempdir().unwrap();
    let api = FleetApi::start(&dir.path().join("fleet"), &mut fleet_api(&sqlite(dir.path())));
    create(&api.client(), "first").await;
    let ended = run(&mut fleet_api(&sqlite(dir.path())));
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("fleet.db is in use by another process"), "{}", ended.stderr);
    assert!(ended.stdout.is_empty(), "{}", ended.stdout);
    create(&api.client(), "second").await;
}

#[test]
fn invalid_arguments_and_configuration_are_errors_with_a_cause() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config.yaml");
    std::fs::write(&config, "limits:\n  max_watcher: 3\n").unwrap();
    let (config, database) = (config.display().to_string(), sqlite(dir.path()));
    let missing = dir.path().join("missing.yaml").display().to_string();
    let no_directory = format!("sqlite:{}", dir.path().join("no/such/directory/fleet.db").display());
    let rows: [(&[&str], i32, &[&str]); 8] = [
        (
            &["--listen", "127.0.0.1:0", "--database", &database, "--config", &config],
            1,
            &["config.yaml:2:3: ", "max_watcher"],
        ),
        (
            &["--listen", "127.0.0.1:0", "--database", &database, "--config", &missing],
            1,
            &["cannot read the configuration", "missing.yaml"],
        ),
        (
            &["--database", &database, "--listen", "0.0.0.0:0"],
            1,
            &["other machines", "auth", "--insecure-no-auth"],
        ),
        (
            &["--listen", "127.0.0.1:0", "--database", &no_directory],
            1,
            &["no/such/directory/fleet.db", "No such file"],
        ),
        (
            &["--listen", "127.0.0.1:0", "--database", "postgres://nobody@127.0.0.1:1/none"],
            1,
            &["the database cannot be reached"],
        ),
        (
            &["--listen", "127.0.0.1:0", "--database", "mysql://somewhere/fleet"],
            2,
            &["--database", "sqlite:PATH", "postgres://"],
        ),
        (&["--listen", "127.0.0.1:0", "--database", "sqlite:"], 2, &["--database", "sqlite:PATH"]),
        (
            &["--listen", "127.0.0.1:0", "--database", &database, "--vocabulary", "klingon"],
            2,
            &["--vocabulary", "upstream"],
        ),
    ];
    for (arguments, code, expected) in rows {
        let ended = run(bellwether(["run", "fleet-api"]).args(arguments));
        assert_eq!(ended.code, Some(code), "{arguments:?}: {}", ended.stderr);
        for text in expected {
            assert!(ended.stderr.contains(text), "{arguments:?}: {text:?} is missing in {}", ended.stderr);
        }
        assert!(ended.stdout.is_empty(), "{arguments:?}: {}", ended.stdout);
    }
    assert!(!dir.path().join("fleet.db").exists(), "a failed start created a database");
}

#[tokio::test]
async fn insecure_no_auth_allows_all_addresses() {
    let dir = tempfile::tempdir().unwrap();
    let mut command =
        bellwether(["run", "fleet-api", "--listen", "0.0.0.0:0", "--insecure-no-auth", "--database"]);
    let api = FleetApi::start(&dir.path().join("fleet"), command.arg(sqlite(dir.path())));
    assert_eq!(names(&api.client()).await, [""; 0]);
}

async fn wait_for_names(client: &Client, expected: &[&str]) {
    eventually(&format!("the clusters are {expected:?}"), || async {
        (names(client).await == expected).then_some(())
    })
    .await;
}

#[tokio::test]
async fn up_registers_its_spokes_once_and_keeps_other_clusters() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let client = |server: &Server| Client::new(&server.address("http"), None).unwrap();
    let mut server = Server::start(&dir, up(&dir).args(["--spokes", "2"]));
    let created = create(&client(&server), "mine").await;
    wait_for_names(&client(&server), &["mine", "spoke-1", "spoke-2"]).await;
    assert!(server.terminate().success());

    let mut server = Server::start(&dir, up(&dir).args(["--spokes", "3"]));
    wait_for_names(&client(&server), &["mine", "spoke-1", "spoke-2", "spoke-3"]).await;
    let path = format!("/clusters/{}", created.id);
    let found: Resource = client(&server).call(Method::GET, &path, None).await.unwrap();
    // The adapters of the demo may have reported.
    assert_eq!(Resource { status: created.status.clone(), ..found }, created);
    server.kill();

    let server = Server::start(&dir, up(&dir).args(["--spokes", "3", "--no-demo"]));
    assert_eq!(names(&client(&server)).await, ["mine", "spoke-1", "spoke-2", "spoke-3"]);
}

#[tokio::test]
async fn joined_cluster_is_registered_when_the_hub_accepts_it() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let server = Server::start(&dir, up(&dir).args(["--spokes", "1", "--no-demo"]));
    let client = Client::new(&server.address("http"), None).unwrap();
    wait_for_names(&client, &["spoke-1"]).await;

    let managed: Api<ManagedCluster> = Api::all(server.client("hub").await);
    for (name, accepted) in [("accepted", true), ("unknown", false)] {
        let cluster = json!({
            "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": {"name": name}, "spec": {"hubAcceptsClient": accepted},
        });
        managed.create(&PostParams::default(), &serde_json::from_value(cluster).unwrap()).await.unwrap();
    }
    wait_for_names(&client, &["accepted", "spoke-1"]).await;
    let accept = Patch::Merge(json!({"spec": {"hubAcceptsClient": true}}));
    managed.patch("unknown", &PatchParams::default(), &accept).await.unwrap();
    wait_for_names(&client, &["accepted", "spoke-1", "unknown"]).await;
}

#[cfg(feature = "real-postgres")]
mod on_postgres {
    use bellwether_fleet::client::ClientError;
    use bellwether_fleet::kinds::BASE_PATH;
    use bellwether_testkit::postgres::Postgres;
    use futures::TryStreamExt as _;

    use super::*;
    use crate::postgres_proxy::PostgresProxy;
    use crate::server::WAIT_TIMEOUT;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn watch_on_one_replica_gets_changes_of_another() {
        let dir = tempfile::tempdir().unwrap();
        let database = Postgres::start();
        let [one, other] = ["one", "other"]
            .map(|name| FleetApi::start(&dir.path().join(name), &mut fleet_api(database.url())));
        let watch = one.client().watch("/clusters", 0).await.unwrap();
        futures::pin_mut!(watch);
        let client = other.client();
        let created = create(&client, "shared").await;
        let path = format!("/clusters/{}", created.id);
        let labels = json!({"labels": {"env": "prod"}});
        let event = tokio::time::timeout(WAIT_TIMEOUT, watch.try_next()).await.unwrap().unwrap().unwrap();
        assert_eq!((event.event.as_str(), &event.resource), ("ADDED", &created));
        let changed: Resource = client.call(Method::PATCH, &path, Some(&labels)).await.unwrap();
        let event = tokio::time::timeout(WAIT_TIMEOUT, watch.try_next()).await.unwrap().unwrap().unwrap();
        assert_eq!((event.event.as_str(), &event.resource), ("MODIFIED", &changed));
        client.call_raw(Method::DELETE, &path, None).await.unwrap();
        let event = tokio::time::timeout(WAIT_TIMEOUT, watch.try_next()).await.unwrap().unwrap().unwrap();
        assert_eq!((event.event.as_str(), event.resource.id), ("DELETED", created.id));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn requests_get_503_and_readyz_fails_while_the_database_is_unreachable() {
        let dir = tempfile::tempdir().unwrap();
        let proxy = PostgresProxy::start(&Postgres::start());
        let api = FleetApi::start(&dir.path().join("fleet"), &mut fleet_api(proxy.url()));
        let (client, address) = (api.client(), authority(&api).to_owned());
        let wait_for_readyz = async |expected: u16| {
            let poll = async || (get(&address, "/readyz").0 == expected).then_some(());
            eventually(&format!("/readyz returns {expected}"), poll).await;
        };
        let created = create(&client, "kept").await;
        wait_for_readyz(200).await;

        proxy.interrupt();
        wait_for_readyz(503).await;
        assert_eq!(get(&address, "/healthz").0, 200);
        let one = format!("/clusters/{}", created.id);
        let body = json!({"kind": "Cluster", "name": "late", "spec": {}});
        for (method, path, body) in [
            (Method::GET, "/clusters", None),
            (Method::GET, &one, None),
            (Method::POST, "/clusters", Some(&body)),
        ] {
            match client.call_raw(method.clone(), path, body).await {
                Err(ClientError::Refused { status, code, detail }) => {
                    assert_eq!(status.as_u16(), 503, "{method} {path}: {code} {detail}");
                    assert!(
                        !detail.contains("127.0.0.1"),
                        "{method} {path} exposes an internal address: {detail}"
                    );
                }
                other => panic!("{method} {path}: {other:?}"),
            }
        }
        let raw = axum::http::Request::get(format!("{BASE_PATH}/clusters")).body(Default::default()).unwrap();
        let response = client.send(raw).await.unwrap();
        assert_eq!(response.headers["content-type"], "application/problem+json");

        proxy.restore();
        wait_for_readyz(200).await;
        let found: Resource = client.call(Method::GET, &one, None).await.unwrap();
        assert_eq!(found, created);
        create(&client, "late").await;
        assert_eq!(names(&client).await, ["kept", "late"]);
    }
}
