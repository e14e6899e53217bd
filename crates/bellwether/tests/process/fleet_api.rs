//! The fleet API as a process: when it starts and when not, what it says of itself, how it stops, and several of them on one
//! database.

use std::path::Path;
use std::time::{Duration, Instant};

use axum::http::Method;
use bellwether_fleet::client::{Client, ListOf};
use bellwether_fleet::resource::Resource;
use bellwether_testkit::eventually;
use serde_json::json;

use crate::server::{FleetApi, Server, bellwether, fleet_api, get, run, up};

/// How long a start may take.
const START: Duration = Duration::from_secs(5);

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
async fn it_is_up_in_time_and_says_how_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    let api = FleetApi::start(&dir.path().join("fleet"), &mut fleet_api(&sqlite(dir.path())));
    assert!(begun.elapsed() < START, "it took {:?}", begun.elapsed());
    create(&api.client(), "first").await;
    let address = authority(&api);
    assert_eq!(get(address, "/healthz"), (200, "ok\n".to_owned()));
    eventually("it is ready", async || (get(address, "/readyz") == (200, "ok\n".to_owned())).then_some(()))
        .await;
    let (status, metrics) = get(address, "/metrics");
    assert_eq!(status, 200);
    assert!(metrics.contains("\nhyperfleet_api_requests_total{"), "{metrics}");
}

#[tokio::test]
async fn a_second_one_on_the_same_file_is_refused() {
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
fn what_makes_no_sense_is_refused_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config.yaml");
    std::fs::write(&config, "limits:\n  max_watcher: 3\n").unwrap();
    let (config, database) = (config.display().to_string(), sqlite(dir.path()));
    let missing = dir.path().join("missing.yaml").display().to_string();
    let nowhere = format!("sqlite:{}", dir.path().join("no/such/directory/fleet.db").display());
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
            &["--listen", "127.0.0.1:0", "--database", &nowhere],
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
    for (arguments, code, words) in rows {
        let ended = run(bellwether(["run", "fleet-api"]).args(arguments));
        assert_eq!(ended.code, Some(code), "{arguments:?}: {}", ended.stderr);
        for words in words {
            assert!(ended.stderr.contains(words), "{arguments:?}: {words:?} is missing in {}", ended.stderr);
        }
        assert!(ended.stdout.is_empty(), "{arguments:?}: {}", ended.stdout);
    }
    assert!(!dir.path().join("fleet.db").exists(), "a refused start left a database behind");
}

#[tokio::test]
async fn it_serves_strangers_when_told_to() {
    let dir = tempfile::tempdir().unwrap();
    let mut command =
        bellwether(["run", "fleet-api", "--listen", "0.0.0.0:0", "--insecure-no-auth", "--database"]);
    let api = FleetApi::start(&dir.path().join("fleet"), command.arg(sqlite(dir.path())));
    assert_eq!(names(&api.client()).await, [""; 0]);
}

#[tokio::test]
async fn up_registers_its_spokes_once_and_keeps_what_was_added() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let client = |server: &Server| Client::new(&server.address("http"), None).unwrap();
    let mut server = Server::start(&dir, up(&dir).args(["--spokes", "2"]));
    let made = create(&client(&server), "mine").await;
    assert_eq!(names(&client(&server)).await, ["mine", "spoke-1", "spoke-2"]);
    assert!(server.terminate().success());

    let mut server = Server::start(&dir, up(&dir).args(["--spokes", "3"]));
    assert_eq!(names(&client(&server)).await, ["mine", "spoke-1", "spoke-2", "spoke-3"]);
    let path = format!("/clusters/{}", made.id);
    let found: Resource = client(&server).call(Method::GET, &path, None).await.unwrap();
    assert_eq!(found, made);
    server.kill();

    let server = Server::start(&dir, up(&dir).args(["--spokes", "3", "--no-demo"]));
    assert_eq!(names(&client(&server)).await, ["mine", "spoke-1", "spoke-2", "spoke-3"]);
}

