//! Events, in both groups over the same rows.

use serde_json::{Value, json};

use super::{NAMESPACE, Step, delete, get, inside, merge, object, post};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

pub(super) fn steps() -> Vec<Step> {
    let all = format!("/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events");
    let legacy = |name: &str, rest: Value| {
        let mut event = object(
            "Event",
            name,
            json!({"involvedObject": {"kind": "ConfigMap", "namespace": NAMESPACE, "name": "x"}, "reason": "R", "message": "M", "type": "Normal"}),
        );
        super::merge_into(&mut event, rest);
        post(inside("events"), event)
    };
    let new = |name: &str, rest: Value| {
        let mut event = object(
            "Event",
            name,
            json!({
                "regarding": {"kind": "ConfigMap", "namespace": NAMESPACE, "name": "x"}, "reason": "R", "note": "M",
                "type": "Normal", "eventTime": "2026-01-02T03:04:05.000006Z", "action": "A",
                "reportingController": "example.com/c", "reportingInstance": "i",
            }),
        );
        event["apiVersion"] = "events.k8s.io/v1".into();
        super::merge_into(&mut event, rest);
        post(all.clone(), event)
    };
    vec![
        legacy(
            "old",
            json!({"firstTimestamp": "2026-01-02T03:04:05Z", "count": 3, "source": {"component": "c", "host": "h"}}),
        ),
        legacy("odd name", json!({})),
        legacy("Upper:Case", json!({})),
        legacy("elsewhere", json!({"involvedObject": {"namespace": "default"}})),
        legacy("nowhere", json!({"involvedObject": {"namespace": null}})),
        legacy("timed", json!({"eventTime": "2026-01-02T03:04:05.000006Z"})),
        legacy("no-type", json!({"type": null})),
        new("new", json!({})),
        new("Odd", json!({})),
        new("no-time", json!({"eventTime": null})),
        new("type", json!({"type": "Odd"})),
        new("no-reason", json!({"reason": "", "action": ""})),
        new("long", json!({"reason": "x".repeat(129), "note": "x".repeat(1025)})),
        new("controller", json!({"reportingController": "not a name"})),
        new("no-controller", json!({"reportingController": ""})),
        new("instance", json!({"reportingInstance": ""})),
        new("series", json!({"series": {"count": 1, "lastObservedTime": "2026-01-02T03:04:05.000000Z"}})),
        new("series-2", json!({"series": {"count": 2}})),
        new(
            "deprecated",
            json!({"deprecatedCount": 2, "deprecatedFirstTimestamp": "2026-01-02T03:04:05Z", "deprecatedSource": {"component": "x"}}),
        ),
        new("elsewhere", json!({"regarding": {"namespace": "default"}})),
        new("nowhere", json!({"regarding": {"namespace": null}})),
        post(all.clone(), object("Event", "other-version", json!({}))),
        get(format!("{all}/old")),
        get(format!("{all}/new")),
        get(inside("events/new")),
        get(inside("events/new")).accept(TABLE),
        get(inside("events/old")).accept(TABLE),
        get(format!("{all}/old")).accept(TABLE),
        get(inside("events?fieldSelector=involvedObject.kind%3DConfigMap,reason%3DR,metadata.name%3Dnew")),
        get(format!("{all}?fieldSelector=regarding.kind%3DConfigMap,metadata.name%3Dnew")),
        get(format!("{all}?fieldSelector=involvedObject.kind%3DConfigMap")),
        merge(format!("{all}/new"), json!({"note": "other"})),
        merge(
            format!("{all}/new"),
            json!({"series": {"count": 2, "lastObservedTime": "2026-01-02T03:04:06Z"}}),
        ),
        merge(inside("events/new"), json!({"message": "other"})),
        merge(inside("events/old"), json!({"count": 4})),
        delete(format!("{all}/old")),
        delete(inside("events/old")),
    ]
}
