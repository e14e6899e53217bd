//! §1.15: custom kinds, from their definition to their end.

mod kind;

use bellwether_testkit::{Call, Cluster, eventually};
use serde_json::{Value, json};

use super::cases;
use kind::{DEFINITIONS, Kind, field, version, with_status};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

cases! { "custom":
    a_definition_is_accepted_established_and_served,
    a_definition_of_a_protected_group_needs_approval,
    names_and_categories_are_in_discovery,
    a_name_that_another_kind_has_is_not_accepted,
    the_status_of_a_definition_has_an_endpoint,
    a_default_that_came_later_is_seen_in_what_was_stored_before,
    a_new_object_has_the_status_that_the_schema_gives_it,
    a_field_that_the_schema_lost_is_not_shown,
    versions_differ_only_in_name,
    a_deprecated_version_says_so,
    tables_have_the_columns_of_the_definition,
    a_column_that_cannot_be_read_ends_the_list,
    objects_are_selected_by_the_fields_that_the_definition_names,
    the_status_of_an_object_is_apart,
    generations_count_what_is_not_metadata_or_status,
    an_object_is_scaled_at_its_paths,
    a_replace_needs_a_revision,
    a_strategic_merge_patch_is_415,
    metadata_is_checked_and_its_unknown_fields_are_dropped,
    a_kind_may_be_of_the_cluster,
    odd_finalizers_are_warned_of,
    the_objects_go_with_their_definition_and_watchers_see_it,
    finalizers_hold_an_object_and_its_definition_back,
}

async fn a_definition_is_accepted_established_and_served(cluster: &Cluster) {
    let kind = Kind::new();
    let created = cluster.post(DEFINITIONS, &kind.definition()).await.expect(201);
    assert_eq!(
        created["status"],
        json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": ["v1"]})
    );
    assert_eq!(created["spec"]["names"]["singular"], "widget");
    assert_eq!(created["spec"]["names"]["listKind"], "WidgetList");
    assert_eq!(created["spec"]["conversion"], json!({"strategy": "None"}));
    let accepted = kind.condition(cluster, "NamesAccepted", "True").await;
    assert_eq!(
        (&accepted["reason"], &accepted["message"]),
        (&json!("NoConflicts"), &json!("no conflicts found"))
    );
    let established = kind.condition(cluster, "Established", "True").await;
    assert_eq!(established["reason"], "InitialNamesAccepted");
    kind.established(cluster).await;
    let list = cluster.get(kind.objects()).await.expect(200);
    assert_eq!((&list["kind"], &list["items"]), (&json!("WidgetList"), &json!([])));
    let definition = cluster.get(kind.definition_path()).await.expect(200);
    assert_eq!(
        definition["status"]["acceptedNames"],
        json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"})
    );
    cluster.post(DEFINITIONS, &kind.definition()).await.expect_failure(409, "AlreadyExists");
}

async fn a_definition_of_a_protected_group_needs_approval(cluster: &Cluster) {
    let mut definition = Kind::new().definition();
    definition["spec"]["group"] = "custom.k8s.io".into();
    definition["metadata"]["name"] = "widgets.custom.k8s.io".into();
    let path = format!("{DEFINITIONS}?dryRun=All");
    let refused = cluster.post(&path, &definition).await.expect_failure(422, "Invalid");
    refused.assert_cause("FieldValueRequired", "metadata.annotations[api-approved.kubernetes.io]");
    definition["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "unapproved, a test"});
    cluster.post(&path, &definition).await.expect(201);
}

async fn names_and_categories_are_in_discovery(cluster: &Cluster) {
    let kind = Kind::define(cluster, |definition| {
        definition["spec"]["names"]["shortNames"] = json!(["wg"]);
        definition["spec"]["names"]["categories"] = json!(["gear"]);
        version(definition)["subresources"] =
            json!({"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.replicas"}});
    })
    .await;
    let list = eventually("discovery", || async {
        let list = cluster.get(format!("/apis/{}/v1", kind.group)).await;
        (list.status == 200).then(|| list.json())
    })
    .await;
    let resources = list["resources"].as_array().unwrap();
    let named =
        |name: &str| resources.iter().find(|resource| resource["name"] == name).cloned().unwrap_or_default();
    let widgets = named("widgets");
    assert_eq!((&widgets["shortNames"], &widgets["categories"]), (&json!(["wg"]), &json!(["gear"])));
    assert_eq!(
        widgets["verbs"],
        json!(["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"])
    );
    assert_eq!(named("widgets/status")["verbs"], json!(["get", "patch", "update"]));
    assert_eq!(named("widgets/scale")["kind"], "Scale");
}

