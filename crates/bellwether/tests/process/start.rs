//! Start of the server: the files of a first start, restarts, and errors that prevent a start.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::api::{Api, ListParams, ObjectMeta, PostParams};
use kube::config::Kubeconfig;

use crate::server::{Server, WAIT_TIMEOUT, bellwether, get, run, up};

/// A path for a data directory that does not exist yet.
fn new_data_dir() -> (tempfile::TempDir, PathBuf) {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    (parent, dir)
}

/// All files below a directory with their content, and all directories with `None`.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::from([(dir.to_owned(), None)]);
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            found.insert(path.clone(), Some(fs::read(&path).unwrap()));
        }
    }
    found
}

fn configmap(name: &str) -> ConfigMap {
    let metadata = ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
    ConfigMap { metadata, data: Some([("key".into(), "value".into())].into()), ..ConfigMap::default() }
}

async fn configmaps(server: &Server, context: &str) -> Api<ConfigMap> {
    Api::namespaced(server.client(context).await, "default")
}

#[test]
fn files_of_the_data_directory_are_accessible_only_to_their_owner() {
    let (_parent, dir) = new_data_dir();
    let server = Server::start(&dir, &mut up(&dir));
    let found = contents(&dir);
    for file in ["store.redb", "lock", "kubeconfig", "endpoints.json", "pki/ca.key", "pki/admin.key"] {
        assert!(found.contains_key(&dir.join(file)), "{file} is missing in {:?}", found.keys());
    }
    for (path, bytes) in found {
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, if bytes.is_some() { 0o600 } else { 0o700 }, "{}: {mode:o}", path.display());
    }
    drop(server);
}

#[test]
fn kubeconfig_has_the_hub_as_current_context_and_a_context_for_every_spoke() {
    let (_parent, dir) = new_data_dir();
    let server = Server::start(&dir, up(&dir).args(["--spokes", "2"]));
    let kubeconfig = Kubeconfig::read_from(dir.join("kubeconfig")).unwrap();
    let contexts: Vec<_> = kubeconfig.contexts.iter().map(|context| context.name.as_str()).collect();
    assert_eq!(contexts, ["hub", "spoke-1", "spoke-2"]);
    assert_eq!(kubeconfig.current_context.as_deref(), Some("hub"));
    let url = |name: &str| {
        let cluster = kubeconfig.clusters.iter().find(|cluster| cluster.name == name).unwrap();
        cluster.cluster.as_ref().unwrap().server.clone().unwrap()
    };
    assert_eq!(url("hub"), server.address("kubernetes"));
    assert_eq!(url("spoke-2"), format!("{}/clusters/spoke-2", server.address("kubernetes")));
}

#[tokio::test]
async fn addresses_in_endpoints_json_respond() {
    let (_parent, dir) = new_data_dir();
    let server = Server::start(&dir, &mut up(&dir));
    let http = server.address("http").strip_prefix("http://").unwrap().to_owned();
    for endpoint in ["/healthz", "/readyz"] {
        assert_eq!(get(&http, endpoint), (200, "ok\n".to_owned()), "{endpoint}");
    }
    let config = server.config("hub").await;
    assert_eq!(config.cluster_url.to_string().trim_end_matches('/'), server.address("kubernetes"));
    assert_eq!(server.client("hub").await.apiserver_version().await.unwrap().major, "1");
}

#[tokio::test]
async fn restart_keeps_the_data_and_the_ca() {
    let (_parent, dir) = new_data_dir();
    let mut server = Server::start(&dir, &mut up(&dir));
    let created = configmaps(&server, "spoke-3").await;
    let created = created.create(&PostParams::default(), &configmap("kept")).await.unwrap();
    let authority = fs::read(dir.join("pki/ca.crt")).unwrap();
    assert!(server.terminate().success());

    let server = Server::start(&dir, &mut up(&dir));
    assert_eq!(configmaps(&server, "spoke-3").await.get("kept").await.unwrap(), created);
    assert_eq!(configmaps(&server, "hub").await.get_opt("kept").await.unwrap(), None);
    assert_eq!(fs::read(dir.join("pki/ca.crt")).unwrap(), authority);
}

#[tokio::test]
async fn spoke_beyond_the_number_of_spokes_is_not_served_but_keeps_its_data() {
    let (_parent, dir) = new_data_dir();
    let mut server = Server::start(&dir, up(&dir).args(["--spokes", "3"]));
    let created = configmaps(&server, "spoke-2").await;
    let created = created.create(&PostParams::default(), &configmap("kept")).await.unwrap();
    server.terminate();

    let mut server = Server::start(&dir, up(&dir).args(["--spokes", "1"]));
    let mut config = server.config("hub").await;
    config.cluster_url = format!("{}/clusters/spoke-2", server.address("kubernetes")).parse().unwrap();
    let spoke: Api<ConfigMap> = Api::namespaced(kube::Client::try_from(config).unwrap(), "default");
    let refused = spoke.get("kept").await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 404), "{refused:?}");
    let refused = spoke.create(&PostParams::default(), &configmap("new")).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 404), "{refused:?}");
    server.terminate();

    let server = Server::start(&dir, up(&dir).args(["--spokes", "3"]));
    let spoke = configmaps(&server, "spoke-2").await;
    assert_eq!(spoke.get("kept").await.unwrap(), created);
    assert_eq!(spoke.get_opt("new").await.unwrap(), None);
}

