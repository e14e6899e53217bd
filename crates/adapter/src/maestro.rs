//! The transport `maestro`: manifests are delivered as a ManifestWork in the namespace of the target cluster on the hub, where
//! the agent of that cluster picks it up and reports back. Pure functions; the hub itself is a `Transport`.

use bellwether_api::work::ManifestWork;
use kube::Resource as _;
use serde_json::{Map, Value, json};

use crate::decide::{GENERATION, generation_of};
use crate::transport::KindName;

/// Why manifests cannot be delivered as a ManifestWork.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrapError {
    /// The manifest has no name.
    #[error("the manifest must have metadata.name; it is the name of the ManifestWork")]
    NoName,
    /// The ManifestWork has nothing in it.
    #[error("the ManifestWork must have at least one manifest in spec.workload.manifests")]
    Empty,
    /// The target cluster is empty.
    #[error("transport.maestro.target_cluster is empty after rendering; it must name a managed cluster")]
    NoCluster,
    /// A generation is missing or invalid.
    #[error("{object}: {cause}")]
    Generation {
        /// The object.
        object: String,
        /// What is wrong.
        cause: String,
    },
}

/// The kind of ManifestWorks.
pub(crate) fn manifest_work_kind() -> KindName {
    KindName {
        api_version: ManifestWork::api_version(&()).into_owned(),
        kind: ManifestWork::kind(&()).into_owned(),
    }
}

/// A manifest as a ManifestWork for a cluster. One that is a ManifestWork already is completed; anything else becomes its only
/// manifest. The generation must be set on the work; manifests without one get it.
pub fn wrap(manifest: Value, cluster: &str) -> Result<Value, WrapError> {
    if cluster.is_empty() {
        return Err(WrapError::NoCluster);
    }
    let is_work = KindName::of(&manifest).is_some_and(|kind| kind == manifest_work_kind());
    let mut work = if is_work { manifest } else { work_around(manifest)? };
    let name = work.pointer("/metadata/name").and_then(Value::as_str).ok_or(WrapError::NoName)?.to_owned();
    let generation = required_generation(&work, &format!("ManifestWork {name}"))?;
    if let Some(metadata) = work.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("namespace".to_owned(), json!(cluster));
    }
    let manifests = work.pointer_mut("/spec/workload/manifests").and_then(Value::as_array_mut);
    let manifests = manifests.filter(|manifests| !manifests.is_empty()).ok_or(WrapError::Empty)?;
    for manifest in manifests.iter_mut() {
        set_generation(manifest, generation)?;
    }
    let default_configs = manifests.iter().filter_map(default_config).collect();
    complete_configs(&mut work, default_configs);
    Ok(work)
}

fn work_around(manifest: Value) -> Result<Value, WrapError> {
    let metadata = manifest.get("metadata").cloned().unwrap_or_default();
    let name = metadata.get("name").and_then(Value::as_str).ok_or(WrapError::NoName)?.to_owned();
    let KindName { api_version, kind } = manifest_work_kind();
    Ok(json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {
            "name": name,
            "labels": metadata.get("labels").cloned().unwrap_or_else(|| json!({})),
            "annotations": metadata.get("annotations").cloned().unwrap_or_else(|| json!({})),
        },
        "spec": {"workload": {"manifests": [manifest]}},
    }))
}

fn required_generation(object: &Value, name: &str) -> Result<u64, WrapError> {
    let missing =
        || format!("the annotation {GENERATION} is missing; set it to the generation of the resource");
    let found = generation_of(object).and_then(|generation| generation.ok_or_else(missing));
    found.map_err(|cause| WrapError::Generation { object: name.to_owned(), cause })
}

fn set_generation(manifest: &mut Value, generation: u64) -> Result<(), WrapError> {
    let object =
        || manifest.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("a manifest").to_owned();
    let found = generation_of(manifest).map_err(|cause| WrapError::Generation { object: object(), cause })?;
    if found.is_some() {
        return Ok(());
    }
    if let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) {
        let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(GENERATION.to_owned(), json!(generation.to_string()));
        }
    }
    Ok(())
}

