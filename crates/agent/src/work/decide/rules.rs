//! What a work says of one of its objects: how it is written, what is reported of it, and whether it stays when the
//! work goes.

use bellwether_api::work::{
    DeleteOption, FeedbackRule, ManifestConfig, ResourceIdentifier, UpdateType, WorkPropagation,
};

use super::manifest::ObjectId;

/// Who owns the fields that are applied, where a work does not say.
pub(crate) const MANAGER: &str = "work-agent";

/// Where `deploy/agent` has the agent.
const AGENT_NAMESPACE: &str = "bellwether-agent";

/// How an object is written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Treatment {
    /// It is made as it is said.
    Apply { manager: String, force: Force },
    /// It is made where it is missing, and then left alone.
    Create,
    /// It is looked at.
    Read,
    /// Nobody knows: it is not written.
    Unknown,
}

/// Whether fields of others are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Force {
    Yes,
    No,
}

/// What becomes of an object when its work is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fate {
    /// It goes too.
    Goes,
    /// It stays, and belongs to nobody.
    Stays,
}

/// How an object is written: what names it exactly counts before what names several.
pub(crate) fn treatment(configs: &[ManifestConfig], id: &ObjectId) -> Treatment {
    let strategy = matching(configs, id).find_map(|config| config.update_strategy.as_ref());
    let Some(strategy) = strategy else { return forced() };
    match strategy.type_ {
        UpdateType::Update => forced(),
        UpdateType::CreateOnly => Treatment::Create,
        UpdateType::ReadOnly => Treatment::Read,
        UpdateType::Other => Treatment::Unknown,
        UpdateType::ServerSideApply => {
            let asked = strategy.server_side_apply.clone().unwrap_or_default();
            let fits = asked.field_manager.starts_with(MANAGER) && asked.field_manager.len() <= 128;
            Treatment::Apply {
                manager: if fits { asked.field_manager } else { MANAGER.to_owned() },
                force: if asked.force { Force::Yes } else { Force::No },
            }
        }
    }
}

fn forced() -> Treatment {
    Treatment::Apply { manager: MANAGER.to_owned(), force: Force::Yes }
}

/// What is reported of an object.
pub(crate) fn feedback<'c>(configs: &'c [ManifestConfig], id: &ObjectId) -> Vec<&'c FeedbackRule> {
    matching(configs, id).flat_map(|config| &config.feedback_rules).collect()
}

/// What becomes of an object when its work is deleted.
pub(crate) fn fate(option: Option<&DeleteOption>, id: &ObjectId) -> Fate {
    if is_vital(id) {
        return Fate::Stays;
    }
    let Some(option) = option else { return Fate::Goes };
    match option.propagation_policy {
        WorkPropagation::Foreground => Fate::Goes,
        WorkPropagation::Orphan | WorkPropagation::Other => Fate::Stays,
        WorkPropagation::SelectivelyOrphan => {
            let mut rules = option.selectively_orphans.iter().flat_map(|orphans| &orphans.orphaning_rules);
            if rules.any(|rule| names(rule, id)) { Fate::Stays } else { Fate::Goes }
        }
    }
}

/// Whether a cluster, or its agent, cannot do without an object: a work may name it, and never takes it away.
fn is_vital(id: &ObjectId) -> bool {
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

fn matching<'c>(
    configs: &'c [ManifestConfig],
    id: &ObjectId,
) -> impl Iterator<Item = &'c ManifestConfig> + use<'c> {
    let id = id.clone();
    let exact: Vec<_> = configs.iter().filter(|config| is(&config.resource_identifier, &id)).collect();
    let wide = configs.iter().filter(move |config| {
        !is(&config.resource_identifier, &id) && names(&config.resource_identifier, &id)
    });
    exact.into_iter().chain(wide)
}

fn is(rule: &ResourceIdentifier, id: &ObjectId) -> bool {
    rule.group == id.group
        && rule.resource == id.resource
        && rule.namespace == id.namespace
        && rule.name == id.name
}

fn names(rule: &ResourceIdentifier, id: &ObjectId) -> bool {
    fits(&rule.group, &id.group)
        && fits(&rule.resource, &id.resource)
        && fits(&rule.namespace, &id.namespace)
        && fits(&rule.name, &id.name)
}