async fn a_name_that_another_kind_has_is_not_accepted(cluster: &Cluster) {
    let first =
        Kind::define(cluster, |definition| definition["spec"]["names"]["shortNames"] = json!(["wg"])).await;
    for (plural, names, reason) in [
        (
            "gadgets",
            json!({"kind": "Widget", "plural": "gadgets", "singular": "gadget", "listKind": "GadgetList"}),
            "KindConflict",
        ),
        ("gizmos", json!({"kind": "Gizmo", "plural": "gizmos", "singular": "widget"}), "SingularConflict"),
        ("things", json!({"kind": "Thing", "plural": "things", "shortNames": ["wg"]}), "ShortNamesConflict"),
        ("items", json!({"kind": "Item", "plural": "items", "listKind": "WidgetList"}), "ListKindConflict"),
    ] {
        let mut definition = first.definition();
        definition["metadata"]["name"] = format!("{plural}.{}", first.group).into();
        definition["spec"]["names"] = names;
        cluster.post(DEFINITIONS, &definition).await.expect(201);
        let path = format!("{DEFINITIONS}/{plural}.{}", first.group);
        let conditions = eventually("a refusal", || async {
            let conditions = cluster.get(&path).await.json()["status"]["conditions"].clone();
            conditions.as_array().is_some_and(|conditions| conditions.len() >= 2).then_some(conditions)
        })
        .await;
        let condition = |name: &str| {
            let found = conditions.as_array().unwrap().iter().find(|condition| condition["type"] == name);
            found
                .map(|condition| (condition["status"].clone(), condition["reason"].clone()))
                .unwrap_or_default()
        };
        assert_eq!(condition("NamesAccepted"), (json!("False"), json!(reason)), "{conditions}");
        assert_eq!(condition("Established"), (json!("False"), json!("NotAccepted")), "{conditions}");
        let served = cluster.get(format!("/apis/{}/v1/namespaces/default/{plural}", first.group)).await;
        assert_eq!(served.status, 404, "{}", served.text());
        cluster.delete(&path).await.expect(200);
    }
}

async fn the_status_of_a_definition_has_an_endpoint(cluster: &Cluster) {
    let kind = Kind::define(cluster, |_| {}).await;
    let path = format!("{}/status", kind.definition_path());
    let definition = cluster.get(&path).await.expect(200);
    assert_eq!(definition["kind"], "CustomResourceDefinition");
    let condition = json!({"type": "Odd", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "2026-01-02T03:04:05Z"});
    let mut conditions = definition["status"]["conditions"].as_array().unwrap().clone();
    conditions.push(condition);
    let patch = json!({"status": {"conditions": conditions}, "spec": {"names": {"shortNames": ["no"]}}});
    let patched = cluster.merge(&path, &patch).await.expect(200);
    assert!(patched["spec"]["names"]["shortNames"].is_null(), "the spec is not changed by it");
    assert_eq!(patched["metadata"]["generation"], 1);
    kind.condition(cluster, "Odd", "True").await;
}

async fn a_new_object_has_the_status_that_the_schema_gives_it(cluster: &Cluster) {
    let kind = Kind::define(cluster, |definition| {
        with_status(definition);
        let schema = &mut version(definition)["schema"]["openAPIV3Schema"];
        schema["properties"]["status"]["default"] = json!({"phase": "Pending"});
    })
    .await;
    let mut object = kind.object("x", json!({"colour": "red"}));
    object["status"] = json!({"phase": "Mine", "replicas": 3});
    let created = cluster.post(kind.objects(), &object).await.expect(201);
    assert_eq!(created["status"], json!({"phase": "Pending"}));
    let read = cluster.get(format!("{}/x", kind.objects())).await.expect(200);
    assert_eq!(read["status"], json!({"phase": "Pending"}));
}