#[tokio::test]
async fn without_the_demonstration_no_spoke_is_registered() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let server = Server::start(&dir, up(&dir).args(["--spokes", "2", "--no-demo"]));
    let client = Client::new(&server.address("http"), None).unwrap();
    assert_eq!(names(&client).await, [""; 0]);
}

#[cfg(feature = "real-postgres")]
mod on_postgres {
    use bellwether_fleet::client::ClientError;
    use bellwether_fleet::kinds::BASE_PATH;
    use bellwether_testkit::postgres::Postgres;
    use futures::TryStreamExt as _;

    use super::*;
    use crate::server::PATIENCE;
    use crate::wire::Wire;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_watch_on_one_process_hears_of_what_another_did() {
        let dir = tempfile::tempdir().unwrap();
        let database = Postgres::start();
        let [one, other] = ["one", "other"]
            .map(|name| FleetApi::start(&dir.path().join(name), &mut fleet_api(database.url())));
        let watch = one.client().watch("/clusters", 0).await.unwrap();
        futures::pin_mut!(watch);
        let client = other.client();
        let made = create(&client, "shared").await;
        let path = format!("/clusters/{}", made.id);
        let labels = json!({"labels": {"env": "prod"}});
        let heard = tokio::time::timeout(PATIENCE, watch.try_next()).await.unwrap().unwrap().unwrap();
        assert_eq!((heard.event.as_str(), &heard.resource), ("ADDED", &made));
        let changed: Resource = client.call(Method::PATCH, &path, Some(&labels)).await.unwrap();
        let heard = tokio::time::timeout(PATIENCE, watch.try_next()).await.unwrap().unwrap().unwrap();
        assert_eq!((heard.event.as_str(), &heard.resource), ("MODIFIED", &changed));
        client.call_raw(Method::DELETE, &path, None).await.unwrap();
        let heard = tokio::time::timeout(PATIENCE, watch.try_next()).await.unwrap().unwrap().unwrap();
        assert_eq!((heard.event.as_str(), heard.resource.id), ("DELETED", made.id));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn while_the_database_is_away_it_is_not_ready_and_says_so_to_whoever_asks() {
        let dir = tempfile::tempdir().unwrap();
        let wire = Wire::to(&Postgres::start());
        let api = FleetApi::start(&dir.path().join("fleet"), &mut fleet_api(wire.url()));
        let (client, address) = (api.client(), authority(&api).to_owned());
        let ready = async |wanted: u16| {
            let asked = async || (get(&address, "/readyz").0 == wanted).then_some(());
            eventually(&format!("/readyz is {wanted}"), asked).await;
        };
        let made = create(&client, "kept").await;
        ready(200).await;

        wire.cut();
        ready(503).await;
        assert_eq!(get(&address, "/healthz").0, 200);
        let one = format!("/clusters/{}", made.id);
        let body = json!({"kind": "Cluster", "name": "late", "spec": {}});
        for (method, path, body) in [
            (Method::GET, "/clusters", None),
            (Method::GET, &one, None),
            (Method::POST, "/clusters", Some(&body)),
        ] {
            match client.call_raw(method.clone(), path, body).await {
                Err(ClientError::Refused { status, code, detail }) => {
                    assert_eq!(status.as_u16(), 503, "{method} {path}: {code} {detail}");
                    assert!(!detail.contains("127.0.0.1"), "{method} {path} tells of the inside: {detail}");
                }
                other => panic!("{method} {path}: {other:?}"),
            }
        }
        let raw = axum::http::Request::get(format!("{BASE_PATH}/clusters")).body(Default::default()).unwrap();
        let answer = client.send(raw).await.unwrap();
        assert_eq!(answer.headers["content-type"], "application/problem+json");

        wire.mend();
        ready(200).await;
        let found: Resource = client.call(Method::GET, &one, None).await.unwrap();
        assert_eq!(found, made);
        create(&client, "late").await;
        assert_eq!(names(&client).await, ["kept", "late"]);
    }
}
