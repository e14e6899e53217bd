//! Creation and repair of instances and namespaces.

use super::*;

#[test]
fn new_instance_has_a_period_and_an_owner() {
    let mut fixture = ready_addon();
    fixture.spec()["commonLabels"] = json!({"l": "1"});
    fixture.namespaces[0]["labels"] = json!({"l": "1"});
    fixture.instance = None;
    let expected = json!({
        "apiVersion": "addons.managed.openshift.io/v1alpha1", "kind": "AddonInstance",
        "metadata": {
            "name": "addon-instance", "namespace": "ns", "labels": {"l": "1"}, "annotations": {},
            "ownerReferences": [{
                "apiVersion": "addons.managed.openshift.io/v1alpha1", "kind": "Addon", "name": "a", "uid": "u",
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {"heartbeatUpdatePeriod": "10s"},
    });
    assert_eq!(fixture.plan().body(), &expected);
}

#[test]
fn only_an_invalid_period_is_replaced() {
    let rows: [(Value, bool); 9] = [
        (json!("10s"), false),
        (json!("1h"), false),
        (json!("1ms"), false),
        (json!("0s"), true),
        (json!("-5s"), true),
        (json!("banana"), true),
        (json!(""), true),
        (Value::Null, true),
        (json!(10), true),
    ];
    for (period, is_replaced) in rows {
        let mut fixture = ready_addon();
        fixture.instance()["spec"]["heartbeatUpdatePeriod"] = period.clone();
        let plan = fixture.plan();
        assert_eq!(!plan.steps.is_empty(), is_replaced, "{period}");
        if is_replaced {
            let expected =
                json!({"metadata": {"resourceVersion": "6"}, "spec": {"heartbeatUpdatePeriod": "10s"}});
            assert_eq!(plan.body(), &expected, "{period}");
        }
    }
}

#[test]
fn instance_is_adopted_unless_it_has_another_controller() {
    let rows: [(&str, Value, Option<&[&str]>); 5] = [
        ("owned by this Addon", json!([owner("u", true)]), None),
        ("no owner", json!([]), Some(&["u"])),
        ("owned by this Addon, but not as controller", json!([owner("u", false)]), Some(&["u"])),
        ("another owner that is not the controller", json!([owner("x", false)]), Some(&["x", "u"])),
        ("another controller", json!([owner("x", true), owner("u", false)]), None),
    ];
    for (name, owners, expected) in rows {
        let mut fixture = ready_addon();
        fixture.instance()["metadata"]["ownerReferences"] = owners;
        let plan = fixture.plan();
        let Some(expected) = expected else {
            assert_eq!(plan.steps(), [""; 0], "{name}");
            continue;
        };
        let found = plan.body()["metadata"]["ownerReferences"].as_array().unwrap();
        let uids: Vec<&str> = found.iter().map(|owner| owner["uid"].as_str().unwrap()).collect();
        assert_eq!(uids, expected, "{name}");
        assert_eq!(found.last().unwrap()["controller"], true, "{name}");
    }
}

#[test]
fn only_namespaces_created_for_addons_get_owner_references() {
    let other = json!({"apiVersion": "v1", "kind": "Addon", "name": "x", "uid": "x"});
    let rows: [(&str, Value, Option<&[&str]>); 6] = [
        ("owned by this Addon", json!([owner("u", true)]), None),
        ("owned by two Addons", json!([owner("x", true), owner("u", false)]), None),
        ("owned by another Addon", json!([owner("x", true)]), Some(&["x", "u"])),
        ("owned by a deleted Addon of the same name", json!([owner("before", true)]), Some(&["before", "u"])),
        ("no owner: it existed before", json!([]), None),
        ("owned by another kind named Addon", json!([other]), None),
    ];
    for (name, owners, expected) in rows {
        let mut fixture = ready_addon();
        fixture.namespaces[0]["ownerReferences"] = owners;
        let plan = fixture.plan();
        let Some(expected) = expected else {
            assert_eq!(plan.steps(), [""; 0], "{name}");
            continue;
        };
        assert_eq!(plan.body()["metadata"]["resourceVersion"], "5", "{name}");
        let found = plan.body()["metadata"]["ownerReferences"].as_array().unwrap();
        let uids: Vec<&str> = found.iter().map(|owner| owner["uid"].as_str().unwrap()).collect();
        assert_eq!(uids, expected, "{name}");
        assert_eq!(found.last().unwrap()["controller"], false, "{name}");
    }
}

#[test]
fn only_the_controlling_addon_overwrites_labels() {
    let both = json!({"same": "1", "other": "1", "missing": "1"});
    let rows: [(&str, Value, Value); 3] = [
        ("controlled by this Addon", json!([owner("u", true)]), json!({"other": "1", "missing": "1"})),
        (
            "shared with the controlling Addon",
            json!([owner("x", true), owner("u", false)]),
            json!({"missing": "1"}),
        ),
        ("existed before", json!([]), json!({"missing": "1"})),
    ];
    for (name, owners, patched) in rows {
        for field in ["labels", "annotations"] {
            let mut fixture = ready_addon();
            fixture.spec()["namespaces"] = json!([{"name": "ns", field: both}]);
            fixture.namespaces[0]["ownerReferences"] = owners.clone();
            fixture.namespaces[0][field] = json!({"same": "1", "other": "2", "foreign": "1"});
            let expected = json!({"metadata": {"resourceVersion": "5", field: patched}});
            assert_eq!(fixture.plan().body(), &expected, "{name}, {field}");
        }
    }
}

#[test]
fn namespace_listed_twice_is_created_once() {
    let mut fixture = ready_addon();
    let listed =
        json!([{"name": "ns", "labels": {"a": "1"}}, {"name": "ns", "labels": {"b": "1"}}, {"name": ""}]);
    fixture.spec()["namespaces"] = listed;
    fixture.namespaces.clear();
    fixture.instance = None;
    let plan = fixture.plan();
    assert_eq!(plan.steps(), ["create namespace ns"]);
    assert_eq!(plan.body()["metadata"]["labels"], json!({"a": "1", "b": "1"}));
}
