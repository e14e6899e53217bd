//! `bellwether crds`: printing and installing CRDs, on our server and on real Kubernetes, and errors.

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

/// The output if all CRDs have the same result.
fn output_for_all(result: &str) -> String {
    output_for_one(result, result)
}

/// The output if the CRD `NAME` has another result than the others.
fn output_for_one(result: &str, others: &str) -> String {
    let result_of = |name: &str| if name == NAME { result.to_owned() } else { others.to_owned() };
    let crds = bellwether_api::crds();
    let names = crds.iter().map(|crd| crd.name());
    names
        .map(|name| format!("customresourcedefinition.apiextensions.k8s.io/{name} {}\n", result_of(name)))
        .collect()
}

async fn client(kubeconfig: &Path) -> kube::Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

async fn crd_api(kubeconfig: &Path) -> Api<CustomResourceDefinition> {
    Api::all(client(kubeconfig).await)
}

/// Installs the CRDs, again without a change and after another client changed one, and creates objects.
async fn check_install(kubeconfig: &Path) {
    let first = install(kubeconfig, &[]);
    assert_eq!((first.code, first.stdout), (Some(0), output_for_all("created")), "{}", first.stderr);
    let crds = crd_api(kubeconfig).await;
    let stored = crds.get(NAME).await.unwrap();
    assert_eq!(stored.metadata.labels.as_ref().unwrap()[LABEL], "bellwether");
    let conditions = stored.status.as_ref().unwrap().conditions.clone().unwrap();
    let state = |kind: &str| conditions.iter().find(|known| known.type_ == kind).map(|known| &*known.status);
    assert_eq!(state("Established"), Some("True"));
    assert_ne!(state("NonStructuralSchema"), Some("True"));

    let again = install(kubeconfig, &[]);
    assert_eq!((again.code, again.stdout), (Some(0), output_for_all("unchanged")), "{}", again.stderr);
    assert_eq!(
        crds.get(NAME).await.unwrap().metadata.resource_version,
        stored.metadata.resource_version,
        "nothing was written"
    );

    let drift = json!({"spec": {"names": {"shortNames": ["drift"]}}});
    crds.patch(NAME, &PatchParams::default(), &Patch::Merge(&drift)).await.unwrap();
    let repaired = install(kubeconfig, &[]);
    let expected = output_for_one("configured", "unchanged");
    assert_eq!((repaired.code, repaired.stdout), (Some(0), expected), "{}", repaired.stderr);
    assert_eq!(crds.get(NAME).await.unwrap().spec.names.short_names, None);

    check_addon_instances(kubeconfig).await;
}

/// The defaults and the pruning of nulls that Go clients need.
async fn check_addon_instances(kubeconfig: &Path) {
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
    assert_eq!(stored.data["status"].get("lastHeartbeatTime"), None, "null is pruned");
    assert_eq!(stored.data["status"]["conditions"][0]["reason"], "ComponentsUp");
    instance.metadata = stored.metadata;
    instance.data["status"]["conditions"][0]["reason"] = json!("");
    let rejected = instances.replace_status("empty-spec", &PostParams::default(), &instance).await;
    assert!(matches!(&rejected, Err(kube::Error::Api(status)) if status.code == 422), "{rejected:?}");
}

/// A CRD without our label is replaced only with --adopt.
async fn check_adoption(kubeconfig: &Path) {
    assert_eq!(install(kubeconfig, &[]).code, Some(0));
    let crds = crd_api(kubeconfig).await;
    crds.delete(NAME, &DeleteParams::default()).await.unwrap();
    eventually("the CRD is deleted", || async { crds.get_opt(NAME).await.unwrap().is_none().then_some(()) })
        .await;
    let foreign: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {"name": NAME, "labels": {LABEL: "another-tool", "keep": "me"}},
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
    crds.create(&PostParams::default(), &foreign).await.unwrap();

    let refused = install(kubeconfig, &[]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(4), ""), "{}", refused.stderr);
    assert!(refused.stderr.contains(NAME) && refused.stderr.contains("--adopt"), "{}", refused.stderr);
    let kept = crds.get(NAME).await.unwrap();
    assert_eq!(kept.metadata.labels.unwrap()[LABEL], "another-tool");

    let adopted = install(kubeconfig, &["--adopt"]);
    let expected = output_for_one("configured", "unchanged");
    assert_eq!((adopted.code, adopted.stdout), (Some(0), expected), "{}", adopted.stderr);
    let labels = crds.get(NAME).await.unwrap().metadata.labels.unwrap();
    assert_eq!((&*labels[LABEL], &*labels["keep"]), ("bellwether", "me"));
    let again = install(kubeconfig, &[]);
    assert_eq!((again.code, again.stdout), (Some(0), output_for_all("unchanged")), "{}", again.stderr);
}