async fn a_default_that_came_later_is_seen_in_what_was_stored_before(cluster: &Cluster) {
    let kind = Kind::define(cluster, |_| {}).await;
    let created = cluster.post(kind.objects(), &kind.object("a", json!({"size": 1}))).await.expect(201);
    kind.redefine(cluster, |definition| field(definition, "colour")["default"] = "red".into()).await;
    let path = format!("{}/a", kind.objects());
    let read = eventually("the default", || async {
        let read = cluster.get(&path).await.expect(200);
        (read["spec"]["colour"] == "red").then_some(read)
    })
    .await;
    assert_eq!(read["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"]);
    let list = cluster.get(kind.objects()).await.expect(200);
    assert_eq!(list["items"][0]["spec"]["colour"], "red");
}

async fn a_field_that_the_schema_lost_is_not_shown(cluster: &Cluster) {
    let kind = Kind::define(cluster, |_| {}).await;
    cluster.post(kind.objects(), &kind.object("a", json!({"size": 1, "colour": "red"}))).await.expect(201);
    kind.redefine(cluster, |definition| {
        let fields =
            &mut version(definition)["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
        fields.as_object_mut().unwrap().remove("colour");
    })
    .await;
    eventually("the loss", || async {
        let read = cluster.get(format!("{}/a", kind.objects())).await.expect(200);
        (read["spec"] == json!({"size": 1})).then_some(())
    })
    .await;
}

fn second_version(definition: &mut Value) {
    let mut second = version(definition).clone();
    second["name"] = "v1beta1".into();
    second["storage"] = false.into();
    definition["spec"]["versions"].as_array_mut().unwrap().push(second);
}

async fn versions_differ_only_in_name(cluster: &Cluster) {
    let kind = Kind::define(cluster, second_version).await;
    cluster.post(kind.objects(), &kind.object("a", json!({"colour": "red"}))).await.expect(201);
    let old = cluster.get(format!("{}/a", kind.objects_in("v1beta1"))).await.expect(200);
    assert_eq!(old["apiVersion"], format!("{}/v1beta1", kind.group));
    assert_eq!(old["spec"], json!({"colour": "red"}));
    let mut changed = old.clone();
    changed["spec"]["colour"] = "blue".into();
    cluster.put(format!("{}/a", kind.objects_in("v1beta1")), &changed).await.expect(200);
    let new = cluster.get(format!("{}/a", kind.objects())).await.expect(200);
    assert_eq!((&new["spec"]["colour"], &new["metadata"]["uid"]), (&json!("blue"), &old["metadata"]["uid"]));
    kind.redefine(cluster, |definition| definition["spec"]["versions"][1]["served"] = false.into()).await;
    let path = format!("{}/a", kind.objects_in("v1beta1"));
    eventually("the end of a version", || async { (cluster.get(&path).await.status == 404).then_some(()) })
        .await;
    cluster.get(format!("{}/a", kind.objects())).await.expect(200);
}

async fn a_deprecated_version_says_so(cluster: &Cluster) {
    let kind = Kind::define(cluster, |definition| {
        second_version(definition);
        definition["spec"]["versions"][1]["deprecated"] = true.into();
    })
    .await;
    let warned = |path: String| async move { cluster.get(path).await.header("warning").to_owned() };
    let group = &kind.group;
    let words = format!("299 - \"{group}/v1beta1 Widget is deprecated; use {group}/v1 Widget\"");
    assert_eq!(warned(kind.objects_in("v1beta1")).await, words);
    assert_eq!(warned(kind.objects()).await, "");
    kind.redefine(cluster, |definition| {
        definition["spec"]["versions"][1]["deprecationWarning"] = "Use the other.".into()
    })
    .await;
    eventually("other words", || async {
        (warned(kind.objects_in("v1beta1")).await == "299 - \"Use the other.\"").then_some(())
    })
    .await;
}

async fn tables_have_the_columns_of_the_definition(cluster: &Cluster) {
    let kind = Kind::define(cluster, |definition| {
        let status = &mut version(definition)["schema"]["openAPIV3Schema"]["properties"]["status"];
        *status = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        version(definition)["additionalPrinterColumns"] = json!([
            {"name": "Colour", "type": "string", "jsonPath": ".spec.colour"},
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1, "description": "How big"},
            {"name": "List", "type": "string", "jsonPath": ".spec.list"},
            {"name": "First", "type": "string", "jsonPath": ".spec.list[0]"},
            {"name": "Each", "type": "string", "jsonPath": ".spec.list[*]"},
            {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
            {"name": "Missing", "type": "string", "jsonPath": ".spec.none.deep"},
            {"name": "Wrong", "type": "integer", "jsonPath": ".spec.colour"},
            {"name": "Text", "type": "string", "jsonPath": ".spec.size"},
            {"name": "Whole", "type": "string", "jsonPath": ".status.whole"},
            {"name": "Flag", "type": "boolean", "jsonPath": ".status.flag"},
            {"name": "Ratio", "type": "number", "jsonPath": ".status.ratio"},
            {"name": "When", "type": "date", "jsonPath": ".status.when"},
            {"name": "Odd", "type": "date", "jsonPath": ".spec.colour"},
            {"name": "Label", "type": "string", "jsonPath": ".metadata.labels.a\\.b/c"},
        ]);
    })
    .await;
    let mut full = kind.object("full", json!({"colour": "red", "size": 3, "list": ["x", "y"]}));
    full["metadata"]["labels"] = json!({"a.b/c": "label"});
    full["status"] = json!({
        "conditions": [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}],
        "whole": {"b": 1, "a": [true, "t"]}, "flag": true, "ratio": 0.5, "when": "2001-01-01T00:00:00Z",
    });
    cluster.post(kind.objects(), &full).await.expect(201);
    cluster.post(kind.objects(), &kind.object("less", json!({}))).await.expect(201);
    let table = cluster.send(Call::get(kind.objects()).accept(TABLE)).await.expect(200);
    let columns: Vec<&str> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| column["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        columns,
        [
            "Name", "Colour", "Size", "List", "First", "Each", "Ready", "Missing", "Wrong", "Text", "Whole",
            "Flag", "Ratio", "When", "Odd", "Label"
        ]
    );
    assert_eq!(table["columnDefinitions"][2]["priority"], 1);
    let mut cells = table["rows"][0]["cells"].clone();
    let age = cells[13].take();
    assert!(age.as_str().is_some_and(|age| age.ends_with('y')), "{age}");
    assert_eq!(
        cells,
        json!([
            "full",
            "red",
            3,
            "[\"x\",\"y\"]",
            "x",
            "x",
            "True",
            null,
            null,
            "3",
            "{\"a\":[true,\"t\"],\"b\":1}",
            true,
            0.5,
            null,
            "<invalid>",
            "label"
        ])
    );
    let less = &table["rows"][1]["cells"];
    assert_eq!(
        less,
        &json!([
            "less", null, null, null, null, null, null, null, null, null, null, null, null, null, null, null
        ])
    );
}

