//! `bellwether crds`: what it prints, what it installs in our server and in real Kubernetes, and what it refuses.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use bellwether_testkit::eventually;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;

use crate::server::{Ended, Server, bellwether, run};

const NAME: &str = "addoninstances.addons.managed.openshift.io";
const LABEL: &str = "app.kubernetes.io/managed-by";

fn install(kubeconfig: &Path, more: &[&str]) -> Ended {
    run(bellwether(["crds", "--install", "--kubeconfig"]).arg(kubeconfig).args(more))
}

/// What is said when the same becomes of all definitions.
fn said(change: &str) -> String {
    said_of_one(change, change)
}

/// What is said when something becomes of one definition, and something of the others.
fn said_of_one(change: &str, others: &str) -> String {
    let word = |name: &str| if name == NAME { change.to_owned() } else { others.to_owned() };
    let definitions = bellwether_api::crds();
    let names = definitions.iter().map(|definition| definition.name());
    names
        .map(|name| format!("customresourcedefinition.apiextensions.k8s.io/{name} {}\n", word(name)))
        .collect()
}

async fn client(kubeconfig: &Path) -> kube::Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

async fn definitions(kubeconfig: &Path) -> Api<CustomResourceDefinition> {
    Api::all(client(kubeconfig).await)
}

/// A first installation, a second, one after somebody changed a definition, and objects of the kind.
async fn installs_and_keeps_in_step(kubeconfig: &Path) {
    let first = install(kubeconfig, &[]);
    assert_eq!((first.code, first.stdout), (Some(0), said("created")), "{}", first.stderr);
    let definitions = definitions(kubeconfig).await;
    let stored = definitions.get(NAME).await.unwrap();
    assert_eq!(stored.metadata.labels.as_ref().unwrap()[LABEL], "bellwether");
    let conditions = stored.status.as_ref().unwrap().conditions.clone().unwrap();
    let state = |kind: &str| conditions.iter().find(|known| known.type_ == kind).map(|known| &*known.status);
    assert_eq!(state("Established"), Some("True"));
    assert_ne!(state("NonStructuralSchema"), Some("True"));

    let again = install(kubeconfig, &[]);
    assert_eq!((again.code, again.stdout), (Some(0), said("unchanged")), "{}", again.stderr);
    assert_eq!(
        definitions.get(NAME).await.unwrap().metadata.resource_version,
        stored.metadata.resource_version,
        "nothing was written"
    );

    let drift = json!({"spec": {"names": {"shortNames": ["drift"]}}});
    definitions.patch(NAME, &PatchParams::default(), &Patch::Merge(&drift)).await.unwrap();
    let mended = install(kubeconfig, &[]);
    let wanted = said_of_one("configured", "unchanged");
    assert_eq!((mended.code, mended.stdout), (Some(0), wanted), "{}", mended.stderr);
    assert_eq!(definitions.get(NAME).await.unwrap().spec.names.short_names, None);

    serves_add_on_instances(kubeconfig).await;
}

/// The defaults and the pruning that Go clients count on.
async fn serves_add_on_instances(kubeconfig: &Path) {
    let resource = ApiResource {
        group: "addons.managed.openshift.io".into(),
        version: "v1alpha1".into(),
        api_version: "addons.managed.openshift.io/v1alpha1".into(),
        kind: "AddonInstance".into(),
        plural: "addoninstances".into(),
    };
    let instances: Api<DynamicObject> = Api::namespaced_with(client(kubeconfig).await, "default", &resource);
    let rows = [
        ("no-spec", json!({}), None),
        ("empty-spec", json!({"spec": {}}), Some("10s")),
        ("null-period", json!({"spec": {"heartbeatUpdatePeriod": null}}), Some("10s")),
        ("go-zero", json!({"spec": {"markedForDeletion": false, "heartbeatUpdatePeriod": "0s"}}), Some("0s")),
    ];
    for (name, data, period) in rows {
        let object = DynamicObject { data, ..DynamicObject::new(name, &resource) };
        let stored = instances.create(&PostParams::default(), &object).await.unwrap();
        let found = stored.data.pointer("/spec/heartbeatUpdatePeriod").and_then(|period| period.as_str());
        assert_eq!(found, period, "{name}");
    }
    let mut instance = instances.get("empty-spec").await.unwrap();
    instance.data["status"] = json!({
        "lastHeartbeatTime": null,
        "conditions": [{
            "type": "addons.managed.openshift.io/Healthy", "status": "True", "reason": "ComponentsUp",
            "message": "", "lastTransitionTime": "2021-10-28T06:07:03Z",
        }],
    });
    let stored = instances.replace_status("empty-spec", &PostParams::default(), &instance).await.unwrap();
    assert_eq!(stored.data["status"].get("lastHeartbeatTime"), None, "a null is dropped");
    assert_eq!(stored.data["status"]["conditions"][0]["reason"], "ComponentsUp");
    instance.metadata = stored.metadata;
    instance.data["status"]["conditions"][0]["reason"] = json!("");
    let refused = instances.replace_status("empty-spec", &PostParams::default(), &instance).await;
    assert!(matches!(&refused, Err(kube::Error::Api(status)) if status.code == 422), "{refused:?}");
}