/// Which values of the status of a manifest are reported, where the work does not say.
fn default_config(manifest: &Value) -> Option<Value> {
    let kind = KindName::of(manifest)?;
    let group = kind.api_version.rsplit_once('/').map_or("", |(group, _)| group).to_owned();
    let text =
        |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let paths = |paths: &[(&str, &str)]| {
        let paths: Vec<Value> =
            paths.iter().map(|(name, path)| json!({"name": name, "path": path})).collect();
        json!([{"type": "JSONPaths", "jsonPaths": paths}])
    };
    let rules = match (group.as_str(), kind.kind.as_str()) {
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet") | ("", "Pod") => {
            json!([{"type": "WellKnownStatus"}])
        }
        ("batch", "Job") => json!([
            {"type": "WellKnownStatus"},
            {"type": "JSONPaths", "jsonPaths": [
                {"name": "JobFailed", "path": ".conditions[?(@.type==\"Failed\")].status"},
                {"name": "active", "path": ".active"},
            ]},
        ]),
        ("", "Namespace" | "PersistentVolumeClaim") => paths(&[("phase", ".phase")]),
        // Kinds without a status have nothing to report.
        ("", _) | ("rbac.authorization.k8s.io" | "networking.k8s.io" | "policy", _) => return None,
        _ => paths(&[
            ("Ready", ".conditions[?(@.type==\"Ready\")].status"),
            ("Available", ".conditions[?(@.type==\"Available\")].status"),
        ]),
    };
    let identifier = json!({
        "group": group, "resource": plural(&kind.kind), "name": text("/metadata/name"), "namespace": text("/metadata/namespace"),
    });
    Some(json!({"resourceIdentifier": identifier, "feedbackRules": rules}))
}

/// The plural of a kind by the rules of Kubernetes' code generators. It is used for kinds whose CRD is elsewhere.
fn plural(kind: &str) -> String {
    let lower = kind.to_lowercase();
    match lower.chars().last() {
        Some('s' | 'x') => format!("{lower}es"),
        Some('y') if !lower.ends_with("ay") && !lower.ends_with("ey") => {
            format!("{}ies", lower.trim_end_matches('y'))
        }
        _ => format!("{lower}s"),
    }
}

/// Adds configurations for manifests that have none, and makes paths relative to the status, as the API wants them.
fn complete_configs(work: &mut Value, defaults: Vec<Value>) {
    let Some(spec) = work.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let configs = spec.entry("manifestConfigs").or_insert_with(|| json!([]));
    let Some(configs) = configs.as_array_mut() else { return };
    for rule in
        configs.iter_mut().filter_map(|config| config.get_mut("feedbackRules")?.as_array_mut()).flatten()
    {
        for path in rule.get_mut("jsonPaths").and_then(Value::as_array_mut).into_iter().flatten() {
            let relative =
                path.get("path").and_then(Value::as_str).and_then(|text| text.strip_prefix(".status."));
            if let Some(relative) = relative.map(|relative| format!(".{relative}"))
                && let Some(path) = path.as_object_mut()
            {
                path.insert("path".to_owned(), json!(relative));
            }
        }
    }
    for default in defaults {
        // The core group and the namespace of a cluster-scoped object may be left out.
        let field = |config: &Value, name: &str| {
            let found = config.pointer(&format!("/resourceIdentifier/{name}")).and_then(Value::as_str);
            found.unwrap_or_default().to_owned()
        };
        let names_same = |config: &Value| {
            let fields = ["group", "resource", "namespace", "name"];
            fields.iter().all(|name| field(config, name) == field(&default, name))
        };
        if !configs.iter().any(names_same) {
            configs.push(default);
        }
    }
    if configs.is_empty() {
        spec.remove("manifestConfigs");
    }
}

/// A ManifestWork without what its cluster reported for another generation of it: conditions, and reports on manifests. An
/// adapter would else report that a new generation is available before the cluster has it. Where no generation is reported, the
/// report counts.
pub fn without_stale_reports(mut work: Value) -> Value {
    let generation = work.pointer("/metadata/generation").and_then(Value::as_i64);
    let (Some(generation), Some(status)) = (generation, work.get_mut("status")) else { return work };
    let applied = conditions(status).find(|condition| condition.get("type") == Some(&json!("Applied")));
    let applied = applied.and_then(observed_generation);
    if let Some(reports) = status.pointer_mut("/resourceStatus/manifests").and_then(Value::as_array_mut) {
        reports.retain(|report| {
            // Agents that report no generation for each manifest report one for all of them.
            let observed = conditions(report).filter_map(observed_generation).max().or(applied);
            observed.is_none_or(|observed| observed == generation)
        });
        reports.iter_mut().for_each(|report| remove_stale_conditions(report, generation));
    }
    remove_stale_conditions(status, generation);
    work
}

