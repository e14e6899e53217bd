use serde_json::json;

use super::*;

fn template(manifests: Value) -> AddOnTemplateSpec {
    serde_json::from_value(json!({
        "addonName": "hello",
        "version": "v1",
        "agentSpec": {"workload": {"manifests": manifests}},
    }))
    .unwrap()
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "hello", "namespace": "hello"},
        "spec": {"template": {"spec": {
            "initContainers": [{"name": "init", "image": "quay.io/hello/init:v1"}],
            "containers": [{"name": "agent", "image": "quay.io/hello/agent:v1", "env": [{"name": "LEVEL", "value": "info"}]}],
        }}},
    })
}

fn render_manifests(manifests: Value, configs: &[Value]) -> Result<Vec<Rendered>, RenderError> {
    let configs: Vec<AddOnDeploymentConfigSpec> =
        configs.iter().map(|config| serde_json::from_value(config.clone()).unwrap()).collect();
    let configs: Vec<&AddOnDeploymentConfigSpec> = configs.iter().collect();
    render(&RenderInput {
        addon: "hello",
        cluster: "cluster1",
        install_namespace: Some("the-namespace"),
        template: &template(manifests),
        configs: &configs,
    })
}

fn one(manifest: Value, config: Value) -> Value {
    render_manifests(json!([manifest]), &[config]).unwrap().remove(0).spec.workload.manifests.remove(0)
}

#[test]
fn cluster_name_and_namespace_variables_cannot_be_overridden() {
    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{CLUSTER_NAME}}", "namespace": "{{INSTALL_NAMESPACE}}"}, "data": {"level": "{{LEVEL}}", "hub": "{{HUB_KUBECONFIG}}"}});
    let config = json!({"customizedVariables": [
        {"name": "LEVEL", "value": "debug"},
        {"name": "CLUSTER_NAME", "value": "another"},
    ]});
    let found = one(manifest, config);
    assert_eq!(found["metadata"], json!({"name": "cluster1", "namespace": "the-namespace"}));
    assert_eq!(found["data"], json!({"level": "debug", "hub": "/managed/hub-kubeconfig/kubeconfig"}));
}

#[test]
fn rendering_error_names_object() {
    let rows = [
        (
            json!([{"kind": "ConfigMap", "metadata": {"name": "c"}}]),
            "manifest 0 (ConfigMap c) has no apiVersion",
        ),
        (json!([{"apiVersion": "v1", "metadata": {"name": "c"}}]), "manifest 0 (c) has no kind"),
        (
            json!([deployment(), {"apiVersion": "v1", "kind": "ConfigMap"}]),
            "manifest 1 (ConfigMap) has no metadata.name",
        ),
        (json!(["text"]), "manifest 0 has no apiVersion"),
        (
            json!([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{WHICH}}"}}]),
            "manifest 0 (ConfigMap {{WHICH}}): the variable {{WHICH}} has no value",
        ),
    ];
    for (manifests, message) in rows {
        assert_eq!(render_manifests(manifests, &[]).unwrap_err().to_string(), message);
    }
}

#[test]
fn version_without_objects_has_no_works() {
    assert_eq!(render_manifests(json!([]), &[]), Ok(vec![]));
}

#[test]
fn configurations_reach_every_container() {
    let found = one(
        deployment(),
        json!({
            "agentInstallNamespace": "",
            "customizedVariables": [{"name": "LEVEL", "value": "debug"}],
            "nodePlacement": {"tolerations": [{"key": "infra", "operator": "Exists"}]},
            "registries": [{"source": "quay.io/hello", "mirror": "registry.local/mirror"}],
            "proxyConfig": {"httpsProxy": "http://proxy:3128", "noProxy": ".svc", "caBundle": "Q0E="},
            "resourceRequirements": [
                {"containerID": "*:*:*", "resources": {"requests": {"cpu": "1m"}}},
                {"containerID": "deployments:hello:agent", "resources": {"requests": {"cpu": "5m"}}},
            ],
        }),
    );
    let pod = &found["spec"]["template"]["spec"];
    assert_eq!(
        pod["tolerations"],
        json!([{"key": "infra", "operator": "Exists"}]),
        "without a nodeSelector as well"
    );
    assert_eq!(pod["volumes"], json!([{"name": "proxy-ca", "configMap": {"name": "hello-proxy-ca"}}]));
    let environment = json!([
        {"name": "LEVEL", "value": "debug"},
        {"name": "HTTPS_PROXY", "value": "http://proxy:3128"},
        {"name": "https_proxy", "value": "http://proxy:3128"},
        {"name": "NO_PROXY", "value": ".svc"},
        {"name": "no_proxy", "value": ".svc"},
        {"name": "CA_BUNDLE_FILE_PATH", "value": "/managed/proxy-ca/ca-bundle.crt"},
    ]);
    let rows = [("containers", "agent", "5m"), ("initContainers", "init", "1m")];
    for (list, name, processor) in rows {
        let container = &pod[list][0];
        assert_eq!(container["image"], format!("registry.local/mirror/{name}:v1"));
        assert_eq!(container["env"], environment);
        assert_eq!(container["resources"], json!({"requests": {"cpu": processor}}));
        assert_eq!(container["volumeMounts"][0]["mountPath"], "/managed/proxy-ca");
    }
}

#[test]
fn ca_bundle_of_proxy_becomes_config_map() {
    let config = json!({"agentInstallNamespace": "", "proxyConfig": {"httpProxy": "http://proxy", "caBundle": "Q0E="}});
    let works = render_manifests(json!([deployment()]), &[config]).unwrap();
    let manifests = &works[0].spec.workload.manifests;
    assert_eq!(manifests[1]["metadata"], json!({"name": "hello-proxy-ca", "namespace": "the-namespace"}));
    assert_eq!(manifests[1]["binaryData"], json!({"ca-bundle.crt": "Q0E="}));
}

#[test]
fn namespace_of_configuration_applies_to_all_objects() {
    let manifests = json!([
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "hello"}},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "hello"},
         "subjects": [{"kind": "ServiceAccount", "name": "hello", "namespace": "hello"}, {"kind": "Group", "name": "g"}]},
        deployment(),
    ]);
    let works = render_manifests(manifests, &[json!({"agentInstallNamespace": "elsewhere"})]).unwrap();
    let [namespace, binding, deployment] = works[0].spec.workload.manifests.as_slice() else { panic!() };
    assert_eq!(namespace["metadata"]["name"], "elsewhere");
    assert_eq!(binding["metadata"], json!({"name": "hello"}), "it is in no namespace");
    assert_eq!(binding["subjects"][0]["namespace"], "elsewhere");
    assert_eq!(binding["subjects"][1], json!({"kind": "Group", "name": "g"}));
    assert_eq!(deployment["metadata"]["namespace"], "elsewhere");
}

