//! Tests which clusters are selected, in which groups, and the conditions.

use super::*;

#[test]
fn clusters_of_bound_sets_are_selected() {
    let fleet = || Fleet::new(&["a", "b", "c"], json!({}));
    let west = || {
        fleet()
            .label("b", "cluster.open-cluster-management.io/clusterset", "west")
            .with(|fleet| fleet.sets.push(json!({"metadata": {"name": "west"}})))
    };
    let both = || west().with(|fleet| fleet.bindings.push(binding("ns", "west")));
    let named =
        |set: &str, fleet: Fleet| fleet.with(|fleet| fleet.placement["spec"]["clusterSets"] = json!([set]));
    let all_labels = json!({"metadata": {"name": "east"}, "spec": {"clusterSelector": {
        "selectorType": "LabelSelector", "labelSelector": {},
    }}});
    let rows = [
        ("all of one set", fleet(), "abc"),
        ("not those of a set that is not bound", west(), "ac"),
        ("those of both", both(), "abc"),
        ("those of the one that is named", named("west", both()), "b"),
        (
            "not those that are bound elsewhere",
            west().with(|fleet| fleet.bindings.push(binding("other", "west"))),
            "ac",
        ),
        ("by any labels", west().with(|fleet| fleet.sets[0] = all_labels), "abc"),
        (
            "not one that goes",
            fleet().cluster("a", |cluster| {
                cluster["metadata"]["deletionTimestamp"] = json!("2024-05-01T10:00:00Z")
            }),
            "bc",
        ),
    ];
    for (case, fleet, wanted) in rows {
        assert_eq!(fleet.names().concat(), wanted, "{case}");
    }
}

#[test]
fn cluster_must_match_all_terms_of_any_predicate() {
    let label = |key: &str, value: &str| json!({"labelSelector": {"matchLabels": {key: value}}});
    let claim = |operator: &str, values: Value| json!({"claimSelector": {"matchExpressions": [{"key": "version", "operator": operator, "values": values}]}});
    let merged = |mut one: Value, other: Value| {
        one.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
        one
    };
    let rows = [
        ("none", vec![], "abc"),
        ("an empty one", vec![json!({})], "abc"),
        ("a label", vec![label("env", "prod")], "ab"),
        ("a claim", vec![claim("In", json!(["1.30"]))], "bc"),
        ("a claim that is not there", vec![claim("DoesNotExist", Value::Null)], "a"),
        ("both", vec![merged(label("env", "prod"), claim("Exists", Value::Null))], "b"),
        ("one or the other", vec![label("zone", "1"), claim("In", json!(["1.30"]))], "abc"),
        ("nobody", vec![label("env", "none")], ""),
        ("no expressions are none", vec![json!({"celSelector": {"celExpressions": []}})], "abc"),
    ];
    for (case, predicates, wanted) in rows {
        let predicates: Vec<Value> =
            predicates.into_iter().map(|selector| json!({"requiredClusterSelector": selector})).collect();
        let claims = |cluster: &mut Value| {
            cluster["status"]["clusterClaims"] = json!([{"name": "version", "value": "1.30"}]);
        };
        let fleet = Fleet::new(&["a", "b", "c"], json!({"predicates": predicates}))
            .label("a", "env", "prod")
            .label("a", "zone", "1")
            .label("b", "env", "prod")
            .cluster("b", claims)
            .cluster("c", claims);
        assert_eq!(fleet.names().concat(), wanted, "{case}");
    }
}