fn conditions(status: &Value) -> impl Iterator<Item = &Value> {
    status.get("conditions").and_then(Value::as_array).into_iter().flatten()
}

fn observed_generation(condition: &Value) -> Option<i64> {
    condition.get("observedGeneration")?.as_i64()
}

fn remove_stale_conditions(status: &mut Value, generation: i64) {
    if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
        conditions
            .retain(|condition| observed_generation(condition).is_none_or(|observed| observed == generation));
    }
}

/// A manifest inside a ManifestWork by its name, with what its cluster reports.
pub fn nested_by_name(work: &Value, name: &str, namespace: Option<&str>) -> Option<Value> {
    find_nested(work, namespace, |manifest| {
        manifest.pointer("/metadata/name").and_then(Value::as_str) == Some(name)
    })
}

/// A manifest inside a ManifestWork by its labels, with what its cluster reports.
pub fn nested_by_labels(work: &Value, labels: &[(String, String)], namespace: Option<&str>) -> Option<Value> {
    find_nested(work, namespace, |manifest| {
        let found = manifest.pointer("/metadata/labels");
        labels.iter().all(|(name, value)| {
            found.and_then(|found| found.get(name)).and_then(Value::as_str) == Some(value.as_str())
        })
    })
}

fn find_nested(work: &Value, namespace: Option<&str>, matches: impl Fn(&Value) -> bool) -> Option<Value> {
    let manifests = work.pointer("/spec/workload/manifests")?.as_array()?;
    let is_in_namespace = |manifest: &Value| {
        let found = manifest.pointer("/metadata/namespace").and_then(Value::as_str);
        namespace.is_none_or(|namespace| found == Some(namespace))
    };
    let found =
        manifests.iter().enumerate().find(|(_, manifest)| is_in_namespace(manifest) && matches(manifest));
    let (ordinal, manifest) = found?;
    let mut object = manifest.clone();
    let reports = work.pointer("/status/resourceStatus/manifests").and_then(Value::as_array);
    let report = reports.and_then(|reports| reports.iter().find(|report| is_of(report, ordinal, manifest)));
    if let (Some(report), Some(object)) = (report, object.as_object_mut()) {
        merge_report(object, report);
    }
    Some(object)
}

/// A report names its manifest by position and by name. Positions alone may be those of an earlier list.
fn is_of(report: &Value, ordinal: usize, manifest: &Value) -> bool {
    let meta = |field: &str| report.pointer(&format!("/resourceMeta/{field}"));
    let name = manifest.pointer("/metadata/name").and_then(Value::as_str);
    let kind = manifest.get("kind").and_then(Value::as_str);
    meta("ordinal").and_then(Value::as_u64) == Some(ordinal as u64)
        && meta("name").and_then(Value::as_str) == name
        && meta("kind").and_then(Value::as_str).is_none_or(|found| Some(found) == kind)
}

/// Adds `conditions`, `statusFeedback`, and the values of the feedback as `status`.
fn merge_report(object: &mut Map<String, Value>, report: &Value) {
    for field in ["conditions", "statusFeedback"] {
        if let Some(value) = report.get(field) {
            object.insert(field.to_owned(), value.clone());
        }
    }
    let values = report.pointer("/statusFeedback/values").and_then(Value::as_array);
    let status: Map<String, Value> = values.into_iter().flatten().filter_map(feedback_entry).collect();
    if !status.is_empty() {
        object.insert("status".to_owned(), Value::Object(status));
    }
}

