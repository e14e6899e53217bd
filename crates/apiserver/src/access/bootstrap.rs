//! The roles that every logical cluster has from its start, and who has them: Kubernetes' own (`data/roles.json`), and
//! that of the administrators.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::aggregation::{aggregated, is_aggregated};
use crate::identity::ADMINS;
use crate::object::{Meta, Object, list};

/// Roles that a newer server may complete; people switch it off to keep theirs.
const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// A role or binding, and the resource it is of.
pub(crate) struct First {
    pub(crate) plural: &'static str,
    pub(crate) object: Object,
}

/// All of them, roles before bindings.
pub(crate) static FIRST: LazyLock<Vec<First>> = LazyLock::new(|| {
    // The data is part of the binary, and a test reads it.
    let mut objects: Vec<Object> =
        serde_json::from_str(include_str!("../../data/roles.json")).unwrap_or_default();
    objects.extend(admins());
    let roles: Vec<Object> = objects.iter().filter(|object| is_role(object)).cloned().collect();
    // What a controller would fill in a moment later is there from the start. Roles are made of roles that may
    // themselves be made of others: as often as there are levels.
    let mut filled = roles;
    for _ in 0..3 {
        let before = filled.clone();
        for role in filled.iter_mut().filter(|role| is_aggregated(role)) {
            role.insert("rules".into(), aggregated(role, &before).into());
        }
    }
    let bindings = objects.into_iter().filter(|object| !is_role(object));
    filled.into_iter().chain(bindings).map(first).collect()
});

fn is_role(object: &Object) -> bool {
    object.get("kind").and_then(Value::as_str) == Some("ClusterRole")
}

fn first(object: Object) -> First {
    First { plural: if is_role(&object) { "clusterroles" } else { "clusterrolebindings" }, object }
}

fn admins() -> Option<Object> {
    let binding = json!({
        "kind": "ClusterRoleBinding",
        "apiVersion": format!("{}/v1", super::GROUP),
        "metadata": {"name": ADMINS, "annotations": {AUTO_UPDATE: "true"}},
        "roleRef": {"apiGroup": super::GROUP, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": super::GROUP, "kind": "Group", "name": ADMINS}],
    });
    binding.as_object().cloned()
}

/// A stored role or binding with everything that it should have from the start; nothing, if it has it.
pub(crate) fn completed(stored: &Object, first: &Object) -> Option<Object> {
    let annotations = stored.meta().and_then(|meta| meta.get("annotations"));
    let updates = annotations.and_then(|map| map.get(AUTO_UPDATE)).and_then(Value::as_str) == Some("true");
    if !updates || is_aggregated(stored) {
        return None;
    }
    let mut completed = stored.clone();
    for key in ["rules", "subjects"] {
        let missing = list(first, key).iter().filter(|item| !list(stored, key).contains(item));
        let all: Vec<Value> = list(stored, key).iter().chain(missing).cloned().collect();
        if !all.is_empty() {
            completed.insert(key.into(), all.into());
        }
    }
    (completed != *stored).then_some(completed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, plural: &str) -> &'static Object {
        let of = |first: &&First| first.object.name() == name && first.plural == plural;
        &FIRST.iter().find(of).unwrap_or_else(|| panic!("no {plural} {name}")).object
    }

    #[test]
    fn the_roles_are_there_and_the_aggregated_ones_are_filled() {
        for name in ["cluster-admin", "admin", "edit", "view", "system:discovery", "system:basic-user"] {
            assert!(!list(found(name, "clusterroles"), "rules").is_empty(), "{name}");
        }
        let count = |name: &str| list(found(name, "clusterroles"), "rules").len();
        assert!(count("admin") > count("edit") && count("edit") > count("view"));
        found(ADMINS, "clusterrolebindings");
    }

    #[test]
    fn what_somebody_took_away_comes_back_unless_they_said_to_leave_it() {
        let role = found("system:discovery", "clusterroles").clone();
        let mut emptied = role.clone();
        emptied.insert("rules".into(), json!([]));
        assert_eq!(completed(&role, &role), None);
        assert_eq!(completed(&emptied, &role), Some(role.clone()));
        emptied.meta_mut().insert("annotations".into(), json!({AUTO_UPDATE: "false"}));
        assert_eq!(completed(&emptied, &role), None);
    }
}
