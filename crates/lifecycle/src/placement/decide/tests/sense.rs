//! What makes no sense chooses nothing anew, and what was chosen stays.

use super::*;

#[test]
fn what_is_not_understood_is_refused_in_words() {
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
            "Steady has the weight -1: to prefer those that are not chosen would never come to rest",
        ),
        (json!({"numberOfClusters": -1}), "numberOfClusters is -1, which is less than none"),
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
    for (spec, words) in rows {
        let Answer::Keep(conditions) = Fleet::new(&["a"], spec.clone()).chosen(&["a"]).ask() else {
            panic!("something was chosen: {spec}")
        };
        assert_eq!(
            said(&conditions, MISCONFIGURED),
            format!("True Misconfigured: The placement makes no sense: {words}.")
        );
        assert_eq!(
            said(&conditions, SATISFIED),
            format!(
                "False NotAllDecisionsScheduled: The placement makes no sense: {words}. Until it does, what was chosen \
                 before stays so: 1 cluster."
            )
        );
    }
}

#[test]
fn a_name_that_cannot_be_a_label_is_refused() {
    let name = |length: usize| {
        Fleet::new(&["a"], json!({}))
            .with(|fleet| fleet.placement["metadata"]["name"] = json!("p".repeat(length)))
    };
    assert!(matches!(name(64).ask(), Answer::Keep(_)));
    assert!(matches!(name(63).ask(), Answer::Choose(_)));
}

#[test]
fn a_placement_that_is_not_to_be_scheduled_is_left_alone() {
    let annotated = |value: &str| {
        Fleet::new(&["a"], json!({})).with(|fleet| {
            fleet.placement["metadata"]["annotations"] =
                json!({"cluster.open-cluster-management.io/experimental-scheduling-disable": value});
        })
    };
    assert!(matches!(annotated("true").ask(), Answer::Keep(conditions) if conditions.is_empty()));
    assert_eq!(annotated("false").names(), ["a"]);
}