#[test]
fn image_is_mirrored_if_source_is_its_prefix() {
    let rows = [
        ("quay.io/org", "quay.io/org/app:v1", "mirror.local/app:v1"),
        ("quay.io/org/", "quay.io/org/app@sha256:0", "mirror.local/app@sha256:0"),
        ("quay.io/org", "quay.io/organisation/app", "quay.io/organisation/app"),
        ("quay.io/org/app", "quay.io/org/app:v1", "mirror.local:v1"),
        ("", "quay.io/org/app:v1", "mirror.local/app:v1"),
        ("ghcr.io", "quay.io/org/app:v1", "quay.io/org/app:v1"),
    ];
    for (source, image, wanted) in rows {
        let mut manifest = deployment();
        manifest["spec"]["template"]["spec"]["containers"][0]["image"] = image.into();
        let config = json!({"agentInstallNamespace": "", "registries": [{"source": source, "mirror": "mirror.local"}]});
        let found = one(manifest, config);
        assert_eq!(found["spec"]["template"]["spec"]["containers"][0]["image"], wanted, "{source} {image}");
    }
}

#[test]
fn feedback_rules_are_added_to_those_of_template() {
    let mut wanted = template(json!([deployment()]));
    wanted.agent_spec.manifest_configs = serde_json::from_value(json!([
        {"resourceIdentifier": {"group": "apps", "resource": "deployments", "namespace": "hello", "name": "hello"},
         "updateStrategy": {"type": "ServerSideApply", "serverSideApply": {"force": true}}},
    ]))
    .unwrap();
    let input = RenderInput {
        addon: "hello",
        cluster: "c",
        install_namespace: None,
        template: &wanted,
        configs: &[],
    };
    let works = render(&input).unwrap();
    assert_eq!(
        serde_json::to_value(&works[0].spec.manifest_configs).unwrap(),
        json!([{
            "resourceIdentifier": {"group": "apps", "resource": "deployments", "namespace": "hello", "name": "hello"},
            "feedbackRules": [{"type": "WellKnownStatus"}],
            "updateStrategy": {"type": "ServerSideApply", "serverSideApply": {"force": true, "fieldManager": "work-agent"}},
        }])
    );
    assert_eq!(digest(&works[0].spec), works[0].digest);
}

#[test]
fn rendering_is_deterministic() {
    let first = render_manifests(json!([deployment()]), &[]).unwrap();
    assert_eq!(render_manifests(json!([deployment()]), &[]).unwrap(), first);
    let other = render_manifests(
        json!([deployment()]),
        &[json!({"customizedVariables": [{"name": "A", "value": "b"}]})],
    )
    .unwrap();
    assert_ne!(other[0].digest, first[0].digest);
}

#[test]
fn changed_output_requires_new_rendering_version() {
    let everything = json!({
        "customizedVariables": [{"name": "LEVEL", "value": "debug"}],
        "nodePlacement": {"nodeSelector": {"disk": "fast"}, "tolerations": [{"operator": "Exists"}]},
        "registries": [{"source": "quay.io/hello", "mirror": "mirror.example/hello"}],
        "proxyConfig": {"httpProxy": "http://proxy", "httpsProxy": "https://proxy", "noProxy": ".local", "caBundle": "QQ=="},
        "resourceRequirements": [{"containerID": "*:*:*", "resources": {"limits": {"memory": "1Gi"}}}],
        "agentInstallNamespace": "elsewhere",
    });
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "n"}, "data": {"level": "{{LEVEL}}"}});
    let render_manifests = render_manifests(json!([map, deployment()]), &[everything]).unwrap();
    let digests: Vec<&str> = render_manifests.iter().map(|work| work.digest.as_str()).collect();
    assert_eq!(
        (RENDERING_VERSION, digests),
        (1, vec!["ab48ff6c4484af743df5d2a729da4342ceb49fa815afcc3d1321171803228e94"])
    );
}
