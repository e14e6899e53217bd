//! What is made, and what is set right on what is there.

use super::*;

#[test]
fn a_new_instance_has_a_period_and_an_owner() {
    let mut world = settled();
    world.spec()["commonLabels"] = json!({"l": "1"});
    world.namespaces[0]["labels"] = json!({"l": "1"});
    world.instance = None;
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
    assert_eq!(world.plan().body(), &expected);
}

#[test]
fn a_period_is_set_only_where_it_makes_no_sense() {
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
    for (period, set) in rows {
        let mut world = settled();
        world.instance()["spec"]["heartbeatUpdatePeriod"] = period.clone();
        let plan = world.plan();
        assert_eq!(!plan.steps.is_empty(), set, "{period}");
        if set {
            let expected =
                json!({"metadata": {"resourceVersion": "6"}, "spec": {"heartbeatUpdatePeriod": "10s"}});
            assert_eq!(plan.body(), &expected, "{period}");
        }
    }
}

#[test]
fn an_instance_is_taken_over_unless_another_has_it() {
    let rows: [(&str, Value, Option<&[&str]>); 5] = [
        ("it is ours", json!([owner("u", true)]), None),
        ("it is nobody's", json!([]), Some(&["u"])),
        ("it is ours, but not to decide on", json!([owner("u", false)]), Some(&["u"])),
        ("somebody holds it who does not decide", json!([owner("x", false)]), Some(&["x", "u"])),
        ("another decides", json!([owner("x", true), owner("u", false)]), None),
    ];
    for (name, owners, wanted) in rows {
        let mut world = settled();
        world.instance()["metadata"]["ownerReferences"] = owners;
        let plan = world.plan();
        let Some(wanted) = wanted else {
            assert_eq!(plan.steps(), [""; 0], "{name}");
            continue;
        };
        let found = plan.body()["metadata"]["ownerReferences"].as_array().unwrap();
        let uids: Vec<&str> = found.iter().map(|owner| owner["uid"].as_str().unwrap()).collect();
        assert_eq!(uids, wanted, "{name}");
        assert_eq!(found.last().unwrap()["controller"], true, "{name}");
    }
}

#[test]
fn a_namespace_is_owned_only_where_it_was_made_for_addons() {
    let other = json!({"apiVersion": "v1", "kind": "Addon", "name": "x", "uid": "x"});
    let rows: [(&str, Value, Option<&[&str]>); 6] = [
        ("it is ours", json!([owner("u", true)]), None),
        ("it is ours too", json!([owner("x", true), owner("u", false)]), None),
        ("it is another Addon's", json!([owner("x", true)]), Some(&["x", "u"])),
        ("it was that of an Addon of our name", json!([owner("before", true)]), Some(&["before", "u"])),
        ("it was there before", json!([]), None),
        ("it is of another kind of that name", json!([other]), None),
    ];
    for (name, owners, wanted) in rows {
        let mut world = settled();
        world.namespaces[0]["ownerReferences"] = owners;
        let plan = world.plan();
        let Some(wanted) = wanted else {
            assert_eq!(plan.steps(), [""; 0], "{name}");
            continue;
        };
        assert_eq!(plan.body()["metadata"]["resourceVersion"], "5", "{name}");
        let found = plan.body()["metadata"]["ownerReferences"].as_array().unwrap();
        let uids: Vec<&str> = found.iter().map(|owner| owner["uid"].as_str().unwrap()).collect();
        assert_eq!(uids, wanted, "{name}");
        assert_eq!(found.last().unwrap()["controller"], false, "{name}");
    }
}

#[test]
fn labels_are_set_right_by_the_one_who_decides_and_added_by_others() {
    let both = json!({"same": "1", "other": "1", "missing": "1"});
    let rows: [(&str, Value, Value); 3] = [
        ("ours", json!([owner("u", true)]), json!({"other": "1", "missing": "1"})),
        ("shared", json!([owner("x", true), owner("u", false)]), json!({"missing": "1"})),
        ("there before", json!([]), json!({"missing": "1"})),
    ];
    for (name, owners, patched) in rows {
        for field in ["labels", "annotations"] {
            let mut world = settled();
            world.spec()["namespaces"] = json!([{"name": "ns", field: both}]);
            world.namespaces[0]["ownerReferences"] = owners.clone();
            world.namespaces[0][field] = json!({"same": "1", "other": "2", "theirs": "1"});
            let expected = json!({"metadata": {"resourceVersion": "5", field: patched}});
            assert_eq!(world.plan().body(), &expected, "{name}, {field}");
        }
    }
}

#[test]
fn a_namespace_listed_twice_is_made_once() {
    let mut world = settled();
    let listed =
        json!([{"name": "ns", "labels": {"a": "1"}}, {"name": "ns", "labels": {"b": "1"}}, {"name": ""}]);
    world.spec()["namespaces"] = listed;
    world.namespaces.clear();
    world.instance = None;
    let plan = world.plan();
    assert_eq!(plan.steps(), ["create namespace ns"]);
    assert_eq!(plan.body()["metadata"]["labels"], json!({"a": "1", "b": "1"}));
}