#[test]
fn requested_number_is_selected_by_score() {
    let want = |count: u32| Fleet::new(&["a", "b", "c", "d"], json!({"numberOfClusters": count}));
    let exact = |count: u32, name: &str, weight: i32| {
        let coordinate = json!({"type": "BuiltIn", "builtIn": name});
        let policy =
            json!({"mode": "Exact", "configurations": [{"scoreCoordinate": coordinate, "weight": weight}]});
        Fleet::new(&["a", "b", "c", "d"], json!({"numberOfClusters": count, "prioritizerPolicy": policy}))
    };
    let sized = |fleet: Fleet| {
        fleet
            .cluster("c", |cluster| cluster["status"]["allocatable"] = json!({"memory": "8Gi"}))
            .cluster("d", |cluster| cluster["status"]["allocatable"] = json!({"memory": "900Mi"}))
    };
    let elsewhere = |fleet: Fleet| {
        fleet.with(|fleet| fleet.others = vec![decision("q", &["a", "b"]), decision("r", &["a"])])
    };
    let rows = [
        ("more than there are", want(9), "abcd"),
        ("by name where nothing else counts", want(2), "ab"),
        ("those that are chosen stay", want(2).chosen(&["c", "d"]), "cd"),
        ("those that others have not chosen come first", elsewhere(want(2)), "cd"),
        ("to be chosen already is worth as much as that", elsewhere(want(2)).chosen(&["b"]), "bc"),
        ("own decisions are not others'", elsewhere(want(1)).chosen(&["d"]), "d"),
        ("much memory", sized(exact(1, "ResourceAllocatableMemory", 1)), "c"),
        ("little memory", sized(exact(1, "ResourceAllocatableMemory", -1)), "d"),
        ("only what is describe_condition counts", exact(1, "Balance", 1).chosen(&["d"]), "a"),
        ("those to be avoided come last", want(3).taint("a", "PreferNoSelect"), "bcd"),
        ("and yet come", want(4).taint("a", "PreferNoSelect"), "abcd"),
        ("also where they are chosen", want(3).chosen(&["a", "b", "c"]).taint("a", "PreferNoSelect"), "bcd"),
        ("none", want(0), ""),
    ];
    for (case, fleet, wanted) in rows {
        assert_eq!(fleet.names().concat(), wanted, "{case}");
    }
}

#[test]
fn tainted_clusters_are_excluded_unless_tolerated() {
    let fleet = |spec: Value| Fleet::new(&["a", "b"], spec);
    let tolerating = |seconds: i64| {
        fleet(json!({"tolerations": [{"key": "t", "operator": "Exists", "tolerationSeconds": seconds}]}))
    };
    let rows = [
        ("not chosen", fleet(json!({})).taint("a", "NoSelect"), "b", None),
        ("no longer chosen", fleet(json!({})).chosen(&["a"]).taint("a", "NoSelect"), "b", None),
        ("not chosen anew", fleet(json!({})).taint("a", "NoSelectIfNew"), "b", None),
        ("stays chosen", fleet(json!({})).chosen(&["a"]).taint("a", "NoSelectIfNew"), "ab", None),
        ("tolerated for a while", tolerating(150).taint("a", "NoSelect"), "ab", Some(at(NOW + 50))),
        ("no longer tolerated", tolerating(100).taint("a", "NoSelect"), "b", None),
        (
            "the first end counts",
            tolerating(150).taint("a", "NoSelect").cluster("b", |cluster| {
                cluster["spec"]["taints"] =
                    json!([{"key": "t", "effect": "NoSelect", "timeAdded": at(NOW - 140).to_string()}]);
            }),
            "ab",
            Some(at(NOW + 10)),
        ),
    ];
    for (case, fleet, wanted, until) in rows {
        assert_eq!(fleet.names().concat(), wanted, "{case}");
        assert_eq!(fleet.choice().until, until, "{case}");
    }
}