fn feedback_entry(value: &Value) -> Option<(String, Value)> {
    let name = value.get("name")?.as_str()?.to_owned();
    let field = value.get("fieldValue")?;
    let found = match field.get("type").and_then(Value::as_str)? {
        "Integer" => field.get("integer")?.clone(),
        "Boolean" => field.get("boolean")?.clone(),
        "JsonRaw" => serde_json::from_str(field.get("jsonRaw")?.as_str()?).ok()?,
        _ => field.get("string")?.clone(),
    };
    Some((name, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config_map(generation: Option<&str>) -> Value {
        let annotations = generation.map_or(json!({}), |generation| json!({GENERATION: generation}));
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "c", "namespace": "n", "labels": {"a": "b"}, "annotations": annotations}})
    }

    fn work(manifests: Value) -> Value {
        json!({"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
            "metadata": {"name": "w", "annotations": {GENERATION: "3"}}, "spec": {"workload": {"manifests": manifests}}})
    }

    #[test]
    fn plain_manifest_is_wrapped_into_a_manifest_work_of_the_cluster() {
        let wrapped = wrap(config_map(Some("2")), "spoke-1").unwrap();
        assert_eq!(wrapped["kind"], "ManifestWork");
        assert_eq!(wrapped["metadata"]["namespace"], "spoke-1");
        assert_eq!(wrapped["metadata"]["annotations"][GENERATION], "2");
        assert_eq!(wrapped["spec"]["workload"]["manifests"][0]["kind"], "ConfigMap");
    }

    #[test]
    fn work_is_completed_with_generations_and_feedback() {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
        let mut given = work(json!([namespace, config_map(None)]));
        let wrapped = wrap(given.clone(), "spoke-1").unwrap();
        for index in 0..2 {
            assert_eq!(
                wrapped["spec"]["workload"]["manifests"][index]["metadata"]["annotations"][GENERATION],
                "3"
            );
        }
        let configs = wrapped["spec"]["manifestConfigs"].as_array().unwrap();
        assert_eq!(configs.len(), 1, "{configs:?}");
        assert_eq!(configs[0]["resourceIdentifier"]["resource"], "namespaces");

        given["spec"]["manifestConfigs"] = json!([{
            "resourceIdentifier": {"group": "", "resource": "namespaces", "name": "n"},
            "feedbackRules": [{"type": "JSONPaths", "jsonPaths": [{"name": "phase", "path": ".status.phase"}]}],
        }]);
        let wrapped = wrap(given, "spoke-1").unwrap();
        let configs = wrapped["spec"]["manifestConfigs"].as_array().unwrap();
        assert_eq!(configs.len(), 1);
        assert_eq!(configs[0]["feedbackRules"][0]["jsonPaths"][0]["path"], ".phase");
    }

    #[test]
    fn feedback_rules_of_one_namespace_do_not_replace_those_of_another() {
        let claim = |namespace: &str| json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": namespace}});
        let mut given = work(json!([claim("a"), claim("b")]));
        given["spec"]["manifestConfigs"] = json!([{"resourceIdentifier": {"resource": "persistentvolumeclaims", "namespace": "a", "name": "c"}}]);
        let wrapped = wrap(given, "spoke-1").unwrap();
        let configs = wrapped["spec"]["manifestConfigs"].as_array().unwrap();
        let namespaces: Vec<&Value> =
            configs.iter().map(|config| &config["resourceIdentifier"]["namespace"]).collect();
        assert_eq!(namespaces, ["a", "b"]);
    }

    #[test]
    fn invalid_works_are_rejected() {
        for (manifest, cluster, message) in [
            (work(json!([])), "c", "at least one manifest"),
            (config_map(None), "c", "is missing"),
            (config_map(Some("0")), "c", "must be an integer above 0"),
            (work(json!([config_map(Some("x"))])), "c", "must be an integer above 0"),
            (config_map(Some("1")), "", "target_cluster"),
            (json!({"kind": "ConfigMap"}), "c", "metadata.name"),
        ] {
            let error = wrap(manifest, cluster).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn nested_manifest_is_found_with_what_its_cluster_reports() {
        let mut work = work(json!([{"kind": "Namespace", "metadata": {"name": "n"}}, config_map(Some("3"))]));
        assert_eq!(nested_by_name(&work, "n", None).unwrap()["kind"], "Namespace");
        work["status"] = json!({"resourceStatus": {"manifests": [
            {"resourceMeta": {"ordinal": 0, "kind": "Namespace", "name": "n"},
             "conditions": [{"type": "Applied", "status": "True"}],
             "statusFeedback": {"values": [
                {"name": "phase", "fieldValue": {"type": "String", "string": "Active"}},
                {"name": "raw", "fieldValue": {"type": "JsonRaw", "jsonRaw": "[1]"}},
             ]}},
            {"resourceMeta": {"ordinal": 1, "kind": "Secret", "name": "old"}, "conditions": []},
        ]}});
        let namespace = nested_by_name(&work, "n", None).unwrap();
        assert_eq!(namespace["status"], json!({"phase": "Active", "raw": [1]}));
        assert_eq!(namespace["conditions"][0]["type"], "Applied");
        let labels = [("a".to_owned(), "b".to_owned())];
        let found = nested_by_labels(&work, &labels, Some("n")).unwrap();
        assert_eq!((found["kind"].as_str(), found.get("conditions")), (Some("ConfigMap"), None));
        assert!(nested_by_labels(&work, &labels, Some("other")).is_none());
    }

    #[test]
    fn reports_of_another_generation_are_removed() {
        let condition = |kind: &str, generation: Value| match generation {
            Value::Null => json!({"type": kind, "status": "True"}),
            generation => json!({"type": kind, "status": "True", "observedGeneration": generation}),
        };
        let all = json!(["Applied", "Available"]);
        for (what, live, of_work, of_manifest, kept, is_reported) in [
            (
                "all of this generation",
                json!(2),
                [json!(2), json!(2)],
                [json!(2), json!(2)],
                all.clone(),
                true,
            ),
            (
                "all of the last generation",
                json!(2),
                [json!(1), json!(1)],
                [json!(1), json!(1)],
                json!([]),
                false,
            ),
            (
                "the work failed, its manifests are as they were",
                json!(2),
                [json!(2), json!(1)],
                [json!(1), json!(1)],
                json!(["Applied"]),
                false,
            ),
            (
                "of a ManifestWork that was created again",
                json!(1),
                [json!(2), json!(2)],
                [json!(2), json!(2)],
                json!([]),
                false,
            ),
            (
                "only the work has a generation, and it is current",
                json!(2),
                [json!(2), json!(2)],
                [json!(null), json!(null)],
                all.clone(),
                true,
            ),
            (
                "only the work has a generation, and it is stale",
                json!(2),
                [json!(1), json!(1)],
                [json!(null), json!(null)],
                json!([]),
                false,
            ),
            (
                "no generation is reported",
                json!(2),
                [json!(null), json!(null)],
                [json!(null), json!(null)],
                all.clone(),
                true,
            ),
            (
                "the work has no generation, as in a dry run",
                json!(null),
                [json!(1), json!(1)],
                [json!(1), json!(1)],
                all,
                true,
            ),
        ] {
            let conditions = |[applied, available]: [Value; 2]| {
                json!([condition("Applied", applied), condition("Available", available)])
            };
            let mut given = work(json!([config_map(Some("3"))]));
            given["metadata"]["generation"] = live;
            given["status"] = json!({"conditions": conditions(of_work), "resourceStatus": {"manifests": [{
                "resourceMeta": {"ordinal": 0, "kind": "ConfigMap", "name": "c"},
                "conditions": conditions(of_manifest),
                "statusFeedback": {"values": [{"name": "phase", "fieldValue": {"type": "String", "string": "Active"}}]},
            }]}});
            let current = without_stale_reports(given);
            let types: Vec<&Value> =
                super::conditions(&current["status"]).map(|condition| &condition["type"]).collect();
            assert_eq!(json!(types), kept, "{what}");
            let nested = nested_by_name(&current, "c", None).unwrap();
            for field in ["conditions", "statusFeedback", "status"] {
                assert_eq!(nested.get(field).is_some(), is_reported, "{what}: {field}");
            }
        }
    }

    #[test]
    fn stale_condition_of_a_current_report_is_removed() {
        let mut given = work(json!([config_map(Some("3"))]));
        given["metadata"]["generation"] = json!(2);
        given["status"] = json!({"resourceStatus": {"manifests": [{
            "resourceMeta": {"ordinal": 0, "kind": "ConfigMap", "name": "c"},
            "conditions": [{"type": "Applied", "observedGeneration": 2}, {"type": "Old", "observedGeneration": 1}],
        }]}});
        let nested = nested_by_name(&without_stale_reports(given), "c", None).unwrap();
        assert_eq!(nested["conditions"], json!([{"type": "Applied", "observedGeneration": 2}]));
    }
}