/// A CRD whose names are used by another CRD is not established; the error has the cause.
async fn check_name_conflict(kubeconfig: &Path) {
    let crds = crd_api(kubeconfig).await;
    let conflicting: CustomResourceDefinition = serde_json::from_value(json!({
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
    crds.create(&PostParams::default(), &conflicting).await.unwrap();
    let late = install(kubeconfig, &["--timeout", "2s"]);
    assert_eq!((late.code, late.stdout), (Some(3), output_for_all("created")), "{}", late.stderr);
    assert!(late.stderr.contains(NAME) && late.stderr.contains("already in use"), "{}", late.stderr);
}

/// An embedded API server without CRDs.
struct EmptyServer {
    _parent: tempfile::TempDir,
    _server: Server,
    kubeconfig: PathBuf,
}

fn start_empty_server() -> EmptyServer {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    // Not `up`, which installs the CRDs itself.
    let mut command =
        bellwether(["run", "apiserver", "--listen", "127.0.0.1:0", "--logical-clusters", "spoke-1"]);
    let server = Server::start(&dir, command.arg("--data-dir").arg(&dir));
    EmptyServer { _parent: parent, _server: server, kubeconfig: dir.join("kubeconfig") }
}

#[tokio::test]
async fn crds_are_installed_and_drift_is_repaired() {
    check_install(&start_empty_server().kubeconfig).await;
}

#[tokio::test]
async fn crd_of_another_tool_is_replaced_only_with_adopt() {
    check_adoption(&start_empty_server().kubeconfig).await;
}

#[tokio::test]
async fn crd_that_is_not_established_in_time_ends_with_code_3_and_the_cause() {
    check_name_conflict(&start_empty_server().kubeconfig).await;
}

#[cfg(feature = "real-kubernetes")]
#[tokio::test]
async fn crd_that_is_not_established_in_time_on_real_kubernetes_ends_with_code_3_and_the_cause() {
    check_name_conflict(&bellwether_testkit::real::kubeconfig("crds-late").await).await;
}

#[cfg(feature = "real-kubernetes")]
#[tokio::test]
async fn crds_are_installed_and_adopted_on_real_kubernetes() {
    let kubeconfig = bellwether_testkit::real::kubeconfig("crds").await;
    check_install(&kubeconfig).await;
    check_adoption(&kubeconfig).await;
}

#[test]
fn context_selects_the_cluster() {
    let server = start_empty_server();
    for context in ["spoke-1", "hub"] {
        let installed = install(&server.kubeconfig, &["--context", context]);
        assert_eq!(installed.stdout, output_for_all("created"), "{context}: {}", installed.stderr);
    }
    let unknown = install(&server.kubeconfig, &["--context", "spoke-9"]);
    assert_eq!(unknown.code, Some(1));
    assert!(unknown.stderr.contains("no context \"spoke-9\". It has: hub, spoke-1"), "{}", unknown.stderr);
}

#[test]
fn printed_crds_equal_the_files_in_deploy() {
    let printed = run(&mut bellwether(["crds"]));
    let mut expected = String::new();
    for crd in bellwether_api::crds() {
        let file = format!("{}/../../deploy/crds/{}.yaml", env!("CARGO_MANIFEST_DIR"), crd.name());
        expected.push_str(&format!("---\n{}", std::fs::read_to_string(file).unwrap()));
    }
    assert_eq!(printed.stdout, expected);
    assert_eq!((printed.code, printed.stderr.as_str()), (Some(0), ""));
}

/// A command in an empty directory, without any kubeconfig.
fn without_kubeconfig(arguments: &[&str], dir: &Path) -> Command {
    let mut command = bellwether(arguments.iter().copied());
    command.current_dir(dir).env("HOME", dir).env_remove("KUBECONFIG");
    command
}

#[test]
fn error_without_a_kubeconfig_names_the_remedies() {
    let dir = tempfile::tempdir().unwrap();
    let ended = run(&mut without_kubeconfig(&["crds", "--install"], dir.path()));
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.stderr.contains("bellwether up") && ended.stderr.contains("--kubeconfig FILE"),
        "{}",
        ended.stderr
    );
}

#[test]
fn missing_kubeconfig_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    let by_flag = run(without_kubeconfig(&["crds", "--install", "--kubeconfig"], dir.path()).arg(&missing));
    let by_environment =
        run(without_kubeconfig(&["crds", "--install"], dir.path()).env("KUBECONFIG", &missing));
    for ended in [by_flag, by_environment] {
        assert_eq!(ended.code, Some(1));
        assert!(ended.stderr.contains(&*missing.to_string_lossy()), "{}", ended.stderr);
    }
}

#[test]
fn unreachable_cluster_is_an_error_at_once_that_names_it() {
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
    let expected = format!("no response from https://{address} (from {})", kubeconfig.display());
    assert!(ended.stderr.contains(&expected), "{}", ended.stderr);
    assert!(ended.stderr.contains("refused") && ended.stderr.lines().count() == 1, "{}", ended.stderr);
}

#[test]
fn cluster_that_does_not_respond_in_time_ends_with_code_3() {
    let dir = tempfile::tempdir().unwrap();
    // It accepts connections, and never responds.
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
fn invalid_arguments_end_with_code_2() {
    for arguments in [&["crds", "--adopt"][..], &["crds", "--install", "--timeout", "soon"]] {
        assert_eq!(run(&mut bellwether(arguments.iter().copied())).code, Some(2), "{arguments:?}");
    }
}
