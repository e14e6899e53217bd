//! Evaluates the options of a ManifestWork for one object: how it is written and which status values are reported
//! (`manifestConfigs`), and whether it is deleted with the ManifestWork (`deleteOption`).

use bellwether_api::work::{
    DeleteOption, FeedbackRule, ManifestConfig, ResourceIdentifier, UpdateType, WorkPropagation,
};

use super::manifest::ObjectId;

/// The field manager of applied fields, unless a ManifestWork sets another one.
pub(crate) const FIELD_MANAGER: &str = "work-agent";

/// The namespace of the agent in `deploy/agent`.
const AGENT_NAMESPACE: &str = "bellwether-agent";

/// How an object is written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WriteStrategy {
    /// By server-side apply.
    Apply { field_manager: String, force: Force },
    /// It is created if it is missing, and never updated.
    CreateOnly,
    /// It is only read.
    ReadOnly,
    /// The ManifestWork requests a strategy that the agent does not support. The object is not written.
    Unsupported,
}

/// Whether an apply takes over fields of other field managers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Force {
    Yes,
    No,
}

/// What happens to an object when its ManifestWork is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum DeletionPolicy {
    /// It is deleted.
    Delete,
    /// It is kept. The AppliedManifestWork does not own it.
    Orphan,
}

/// The strategy for an object. A config that names the object exactly takes precedence over one with wildcards.
pub(crate) fn write_strategy(configs: &[ManifestConfig], id: &ObjectId) -> WriteStrategy {
    let strategy = configs_for(configs, id).find_map(|config| config.update_strategy.as_ref());
    let Some(strategy) = strategy else { return forced_apply() };
    match strategy.type_ {
        UpdateType::Update => forced_apply(),
        UpdateType::CreateOnly => WriteStrategy::CreateOnly,
        UpdateType::ReadOnly => WriteStrategy::ReadOnly,
        UpdateType::Other => WriteStrategy::Unsupported,
        UpdateType::ServerSideApply => {
            let options = strategy.server_side_apply.clone().unwrap_or_default();
            let is_valid =
                options.field_manager.starts_with(FIELD_MANAGER) && options.field_manager.len() <= 128;
            WriteStrategy::Apply {
                field_manager: if is_valid { options.field_manager } else { FIELD_MANAGER.to_owned() },
                force: if options.force { Force::Yes } else { Force::No },
            }
        }
    }
}

fn forced_apply() -> WriteStrategy {
    WriteStrategy::Apply { field_manager: FIELD_MANAGER.to_owned(), force: Force::Yes }
}

/// The feedback rules of all configs that match an object.
pub(crate) fn feedback_rules<'c>(configs: &'c [ManifestConfig], id: &ObjectId) -> Vec<&'c FeedbackRule> {
    configs_for(configs, id).flat_map(|config| &config.feedback_rules).collect()
}

/// The policy for an object when its ManifestWork is deleted.
pub(crate) fn deletion_policy(option: Option<&DeleteOption>, id: &ObjectId) -> DeletionPolicy {
    if is_protected(id) {
        return DeletionPolicy::Orphan;
    }
    let Some(option) = option else { return DeletionPolicy::Delete };
    match option.propagation_policy {
        WorkPropagation::Foreground => DeletionPolicy::Delete,
        WorkPropagation::Orphan | WorkPropagation::Other => DeletionPolicy::Orphan,
        WorkPropagation::SelectivelyOrphan => {
            let mut rules = option.selectively_orphans.iter().flat_map(|orphans| &orphans.orphaning_rules);
            let is_orphaned = rules.any(|rule| is_match(rule, id));
            if is_orphaned { DeletionPolicy::Orphan } else { DeletionPolicy::Delete }
        }
    }
}

/// Whether a cluster or its agent needs an object to work. A ManifestWork may list such an object, but it is never
/// deleted.
fn is_protected(id: &ObjectId) -> bool {
    match (id.group.as_str(), id.resource.as_str()) {
        ("", "namespaces") => {
            id.name == "default" || id.name.starts_with("kube-") || id.name == AGENT_NAMESPACE
        }
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            id.name.ends_with(".work.open-cluster-management.io")
        }
        _ => false,
    }
}