async fn a_column_that_cannot_be_read_ends_the_list(cluster: &Cluster) {
    let kind = Kind::define(cluster, |definition| {
        version(definition)["additionalPrinterColumns"] = json!([
            {"name": "Colour", "type": "string", "jsonPath": ".spec.colour"},
            {"name": "Odd", "type": "string", "jsonPath": ".spec["},
        ]);
    })
    .await;
    let table = cluster.send(Call::get(kind.objects()).accept(TABLE)).await.expect(200);
    let columns: Vec<&str> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| column["name"].as_str().unwrap())
        .collect();
    assert_eq!(columns, ["Name", "Colour"]);
}

async fn objects_are_selected_by_the_fields_that_the_definition_names(cluster: &Cluster) {
    let kind = Kind::define(cluster, |definition| {
        version(definition)["selectableFields"] =
            json!([{"jsonPath": ".spec.colour"}, {"jsonPath": ".spec.size"}]);
    })
    .await;
    for (name, spec) in [
        ("a", json!({"colour": "red", "size": 1})),
        ("b", json!({"colour": "blue", "size": 1})),
        ("c", json!({"size": 2})),
    ] {
        cluster.post(kind.objects(), &kind.object(name, spec)).await.expect(201);
    }
    let names = |list: &Value| -> Vec<String> {
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    for (selector, expected) in [
        ("spec.colour%3Dred", vec!["a"]),
        ("spec.size%3D1", vec!["a", "b"]),
        ("spec.colour%21%3Dred", vec!["b", "c"]),
        ("spec.colour%3D", vec!["c"]),
        ("spec.size%3D1,spec.colour%3Dblue", vec!["b"]),
        ("metadata.name%3Dc", vec!["c"]),
    ] {
        let list = cluster.get(format!("{}?fieldSelector={selector}", kind.objects())).await.expect(200);
        assert_eq!(names(&list), expected, "{selector}");
    }
    let refused = cluster.get(format!("{}?fieldSelector=spec.list%3Dx", kind.objects())).await;
    refused.expect_failure(400, "BadRequest").assert_message("field label not supported: spec.list");
    let mut watch =
        cluster.watch(format!("{}?watch=1&fieldSelector=spec.colour%3Dred", kind.objects())).await;
    watch.expect("ADDED", "a").await;
    cluster.merge(format!("{}/b", kind.objects()), &json!({"spec": {"colour": "red"}})).await.expect(200);
    watch.expect("ADDED", "b").await;
    cluster.merge(format!("{}/a", kind.objects()), &json!({"spec": {"colour": "green"}})).await.expect(200);
    watch.expect("DELETED", "a").await;
    cluster.delete(format!("{}?fieldSelector=spec.colour%3Dred", kind.objects())).await.expect(200);
    watch.expect("DELETED", "b").await;
    assert_eq!(names(&cluster.get(kind.objects()).await.expect(200)), ["a", "c"]);
}

async fn the_status_of_an_object_is_apart(cluster: &Cluster) {
    let kind = Kind::define(cluster, with_status).await;
    let mut object = kind.object("a", json!({"colour": "red"}));
    object["status"] = json!({"phase": "Up"});
    let created = cluster.post(kind.objects(), &object).await.expect(201);
    assert!(created["status"].is_null(), "a new object has no status");
    let path = format!("{}/a", kind.objects());
    let mut changed = created.clone();
    changed["status"] = json!({"phase": "Up"});
    changed["spec"]["colour"] = "blue".into();
    changed["metadata"]["labels"] = json!({"a": "b"});
    let updated = cluster.put(format!("{path}/status"), &changed).await.expect(200);
    assert_eq!((&updated["status"]["phase"], &updated["spec"]["colour"]), (&json!("Up"), &json!("red")));
    assert!(updated["metadata"]["labels"].is_null(), "metadata is not changed through the status");
    assert_eq!(updated["metadata"]["generation"], 1);
    let patched =
        cluster.merge(&path, &json!({"status": {"phase": "Down"}, "spec": {"size": 2}})).await.expect(200);
    assert_eq!((&patched["status"]["phase"], &patched["metadata"]["generation"]), (&json!("Up"), &json!(2)));
    let refused = cluster.merge(format!("{path}/status"), &json!({"status": {"phase": 5}})).await;
    refused.expect_failure(422, "Invalid").assert_cause("FieldValueTypeInvalid", "status.phase");
    let without = Kind::define(cluster, |_| {}).await;
    cluster.post(without.objects(), &without.object("a", json!({}))).await.expect(201);
    assert_eq!(cluster.get(format!("{}/a/status", without.objects())).await.status, 404);
}

async fn generations_count_what_is_not_metadata_or_status(cluster: &Cluster) {
    let kind = Kind::define(cluster, |_| {}).await;
    let path = format!("{}/a", kind.objects());
    cluster.post(kind.objects(), &kind.object("a", json!({}))).await.expect(201);
    for (patch, generation) in [
        (json!({"metadata": {"labels": {"a": "b"}}}), 1),
        (json!({"spec": {"size": 1}}), 2),
        (json!({"spec": {"size": 1}}), 2),
        (json!({"metadata": {"generation": 9}}), 2),
        // Without an endpoint of its own, status is a field like any other.
        (json!({"status": {"phase": "Up"}}), 3),
    ] {
        let patched = cluster.merge(&path, &patch).await.expect(200);
        assert_eq!(patched["metadata"]["generation"], generation, "{patch}");
    }
}

async fn an_object_is_scaled_at_its_paths(cluster: &Cluster) {
    let kind = Kind::define(cluster, |definition| {
        version(definition)["subresources"] = json!({"status": {}, "scale": {
            "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector",
        }});
    })
    .await;
    let path = format!("{}/a", kind.objects());
    cluster.post(kind.objects(), &kind.object("a", json!({"size": 2}))).await.expect(201);
    let status = json!({"status": {"replicas": 1, "selector": "a=b"}});
    cluster.merge(format!("{path}/status"), &status).await.expect(200);
    let mut scale = cluster.get(format!("{path}/scale")).await.expect(200);
    assert_eq!((&scale["kind"], &scale["apiVersion"]), (&json!("Scale"), &json!("autoscaling/v1")));
    assert_eq!(
        (&scale["spec"], &scale["status"]),
        (&json!({"replicas": 2}), &json!({"replicas": 1, "selector": "a=b"}))
    );
    scale["spec"]["replicas"] = 5.into();
    let put = cluster.put(format!("{path}/scale"), &scale).await.expect(200);
    assert_eq!(put["spec"]["replicas"], 5);
    cluster.put(format!("{path}/scale"), &scale).await.expect_failure(409, "Conflict");
    let patched = cluster.merge(format!("{path}/scale"), &json!({"spec": {"replicas": 7}})).await.expect(200);
    assert_eq!(patched["spec"]["replicas"], 7);
    let object = cluster.get(&path).await.expect(200);
    assert_eq!((&object["spec"]["size"], &object["metadata"]["generation"]), (&json!(7), &json!(3)));
    let refused = cluster.merge(format!("{path}/scale"), &json!({"spec": {"replicas": -1}})).await;
    refused.expect_failure(422, "Invalid").assert_cause("FieldValueInvalid", ".spec.size");
    let refused = cluster.merge(&path, &json!({"spec": {"size": -1}})).await.expect_failure(422, "Invalid");
    refused
        .assert_cause("FieldValueInvalid", ".spec.size")
        .assert_message("should be a non-negative integer");
    cluster.post(kind.objects(), &kind.object("none", json!({}))).await.expect(201);
    let path = format!("{}/none/scale", kind.objects());
    let refused = cluster.get(&path).await.expect_failure(500, "InternalError");
    refused.assert_message("the spec replicas field \".spec.size\" does not exist");
    let scaled = cluster.merge(&path, &json!({"spec": {"replicas": 1}})).await.expect(200);
    assert_eq!((&scaled["spec"], &scaled["status"]), (&json!({"replicas": 1}), &json!({"replicas": 0})));
}

async fn a_replace_needs_a_revision(cluster: &Cluster) {
    let kind = Kind::define(cluster, |_| {}).await;
    cluster.post(kind.objects(), &kind.object("a", json!({}))).await.expect(201);
    let path = format!("{}/a", kind.objects());
    let refused =
        cluster.put(&path, &kind.object("a", json!({"size": 1}))).await.expect_failure(422, "Invalid");
    refused
        .assert_cause("FieldValueInvalid", "metadata.resourceVersion")
        .assert_message("must be specified for an update");
    cluster
        .put(format!("{}/b", kind.objects()), &kind.object("b", json!({})))
        .await
        .expect_failure(404, "NotFound");
}

async fn a_strategic_merge_patch_is_415(cluster: &Cluster) {
    let kind = Kind::define(cluster, |_| {}).await;
    cluster.post(kind.objects(), &kind.object("a", json!({}))).await.expect(201);
    let call = Call::new(http::Method::PATCH, format!("{}/a", kind.objects()));
    let answer = cluster.send(call.body("application/strategic-merge-patch+json", "{}")).await;
    answer
        .expect_failure(415, "UnsupportedMediaType")
        .assert_message("the body of the request was in an unknown format");
}

async fn metadata_is_checked_and_its_unknown_fields_are_dropped(cluster: &Cluster) {
    let kind = Kind::define(cluster, |_| {}).await;
    let mut object = kind.object("a", json!({}));
    object["metadata"]["odd"] = json!({"x": 1});
    let answer = cluster.post(kind.objects(), &object).await;
    assert_eq!(answer.header("warning"), "299 - \"unknown field \\\"metadata.odd\\\"\"");
    assert!(answer.expect(201)["metadata"]["odd"].is_null());
    for (name, field, value) in [
        ("UPPER", "metadata.name", json!({})),
        ("a/b", "metadata.name", json!({})),
        ("good", "metadata.labels", json!({"labels": {"a b": "c"}})),
        ("good", "metadata.annotations", json!({"annotations": {"a b": "c"}})),
    ] {
        let mut object = kind.object(name, json!({}));
        for (key, value) in value.as_object().unwrap() {
            object["metadata"][key] = value.clone();
        }
        cluster
            .post(kind.objects(), &object)
            .await
            .expect_failure(422, "Invalid")
            .assert_cause("FieldValueInvalid", field);
    }
    let mut object = kind.object("b", json!({}));
    object["metadata"]["labels"] = json!({"a": 5});
    cluster.post(kind.objects(), &object).await.expect_failure(400, "BadRequest");
    let mut object = kind.object("b", json!({}));
    object["kind"] = "Other".into();
    let refused = cluster.post(kind.objects(), &object).await.expect_failure(422, "Invalid");
    refused.assert_cause("FieldValueInvalid", "kind").assert_message("must be Widget");
}

async fn a_kind_may_be_of_the_cluster(cluster: &Cluster) {
    let kind = Kind::define(cluster, |definition| definition["spec"]["scope"] = "Cluster".into()).await;
    let path = format!("/apis/{}/v1/widgets", kind.group);
    let created = cluster.post(&path, &kind.object("a", json!({}))).await.expect(201);
    assert!(created["metadata"]["namespace"].is_null());
    cluster.get(format!("{path}/a")).await.expect(200);
    assert_eq!(cluster.get(format!("{}/a", kind.objects())).await.status, 404);
    cluster.delete(format!("{path}/a")).await.expect(200);
}

async fn odd_finalizers_are_warned_of(cluster: &Cluster) {
    let kind = Kind::define(cluster, |_| {}).await;
    let mut object = kind.object("a", json!({}));
    object["metadata"]["finalizers"] = json!(["bare", "a.example.com", "example.com/good"]);
    let answer = cluster.post(format!("{}?dryRun=All", kind.objects()), &object).await;
    let warnings: Vec<&str> =
        answer.headers.get_all("warning").iter().filter_map(|value| value.to_str().ok()).collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(
        warnings[0].contains("prefer a domain-qualified finalizer name including a path (/)"),
        "{warnings:?}"
    );
    assert!(warnings[1].contains("prefer a domain-qualified finalizer name to avoid"), "{warnings:?}");
    answer.expect(201);
}

async fn the_objects_go_with_their_definition_and_watchers_see_it(cluster: &Cluster) {
    let kind = Kind::define(cluster, |_| {}).await;
    cluster.post(kind.objects(), &kind.object("a", json!({}))).await.expect(201);
    let mut watch = cluster.watch(format!("{}?watch=1", kind.objects())).await;
    watch.expect("ADDED", "a").await;
    let deleted = cluster.delete(kind.definition_path()).await.expect(200);
    assert_eq!(
        deleted["metadata"]["finalizers"],
        json!(["customresourcecleanup.apiextensions.k8s.io"]),
        "the definition waits for its objects"
    );
    watch.expect("DELETED", "a").await;
    eventually("the end of the definition", || async {
        (cluster.get(kind.definition_path()).await.status == 404).then_some(())
    })
    .await;
    eventually("the end of the kind", || async {
        (cluster.get(kind.objects()).await.status == 404).then_some(())
    })
    .await;
    assert!(watch.next().await.is_none(), "the watch ends");
    // What comes back under the same name is empty.
    cluster.post(DEFINITIONS, &kind.definition()).await.expect(201);
    kind.established(cluster).await;
    assert_eq!(cluster.get(kind.objects()).await.expect(200)["items"], json!([]));
}

async fn finalizers_hold_an_object_and_its_definition_back(cluster: &Cluster) {
    let kind = Kind::define(cluster, |_| {}).await;
    let mut object = kind.object("held", json!({}));
    object["metadata"]["finalizers"] = json!(["example.com/held"]);
    cluster.post(kind.objects(), &object).await.expect(201);
    cluster.delete(kind.definition_path()).await.expect(200);
    let terminating = kind.condition(cluster, "Terminating", "True").await;
    let reasons = ["InstanceDeletionInProgress", "InstanceDeletionPending", "InstanceDeletionCheck"];
    assert!(reasons.iter().any(|reason| terminating["reason"] == *reason), "{terminating}");
    let path = format!("{}/held", kind.objects());
    eventually("the mark", || async {
        (!cluster.get(&path).await.json()["metadata"]["deletionTimestamp"].is_null()).then_some(())
    })
    .await;
    let refused = eventually("a refusal", || async {
        let answer = cluster.post(kind.objects(), &kind.object("late", json!({}))).await;
        (answer.status >= 300).then_some(answer)
    })
    .await;
    refused
        .expect_failure(403, "Forbidden")
        .assert_message("create not allowed while custom resource definition is terminating");
    cluster.merge(&path, &json!({"metadata": {"finalizers": null}})).await.expect(200);
    eventually("the end of the definition", || async {
        (cluster.get(kind.definition_path()).await.status == 404).then_some(())
    })
    .await;
}