/// A definition without our label is left alone, until we are told to adopt it.
async fn refuses_what_is_not_ours(kubeconfig: &Path) {
    assert_eq!(install(kubeconfig, &[]).code, Some(0));
    let definitions = definitions(kubeconfig).await;
    definitions.delete(NAME, &DeleteParams::default()).await.unwrap();
    eventually("the definition is gone", || async {
        definitions.get_opt(NAME).await.unwrap().is_none().then_some(())
    })
    .await;
    let foreign: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {"name": NAME, "labels": {LABEL: "somebody", "keep": "me"}},
        "spec": {
            "group": "addons.managed.openshift.io",
            "names": {"kind": "AddonInstance", "plural": "addoninstances"},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    }))
    .unwrap();
    definitions.create(&PostParams::default(), &foreign).await.unwrap();

    let refused = install(kubeconfig, &[]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(4), ""), "{}", refused.stderr);
    assert!(refused.stderr.contains(NAME) && refused.stderr.contains("--adopt"), "{}", refused.stderr);
    let kept = definitions.get(NAME).await.unwrap();
    assert_eq!(kept.metadata.labels.unwrap()[LABEL], "somebody");

    let adopted = install(kubeconfig, &["--adopt"]);
    let wanted = said_of_one("configured", "unchanged");
    assert_eq!((adopted.code, adopted.stdout), (Some(0), wanted), "{}", adopted.stderr);
    let labels = definitions.get(NAME).await.unwrap().metadata.labels.unwrap();
    assert_eq!((&*labels[LABEL], &*labels["keep"]), ("bellwether", "me"));
    let again = install(kubeconfig, &[]);
    assert_eq!((again.code, again.stdout), (Some(0), said("unchanged")), "{}", again.stderr);
}

/// A definition whose names are taken is never served; the reason is told.
async fn says_why_a_definition_is_late(kubeconfig: &Path) {
    let definitions = definitions(kubeconfig).await;
    let rival: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {"name": "rivals.addons.managed.openshift.io"},
        "spec": {
            "group": "addons.managed.openshift.io",
            "names": {"kind": "AddonInstance", "plural": "rivals"},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    }))
    .unwrap();
    definitions.create(&PostParams::default(), &rival).await.unwrap();
    let late = install(kubeconfig, &["--timeout", "2s"]);
    assert_eq!((late.code, late.stdout), (Some(3), said("created")), "{}", late.stderr);
    assert!(late.stderr.contains(NAME) && late.stderr.contains("already in use"), "{}", late.stderr);
}

struct Ours {
    _parent: tempfile::TempDir,
    _server: Server,
    kubeconfig: PathBuf,
}

fn ours() -> Ours {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    // Not by `up`, which brings the definitions with it.
    let mut command =
        bellwether(["run", "apiserver", "--listen", "127.0.0.1:0", "--logical-clusters", "spoke-1"]);
    let server = Server::start(&dir, command.arg("--data-dir").arg(&dir));
    Ours { _parent: parent, _server: server, kubeconfig: dir.join("kubeconfig") }
}

#[tokio::test]
async fn definitions_are_installed_and_kept_in_step() {
    installs_and_keeps_in_step(&ours().kubeconfig).await;
}

#[tokio::test]
async fn a_definition_of_somebody_else_is_refused_unless_adopted() {
    refuses_what_is_not_ours(&ours().kubeconfig).await;
}

#[tokio::test]
async fn a_definition_that_is_not_established_in_time_ends_with_code_3_and_the_reason() {
    says_why_a_definition_is_late(&ours().kubeconfig).await;
}

#[cfg(feature = "real-kubernetes")]
#[tokio::test]
async fn real_kubernetes_says_why_a_definition_is_late() {
    says_why_a_definition_is_late(&bellwether_testkit::real::kubeconfig("crds-late").await).await;
}