#[tokio::test]
async fn second_server_on_a_data_directory_fails_and_changes_nothing() {
    let (_parent, dir) = new_data_dir();
    // Without cluster-lease, which would write to the store all the time.
    let server = Server::start(&dir, up(&dir).args(["--no-demo", "--controllers=heartbeat-checker"]));
    wait_until_idle(&server).await;
    let configmaps = configmaps(&server, "hub").await;
    configmaps.create(&PostParams::default(), &configmap("kept")).await.unwrap();
    let before = contents(&dir);

    for listen in ["127.0.0.1:0", "127.0.0.2:0"] {
        let mut second = bellwether(["up", "--listen", listen, "--http", "127.0.0.1:0", "--spokes", "5"]);
        let ended = run(second.arg("--data-dir").arg(&dir));
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        assert!(ended.stderr.contains("in use by another process"), "{}", ended.stderr);
        assert!(ended.stdout.is_empty(), "{}", ended.stdout);
        let after = contents(&dir);
        let kept = |path: &PathBuf, bytes: &Option<Vec<u8>>| match (bytes, after.get(path)) {
            // The first server still appends to it: the line of a request is written after its response.
            (Some(before), Some(Some(now))) if path.ends_with("audit.log") => now.starts_with(before),
            (before, now) => Some(before) == now,
        };
        let changed: Vec<_> = before.iter().filter(|(path, bytes)| !kept(path, bytes)).collect();
        assert!(changed.is_empty() && after.len() == before.len(), "--listen {listen} changed {:?}", {
            changed.iter().map(|(path, _)| path).collect::<Vec<_>>()
        });
    }
    assert!(configmaps.get_opt("kept").await.unwrap().is_some());
}

/// Waits until the server has no more initial objects to write: every first namespace has its ServiceAccount and CA ConfigMap.
async fn wait_until_idle(server: &Server) {
    const FIRST_NAMESPACES: usize = 4;
    let complete = async {
        for context in ["hub", "spoke-1", "spoke-2", "spoke-3"] {
            let certificates: Api<ConfigMap> = Api::all(server.client(context).await);
            let accounts: Api<ServiceAccount> = Api::all(server.client(context).await);
            let all = ListParams::default();
            while certificates.list(&all).await.unwrap().items.len() < FIRST_NAMESPACES
                || accounts.list(&all).await.unwrap().items.len() < FIRST_NAMESPACES
            {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    };
    tokio::time::timeout(WAIT_TIMEOUT, complete).await.unwrap();
}

#[test]
fn damaged_store_is_an_error_that_names_it_and_does_not_change_it() {
    let (_parent, dir) = new_data_dir();
    drop(Server::start(&dir, &mut up(&dir)));
    let store = dir.join("store.redb");
    let whole = fs::read(&store).unwrap();
    let garbage: Vec<u8> = (0..whole.len()).map(|index| (index * 31 % 251) as u8).collect();
    let damages = [
        ("is garbage", garbage),
        ("is a line of text", b"not a database\n".to_vec()),
        ("lost its end", whole[..whole.len() / 2].to_vec()),
        ("lost all but its header", whole[..512].to_vec()),
        ("is empty", Vec::new()),
    ];
    for (damage, bytes) in damages {
        fs::write(&store, &bytes).unwrap();
        let ended = run(&mut up(&dir));
        assert_eq!(ended.code, Some(1), "a store that {damage}: {}", ended.stderr);
        let named = ended.stderr.contains(&format!("{} is damaged and was left as it is", store.display()));
        assert!(named, "a store that {damage}: {}", ended.stderr);
        assert!(!ended.stderr.contains("panicked"), "a store that {damage}: {}", ended.stderr);
        assert!(fs::read(&store).unwrap() == bytes, "a store that {damage} was changed");
    }
    fs::write(&store, &whole).unwrap();
    Server::start(&dir, &mut up(&dir));
}

#[test]
fn address_in_use_is_an_error_that_names_it_and_its_flag() {
    let (_parent, dir) = new_data_dir();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (flag, other) in [("--listen", "--http"), ("--http", "--listen")] {
        let mut command = bellwether(["up", flag, &address, other, "127.0.0.1:0", "--data-dir"]);
        let ended = run(command.arg(&dir));
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        let assert_contains =
            |text: &str| assert!(ended.stderr.contains(text), "no {text:?} in {}", ended.stderr);
        assert_contains(&format!("cannot listen on {address}"));
        assert_contains(flag);
        assert!(!dir.exists(), "a failed start created the data directory");
    }
}

#[test]
fn invalid_arguments_are_usage_errors() {
    for arguments in [
        &["up", "--no-such-flag"][..],
        &["up", "--spokes", "many"],
        &["up", "--spokes", "1001"],
        &["up", "--listen", "here"],
        &["no-such-command"],
        &["run", "no-such-role"],
    ] {
        let ended = run(&mut bellwether(arguments.iter().copied()));
        assert_eq!(ended.code, Some(2), "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.starts_with("error: "), "{arguments:?}: {}", ended.stderr);
    }
}

#[test]
fn first_start_can_be_repeated_after_a_kill_at_any_time() {
    for millis in (0..60).step_by(4) {
        let (_parent, dir) = new_data_dir();
        let mut killed = Server::launch(&dir, &mut up(&dir));
        std::thread::sleep(Duration::from_millis(millis));
        killed.kill();
        Server::start(&dir, &mut up(&dir));
    }
}