/// The configs that match an object: first those that name it exactly, then those with wildcards.
fn configs_for<'c>(
    configs: &'c [ManifestConfig],
    id: &ObjectId,
) -> impl Iterator<Item = &'c ManifestConfig> + use<'c> {
    let id = id.clone();
    let exact: Vec<_> =
        configs.iter().filter(|config| is_exact_match(&config.resource_identifier, &id)).collect();
    let by_wildcard = configs.iter().filter(move |config| {
        !is_exact_match(&config.resource_identifier, &id) && is_match(&config.resource_identifier, &id)
    });
    exact.into_iter().chain(by_wildcard)
}

fn is_exact_match(rule: &ResourceIdentifier, id: &ObjectId) -> bool {
    rule.group == id.group
        && rule.resource == id.resource
        && rule.namespace == id.namespace
        && rule.name == id.name
}

fn is_match(rule: &ResourceIdentifier, id: &ObjectId) -> bool {
    matches_pattern(&rule.group, &id.group)
        && matches_pattern(&rule.resource, &id.resource)
        && matches_pattern(&rule.namespace, &id.namespace)
        && matches_pattern(&rule.name, &id.name)
}

/// Whether a text matches a pattern in which `*` stands for any characters.
fn matches_pattern(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        match text.find(part).and_then(|at| text.get(at + part.len()..)) {
            Some(after) => text = after,
            None => return false,
        }
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use bellwether_api::work::ManifestWorkSpec;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn id() -> ObjectId {
        ObjectId {
            group: "apps".into(),
            resource: "deployments".into(),
            namespace: "ns".into(),
            name: "web".into(),
        }
    }

    fn config(name: &str, rest: Value) -> Value {
        let mut config = json!({"resourceIdentifier": {"group": "apps", "resource": "deployments", "namespace": "ns", "name": name}});
        config.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        config
    }

    fn spec(spec: Value) -> ManifestWorkSpec {
        serde_json::from_value(spec).unwrap()
    }

    fn strategy(strategy: Value) -> Value {
        json!({"updateStrategy": strategy})
    }

    fn apply(manager: &str, force: Force) -> WriteStrategy {
        WriteStrategy::Apply { field_manager: manager.into(), force }
    }

    #[test]
    fn protected_objects_are_never_deleted() {
        let of = |group: &str, resource: &str, name: &str| ObjectId {
            group: group.into(),
            resource: resource.into(),
            namespace: String::new(),
            name: name.into(),
        };
        let crd = |name| of("apiextensions.k8s.io", "customresourcedefinitions", name);
        let rows = [
            (of("", "namespaces", "default"), DeletionPolicy::Orphan),
            (of("", "namespaces", "kube-system"), DeletionPolicy::Orphan),
            (of("", "namespaces", "bellwether-agent"), DeletionPolicy::Orphan),
            (of("", "namespaces", "helloworld"), DeletionPolicy::Delete),
            (crd("appliedmanifestworks.work.open-cluster-management.io"), DeletionPolicy::Orphan),
            (crd("widgets.example.com"), DeletionPolicy::Delete),
        ];
        for (id, wanted) in rows {
            assert_eq!(deletion_policy(None, &id), wanted, "{id:?}");
        }
    }

    #[test]
    fn update_strategy_selects_the_write_strategy() {
        let rows = [
            (json!([]), forced_apply()),
            (json!([config("other", strategy(json!({"type": "ReadOnly"})))]), forced_apply()),
            (json!([config("web", strategy(json!({"type": "Update"})))]), forced_apply()),
            (json!([config("web", strategy(json!({"type": "CreateOnly"})))]), WriteStrategy::CreateOnly),
            (json!([config("web", strategy(json!({"type": "ReadOnly"})))]), WriteStrategy::ReadOnly),
            (json!([config("web", strategy(json!({"type": "Sideways"})))]), WriteStrategy::Unsupported),
            (
                json!([config("web", strategy(json!({"type": "ServerSideApply"})))]),
                apply("work-agent", Force::No),
            ),
            (
                json!([config(
                    "web",
                    strategy(json!({"type": "ServerSideApply", "serverSideApply": {"force": true}}))
                )]),
                apply("work-agent", Force::Yes),
            ),
            (
                json!([config(
                    "web",
                    strategy(
                        json!({"type": "ServerSideApply", "serverSideApply": {"fieldManager": "work-agent-x"}})
                    )
                )]),
                apply("work-agent-x", Force::No),
            ),
            (
                json!([
                    config("w*", strategy(json!({"type": "ReadOnly"}))),
                    config("web", strategy(json!({"type": "CreateOnly"})))
                ]),
                WriteStrategy::CreateOnly,
            ),
            (
                json!([
                    config("web", json!({"feedbackRules": [{"type": "WellKnownStatus"}]})),
                    config("*", strategy(json!({"type": "CreateOnly"})))
                ]),
                WriteStrategy::CreateOnly,
            ),
        ];
        for (configs, wanted) in rows {
            let spec = spec(json!({"manifestConfigs": configs}));
            assert_eq!(write_strategy(&spec.manifest_configs, &id()), wanted, "{configs}");
        }
    }

    #[test]
    fn feedback_rules_of_all_matching_configs_apply() {
        let configs = json!([
            config("*", json!({"feedbackRules": [{"type": "JSONPaths"}]})),
            config("web", json!({"feedbackRules": [{"type": "WellKnownStatus"}]})),
            config("db", json!({"feedbackRules": [{"type": "WellKnownStatus"}]})),
        ]);
        let spec = spec(json!({"manifestConfigs": configs}));
        assert_eq!(feedback_rules(&spec.manifest_configs, &id()).len(), 2);
    }

    #[test]
    fn propagation_policy_selects_the_deletion_policy() {
        let selective = |name: &str| {
            json!({"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": {"orphaningRules": [
                {"group": "apps", "resource": "deployments", "namespace": "ns", "name": name},
            ]}})
        };
        let rows = [
            (Value::Null, DeletionPolicy::Delete),
            (json!({"propagationPolicy": "Foreground"}), DeletionPolicy::Delete),
            (json!({"propagationPolicy": "Orphan"}), DeletionPolicy::Orphan),
            (json!({"propagationPolicy": "Perhaps"}), DeletionPolicy::Orphan),
            (json!({"propagationPolicy": "SelectivelyOrphan"}), DeletionPolicy::Delete),
            (selective("web"), DeletionPolicy::Orphan),
            (selective("w*"), DeletionPolicy::Orphan),
            (selective("db"), DeletionPolicy::Delete),
        ];
        for (option, wanted) in rows {
            let spec = spec(json!({"deleteOption": option}));
            assert_eq!(deletion_policy(spec.delete_option.as_ref(), &id()), wanted, "{option}");
        }
    }

    #[test]
    fn asterisk_matches_any_characters() {
        let rows = [
            ("web", "web", true),
            ("web", "web2", false),
            ("*", "", true),
            ("*", "web", true),
            ("w*", "web", true),
            ("*b", "web", true),
            ("w*b", "web", true),
            ("w*w*b", "web", false),
            ("we*eb", "web", false),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "ac", false),
            ("", "web", false),
        ];
        for (pattern, text, wanted) in rows {
            assert_eq!(matches_pattern(pattern, text), wanted, "{pattern} {text}");
        }
    }

    proptest! {
        #[test]
        fn pattern_matches_a_text_with_its_asterisks_filled(parts in proptest::collection::vec("[a-c]{0,3}", 1..5), filling in "[a-c]{0,3}") {
            prop_assert!(matches_pattern(&parts.join("*"), &parts.join(&filling)));
        }
    }
}