/// Whether a text is as a pattern says, in which `*` stands for anything.
fn fits(pattern: &str, text: &str) -> bool {
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

    fn apply(manager: &str, force: Force) -> Treatment {
        Treatment::Apply { manager: manager.into(), force }
    }

    #[test]
    fn what_a_cluster_cannot_do_without_stays() {
        let of = |group: &str, resource: &str, name: &str| ObjectId {
            group: group.into(),
            resource: resource.into(),
            namespace: String::new(),
            name: name.into(),
        };
        let definition = |name| of("apiextensions.k8s.io", "customresourcedefinitions", name);
        let rows = [
            (of("", "namespaces", "default"), Fate::Stays),
            (of("", "namespaces", "kube-system"), Fate::Stays),
            (of("", "namespaces", "bellwether-agent"), Fate::Stays),
            (of("", "namespaces", "helloworld"), Fate::Goes),
            (definition("appliedmanifestworks.work.open-cluster-management.io"), Fate::Stays),
            (definition("widgets.example.com"), Fate::Goes),
        ];
        for (id, wanted) in rows {
            assert_eq!(fate(None, &id), wanted, "{id:?}");
        }
    }

    #[test]
    fn a_strategy_says_how_an_object_is_written() {
        let rows = [
            (json!([]), forced()),
            (json!([config("other", strategy(json!({"type": "ReadOnly"})))]), forced()),
            (json!([config("web", strategy(json!({"type": "Update"})))]), forced()),
            (json!([config("web", strategy(json!({"type": "CreateOnly"})))]), Treatment::Create),
            (json!([config("web", strategy(json!({"type": "ReadOnly"})))]), Treatment::Read),
            (json!([config("web", strategy(json!({"type": "Sideways"})))]), Treatment::Unknown),
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
                Treatment::Create,
            ),
            (
                json!([
                    config("web", json!({"feedbackRules": [{"type": "WellKnownStatus"}]})),
                    config("*", strategy(json!({"type": "CreateOnly"})))
                ]),
                Treatment::Create,
            ),
        ];
        for (configs, wanted) in rows {
            let spec = spec(json!({"manifestConfigs": configs}));
            assert_eq!(treatment(&spec.manifest_configs, &id()), wanted, "{configs}");
        }
    }

    #[test]
    fn feedback_is_asked_for_by_all_rules_that_name_an_object() {
        let configs = json!([
            config("*", json!({"feedbackRules": [{"type": "JSONPaths"}]})),
            config("web", json!({"feedbackRules": [{"type": "WellKnownStatus"}]})),
            config("db", json!({"feedbackRules": [{"type": "WellKnownStatus"}]})),
        ]);
        let spec = spec(json!({"manifestConfigs": configs}));
        assert_eq!(feedback(&spec.manifest_configs, &id()).len(), 2);
    }

    #[test]
    fn a_deletion_takes_along_what_is_not_to_stay() {
        let selective = |name: &str| {
            json!({"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": {"orphaningRules": [
                {"group": "apps", "resource": "deployments", "namespace": "ns", "name": name},
            ]}})
        };
        let rows = [
            (Value::Null, Fate::Goes),
            (json!({"propagationPolicy": "Foreground"}), Fate::Goes),
            (json!({"propagationPolicy": "Orphan"}), Fate::Stays),
            (json!({"propagationPolicy": "Perhaps"}), Fate::Stays),
            (json!({"propagationPolicy": "SelectivelyOrphan"}), Fate::Goes),
            (selective("web"), Fate::Stays),
            (selective("w*"), Fate::Stays),
            (selective("db"), Fate::Goes),
        ];
        for (option, wanted) in rows {
            let spec = spec(json!({"deleteOption": option}));
            assert_eq!(fate(spec.delete_option.as_ref(), &id()), wanted, "{option}");
        }
    }

    #[test]
    fn a_star_stands_for_anything() {
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
            assert_eq!(fits(pattern, text), wanted, "{pattern} {text}");
        }
    }

    proptest! {
        #[test]
        fn a_pattern_made_from_a_text_fits_it(parts in proptest::collection::vec("[a-c]{0,3}", 1..5), filling in "[a-c]{0,3}") {
            prop_assert!(fits(&parts.join("*"), &parts.join(&filling)));
        }
    }
}