#[test]
fn named_groups_come_first_and_are_split_by_size() {
    let strategy = |size: Value| {
        let canary = json!({"groupName": "canary", "groupClusterSelector": {"labelSelector": {"matchLabels": {"canary": "yes"}}}});
        let second = json!({"groupName": "second", "groupClusterSelector": {"labelSelector": {"matchLabels": {"env": "test"}}}});
        let mut group = json!({"decisionGroups": [canary, second]});
        if !size.is_null() {
            group["clustersPerDecisionGroup"] = size;
        }
        json!({"decisionStrategy": {"groupStrategy": group}})
    };
    let fleet = |size: Value| {
        Fleet::new(&["a", "b", "c", "d", "e"], strategy(size))
            .label("d", "canary", "yes")
            .label("b", "canary", "yes")
    };
    let rows = [
        ("two at most", fleet(json!(2)), "0canary:bd 1:ac 2:e"),
        ("one by one", fleet(json!(1)), "0canary:b 1canary:d 2:a 3:c 4:e"),
        ("all", fleet(Value::Null), "0canary:bd 1:ace"),
        ("a percentage of all, rounded up", fleet(json!("30%")), "0canary:bd 1:ac 2:e"),
        ("a number as a text", fleet(json!("3")), "0canary:bd 1:ace"),
        (
            "the first group that matches",
            fleet(json!(2)).label("b", "env", "test").label("a", "env", "test"),
            "0canary:bd 1second:a 2:ce",
        ),
        ("nobody", Fleet::new(&[], strategy(json!(2))), "0:"),
    ];
    for (case, fleet, wanted) in rows {
        let groups: Vec<String> = fleet
            .choice()
            .groups
            .iter()
            .map(|group| {
                let clusters: Vec<&str> = group.clusters.iter().map(|(name, _)| name.as_str()).collect();
                format!("{}{}:{}", group.index, group.name, clusters.concat())
            })
            .collect();
        assert_eq!(groups.join(" "), wanted, "{case}");
    }
}

#[test]
fn conditions_explain_the_selection() {
    let fleet = |spec: Value| Fleet::new(&["a", "b", "c"], spec);
    let prod = json!({"requiredClusterSelector": {"labelSelector": {"matchLabels": {"env": "prod"}}}});
    let rows = [
        (fleet(json!({})), "True AllDecisionsScheduled: 3 clusters are selected: of 3 clusters in the sets."),
        (
            fleet(json!({"numberOfClusters": 1})).taint("a", "NoSelect"),
            "True AllDecisionsScheduled: 1 cluster is selected: of 3 clusters in the sets, 1 is tainted and not tolerated.",
        ),
        (
            fleet(json!({"numberOfClusters": 5})).taint("a", "NoSelectIfNew"),
            "False NotAllDecisionsScheduled: 2 of 5 requested clusters are selected: of 3 clusters in the sets, 1 is tainted \
             NoSelectIfNew.",
        ),
        (
            fleet(json!({"predicates": [prod]})).label("a", "env", "prod").taint("a", "NoSelect"),
            "False NoManagedClusterMatched: No cluster can be selected: of 3 clusters in the sets, 2 are not matched by \
             the predicates, 1 is tainted and not tolerated.",
        ),
        (
            fleet(json!({"numberOfClusters": 2, "predicates": [prod]})),
            "False NoManagedClusterMatched: No cluster can be selected: of 3 clusters in the sets, 3 are not matched by \
             the predicates.",
        ),
        (
            fleet(json!({"numberOfClusters": 0})),
            "True AllDecisionsScheduled: 0 clusters are selected: of 3 clusters in the sets.",
        ),
        (
            Fleet::new(&[], json!({})),
            "False AllManagedClusterSetsEmpty: No cluster is in a set to choose from: east.",
        ),
        (
            fleet(json!({})).with(|fleet| fleet.bindings.clear()),
            "False NoManagedClusterSetBindings: No ManagedClusterSet is bound in the namespace ns.",
        ),
        (
            fleet(json!({})).with(|fleet| fleet.sets.clear()),
            "False NoManagedClusterSetBindings: What is bound in the namespace ns does not exist: ManagedClusterSet east.",
        ),
        (
            fleet(json!({"clusterSets": ["west", "north"]})),
            "False NoIntersection: No set that the placement names is bound in the namespace ns: it names west, north; \
             bound is east.",
        ),
    ];
    for (fleet, wanted) in rows {
        assert_eq!(fleet.satisfied(), wanted);
        assert_eq!(misconfigured(&fleet.decide_fleet()), "False Succeedconfigured: The placement is valid.");
    }
}

#[test]
fn score_is_reported_only_if_clusters_were_ranked() {
    let scores = |count: u32| {
        let groups =
            Fleet::new(&["a", "b"], json!({"numberOfClusters": count})).chosen(&["b"]).choice().groups;
        groups[0].clusters.clone()
    };
    assert_eq!(scores(1), [("b".to_owned(), Some(200))]);
    assert_eq!(scores(2), [("a".to_owned(), None), ("b".to_owned(), None)]);
}
