//! The demo: workloads become available on the hub and on every spoke, but not with `--no-demo`.

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, PostParams};
use serde_json::json;

use bellwether_testkit::eventually;

use crate::server::{Server, bellwether, run, up};

fn deployment() -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            },
        },
    }))
    .unwrap()
}

#[tokio::test]
async fn workloads_become_available_on_the_hub_and_on_every_spoke() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let server = Server::start(&dir, up(&dir).args(["--spokes", "2", "--simulate-delay", "10ms"]));
    for context in ["hub", "spoke-1", "spoke-2"] {
        let deployments: Api<Deployment> = Api::namespaced(server.client(context).await, "default");
        deployments.create(&PostParams::default(), &deployment()).await.unwrap();
        eventually(context, || async {
            let status = deployments.get("web").await.unwrap().status?;
            (status.available_replicas == Some(2)).then_some(())
        })
        .await;
    }
}

#[test]
fn workloads_are_not_simulated_without_the_demo() {
    for (arguments, wanted) in [(&["--no-demo"][..], false), (&["--no-demo", "--demo"], true), (&[], true)] {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("data");
        let server =
            Server::start(&dir, up(&dir).args(["--spokes", "0", "--simulate-delay", "1ms"]).args(arguments));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let deployments: Api<Deployment> = Api::namespaced(server.client("hub").await, "default");
            deployments.create(&PostParams::default(), &deployment()).await.unwrap();
            let observed = || async {
                let status = deployments.get("web").await.unwrap().status;
                status.and_then(|status| status.observed_generation)
            };
            if wanted {
                eventually("the deployment is observed", observed).await;
            } else {
                // Twenty requests take far longer than a simulator needs.
                for _ in 0..20 {
                    assert_eq!(observed().await, None);
                }
            }
        });
    }
}

#[test]
fn invalid_delay_is_a_usage_error() {
    for delay in ["soon", "-1s", "5", "25h", "9999999999999h"] {
        let ended = run(&mut bellwether(["up", &format!("--simulate-delay={delay}")]));
        assert_eq!(ended.code, Some(2), "{delay}: {}", ended.stderr);
        assert!(ended.stderr.contains("--simulate-delay"), "{}", ended.stderr);
    }
}

/// A workload of each kind.
#[cfg(feature = "real-kubernetes")]
fn workloads() -> serde_json::Value {
    let mut deployment = serde_json::to_value(deployment()).unwrap();
    deployment["apiVersion"] = json!("apps/v1");
    deployment["kind"] = json!("Deployment");
    let mut stateful = deployment.clone();
    stateful["kind"] = json!("StatefulSet");
    stateful["spec"]["serviceName"] = json!("web");
    let mut daemon = deployment.clone();
    daemon["kind"] = json!("DaemonSet");
    daemon["spec"].as_object_mut().unwrap().remove("replicas");
    let mut template = deployment["spec"]["template"].clone();
    template["spec"]["restartPolicy"] = json!("Never");
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "import"}, "spec": {"template": template},
    });
    json!({"kind": "List", "apiVersion": "v1", "items": [deployment, stateful, daemon, job]})
}

#[cfg(feature = "real-kubernetes")]
#[test]
fn kubectl_rollout_status_and_wait_succeed() {
    use std::process::Command;

    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let _server = Server::start(&dir, up(&dir).args(["--spokes", "0", "--simulate-delay", "300ms"]));
    let kubectl =
        std::path::Path::new(&std::env::var(bellwether_testkit::real::ASSETS).unwrap()).join("kubectl");
    let kubectl_run = |line: &str| {
        let mut command = Command::new(&kubectl);
        command.args(line.split(' ')).env("KUBECONFIG", dir.join("kubeconfig"));
        run(&mut command)
    };
    let manifest = parent.path().join("workloads.json");
    std::fs::write(&manifest, workloads().to_string()).unwrap();
    let create = format!("create -f {}", manifest.display());
    let rows = [
        (create.as_str(), "deployment.apps/web created"),
        ("rollout status deployment web --timeout=20s", "successfully rolled out"),
        ("wait deployment web --for=condition=Available --timeout=20s", "condition met"),
        ("get deployment web", "2/2"),
        ("set image deployment web web=web:2", "image updated"),
        ("rollout status deployment web --timeout=20s", "successfully rolled out"),
        ("scale deployment web --replicas=0", "scaled"),
        ("rollout status deployment web --timeout=20s", "successfully rolled out"),
        ("rollout status statefulset web --timeout=20s", "roll out complete"),
        ("get statefulset web", "2/2"),
        ("rollout status daemonset web --timeout=20s", "successfully rolled out"),
        ("wait job import --for=condition=Complete --timeout=20s", "condition met"),
        ("get job import", "1/1"),
    ];
    for (line, expected) in rows {
        let ended = kubectl_run(line);
        assert_eq!(ended.code, Some(0), "{line}: {}", ended.stderr);
        let output = ended.stdout + &ended.stderr;
        assert!(output.contains(expected), "{line}: {output}");
    }
}
