//! Tests that an invalid placement keeps its decisions.

use super::*;

#[test]
fn invalid_spec_is_rejected_with_message() {
    let predicate = |selector: Value| json!({"predicates": [{"requiredClusterSelector": selector}]});
    let expression = |operator: &str, values: Value| json!({"matchExpressions": [{"key": "env", "operator": operator, "values": values}]});
    let toleration = |toleration: Value| json!({"tolerations": [toleration]});
    let policy = |mode: &str, coordinate: Value, weight: i32| json!({"prioritizerPolicy": {"mode": mode, "configurations": [{"scoreCoordinate": coordinate, "weight": weight}]}});
    let built_in = |name: &str| json!({"type": "BuiltIn", "builtIn": name});
    let add_on = json!({"type": "AddOn", "addOn": {"resourceName": "r", "scoreName": "s"}});
    let size =
        |size: Value| json!({"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": size}}});
    let group = json!({"decisionStrategy": {"groupStrategy": {"decisionGroups": [
        {"groupName": "canary", "groupClusterSelector": {"labelSelector": expression("Near", json!(["x"]))}},
    ]}}});
    let rows = [
        (
            predicate(json!({"celSelector": {"celExpressions": ["true"]}})),
            "a predicate has a celSelector; expressions are not evaluated",
        ),
        (
            predicate(json!({"labelSelector": expression("Near", json!(["x"]))})),
            "a predicate: env has the operator \"Near\", which is not known: In, NotIn, Exists and DoesNotExist are",
        ),
        (
            predicate(json!({"labelSelector": expression("NotIn", json!([]))})),
            "a predicate: env with the operator NotIn needs values",
        ),
        (
            predicate(json!({"claimSelector": expression("Exists", json!(["x"]))})),
            "a predicate: env with the operator Exists takes no values",
        ),
        (
            group,
            "a decision group: env has the operator \"Near\", which is not known: In, NotIn, Exists and DoesNotExist are",
        ),
        (toleration(json!({"operator": "Equal"})), "a toleration without a key needs the operator Exists"),
        (
            toleration(json!({"key": "gpu", "operator": "Exists", "value": "a"})),
            "the toleration of gpu has the operator Exists and a value; it takes none",
        ),
        (
            toleration(json!({"key": "gpu", "operator": "Near"})),
            "the toleration of gpu has an operator that is not known: Equal and Exists are",
        ),
        (
            toleration(json!({"operator": "Exists", "effect": "Near"})),
            "the toleration of every taint has an effect that is not known: NoSelect, PreferNoSelect and NoSelectIfNew are",
        ),
        (
            policy("Mostly", built_in("Steady"), 1),
            "the mode of .spec.prioritizerPolicy is not known: Additive and Exact are",
        ),
        (
            policy("Exact", add_on, 1),
            "clusters cannot be compared by scores of add-ons (type AddOn); BuiltIn is what there is",
        ),
        (
            policy("Exact", built_in("Luck"), 1),
            "clusters cannot be compared by \"Luck\": Balance, Steady, ResourceAllocatableCPU and ResourceAllocatableMemory are known",
        ),
        (policy("Exact", built_in("Balance"), 11), "the weight 11 is not between -10 and 10"),
        (
            policy("Additive", built_in("Steady"), -1),
            "Steady has the weight -1: preferring clusters that are not selected would never settle",
        ),
        (json!({"numberOfClusters": -1}), "numberOfClusters is -1, but must be ≥ 0"),
        (
            size(json!(0)),
            "clustersPerDecisionGroup is 0: a number above 0 or a percentage from 1% to 100% is needed",
        ),
        (
            size(json!("0%")),
            "clustersPerDecisionGroup is 0%: a number above 0 or a percentage from 1% to 100% is needed",
        ),
        (
            size(json!("101%")),
            "clustersPerDecisionGroup is 101%: a number above 0 or a percentage from 1% to 100% is needed",
        ),
        (
            size(json!("many")),
            "clustersPerDecisionGroup is many: a number above 0 or a percentage from 1% to 100% is needed",
        ),
    ];
    for (spec, problem) in rows {
        let PlacementResult::Keep(conditions) =
            Fleet::new(&["a"], spec.clone()).chosen(&["a"]).decide_fleet()
        else {
            panic!("clusters were selected: {spec}")
        };
        assert_eq!(
            describe_condition(&conditions, MISCONFIGURED),
            format!("True Misconfigured: The placement is invalid: {problem}.")
        );
        assert_eq!(
            describe_condition(&conditions, SATISFIED),
            format!(
                "False NotAllDecisionsScheduled: The placement is invalid: {problem}. Until it is fixed, the previous \
                 selection stays: 1 cluster."
            )
        );
    }
}

#[test]
fn name_longer_than_label_is_rejected() {
    let name = |length: usize| {
        Fleet::new(&["a"], json!({}))
            .with(|fleet| fleet.placement["metadata"]["name"] = json!("p".repeat(length)))
    };
    assert!(matches!(name(64).decide_fleet(), PlacementResult::Keep(_)));
    assert!(matches!(name(63).decide_fleet(), PlacementResult::Select(_)));
}

#[test]
fn placement_with_disabled_scheduling_is_ignored() {
    let annotated = |value: &str| {
        Fleet::new(&["a"], json!({})).with(|fleet| {
            fleet.placement["metadata"]["annotations"] =
                json!({"cluster.open-cluster-management.io/experimental-scheduling-disable": value});
        })
    };
    assert!(
        matches!(annotated("true").decide_fleet(), PlacementResult::Keep(conditions) if conditions.is_empty())
    );
    assert_eq!(annotated("false").names(), ["a"]);
}