#[cfg(feature = "real-kubernetes")]
#[tokio::test]
async fn real_kubernetes_takes_the_definitions_and_keeps_what_is_not_ours() {
    let kubeconfig = bellwether_testkit::real::kubeconfig("crds").await;
    installs_and_keeps_in_step(&kubeconfig).await;
    refuses_what_is_not_ours(&kubeconfig).await;
}

#[test]
fn the_context_chooses_the_cluster() {
    let ours = ours();
    for context in ["spoke-1", "hub"] {
        let installed = install(&ours.kubeconfig, &["--context", context]);
        assert_eq!(installed.stdout, said("created"), "{context}: {}", installed.stderr);
    }
    let unknown = install(&ours.kubeconfig, &["--context", "spoke-9"]);
    assert_eq!(unknown.code, Some(1));
    assert!(unknown.stderr.contains("no context \"spoke-9\". It has: hub, spoke-1"), "{}", unknown.stderr);
}

#[test]
fn without_flags_all_definitions_are_printed_as_the_files_have_them() {
    let printed = run(&mut bellwether(["crds"]));
    let mut wanted = String::new();
    for definition in bellwether_api::crds() {
        let file = format!("{}/../../deploy/crds/{}.yaml", env!("CARGO_MANIFEST_DIR"), definition.name());
        wanted.push_str(&format!("---\n{}", std::fs::read_to_string(file).unwrap()));
    }
    assert_eq!(printed.stdout, wanted);
    assert_eq!((printed.code, printed.stderr.as_str()), (Some(0), ""));
}

/// A command in an empty directory, with nothing around that names a cluster.
fn alone(arguments: &[&str], dir: &Path) -> Command {
    let mut command = bellwether(arguments.iter().copied());
    command.current_dir(dir).env("HOME", dir).env_remove("KUBECONFIG");
    command
}

#[test]
fn without_any_kubeconfig_it_says_how_to_get_one() {
    let dir = tempfile::tempdir().unwrap();
    let ended = run(&mut alone(&["crds", "--install"], dir.path()));
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.stderr.contains("bellwether up") && ended.stderr.contains("--kubeconfig FILE"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_kubeconfig_that_is_not_there_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    let by_flag = run(alone(&["crds", "--install", "--kubeconfig"], dir.path()).arg(&missing));
    let by_environment = run(alone(&["crds", "--install"], dir.path()).env("KUBECONFIG", &missing));
    for ended in [by_flag, by_environment] {
        assert_eq!(ended.code, Some(1));
        assert!(ended.stderr.contains(&*missing.to_string_lossy()), "{}", ended.stderr);
    }
}

#[test]
fn a_cluster_that_does_not_answer_is_named_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let kubeconfig = dir.path().join("kubeconfig");
    let document = json!({
        "current-context": "gone",
        "clusters": [{"name": "gone", "cluster": {"server": format!("https://{address}")}}],
        "users": [{"name": "me", "user": {"token": "x"}}],
        "contexts": [{"name": "gone", "context": {"cluster": "gone", "user": "me"}}],
    });
    std::fs::write(&kubeconfig, document.to_string()).unwrap();
    let begun = Instant::now();
    let ended = install(&kubeconfig, &[]);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    let wanted = format!("no answer from https://{address} (from {})", kubeconfig.display());
    assert!(ended.stderr.contains(&wanted), "{}", ended.stderr);
    assert!(ended.stderr.contains("refused") && ended.stderr.lines().count() == 1, "{}", ended.stderr);
}

#[test]
fn a_cluster_that_takes_too_long_ends_with_code_3() {
    let dir = tempfile::tempdir().unwrap();
    // It takes connections, and never says a word.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let kubeconfig = dir.path().join("kubeconfig");
    let document = json!({
        "current-context": "silent",
        "clusters": [{"name": "silent", "cluster": {"server": format!("http://{}", silent.local_addr().unwrap())}}],
        "users": [{"name": "me", "user": {}}],
        "contexts": [{"name": "silent", "context": {"cluster": "silent", "user": "me"}}],
    });
    std::fs::write(&kubeconfig, document.to_string()).unwrap();
    let ended = install(&kubeconfig, &["--timeout", "300ms"]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains("300ms") && ended.stderr.contains("--timeout"), "{}", ended.stderr);
}

#[test]
fn misuse_is_told_apart_from_errors() {
    for arguments in [&["crds", "--adopt"][..], &["crds", "--install", "--timeout", "soon"]] {
        assert_eq!(run(&mut bellwether(arguments.iter().copied())).code, Some(2), "{arguments:?}");
    }
}
