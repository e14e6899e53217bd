//! The phase and the conditions `Available`, `Installed`, `Paused` and `HeartbeatTimeout` of an Addon.

use super::*;

/// A description, the change, the expected steps, and phase and `Available` if there are no steps.
type Row = (&'static str, Edit, &'static [&'static str], (&'static str, &'static str));

const READY: (&str, &str) = ("Ready", "True/FullyReconciled");
const NOT_INSTALLED: (&str, &str) = ("Pending", "False/AddonInstanceNotInstalled");
const UNREADY: (&str, &str) = ("Pending", "False/UnreadyNamespaces");
const CONFIGURATION_ERROR: (&str, &str) = ("Error", "False/ConfigurationError");
const NOT_CHECKED: (&str, &str) = ("", "");

#[test]
fn addon_is_available_when_its_objects_exist_and_are_acknowledged() {
    let rows: [Row; 27] = [
        ("all objects exist", |_| {}, &[], READY),
        (
            "new Addon",
            |f| {
                f.addon["metadata"]["finalizers"] = json!(["other"]);
                f.namespaces.clear();
                f.instance = None;
            },
            &["patch addon", "create namespace ns"],
            NOT_CHECKED,
        ),
        ("the instance is missing", |f| f.instance = None, &["create instance in ns"], NOT_CHECKED),
        (
            "the instance is being deleted",
            |f| {
                f.instance()["metadata"]["deletionTimestamp"] = NOW.into();
            },
            &[],
            NOT_INSTALLED,
        ),
        (
            "the instance belongs to another Addon",
            |f| {
                f.instance()["metadata"]["ownerReferences"] = json!([owner("other", true)]);
            },
            &[],
            CONFIGURATION_ERROR,
        ),
        (
            "the namespace is being deleted",
            |f| f.namespaces[0]["deletionTimestamp"] = NOW.into(),
            &[],
            UNREADY,
        ),
        (
            "the namespace is being deleted, the instance is deleted",
            |f| {
                f.namespaces[0]["deletionTimestamp"] = NOW.into();
                f.instance = None;
            },
            &[],
            UNREADY,
        ),
        (
            "another namespace is being deleted",
            |f| {
                f.spec()["namespaces"] = json!([{"name": "ns"}, {"name": "more"}]);
                f.namespaces.push(json!({"name": "more", "deletionTimestamp": NOW}));
            },
            &[],
            UNREADY,
        ),
        ("the target namespace is not listed and exists", |f| f.spec()["namespaces"] = json!([]), &[], READY),
        (
            "the target namespace is not listed and does not exist",
            |f| {
                f.spec()["namespaces"] = json!([]);
                f.namespaces.clear();
                f.instance = None;
            },
            &[],
            UNREADY,
        ),
        (
            "the API server rejects the namespace",
            |f| {
                f.namespaces.clear();
                f.instance = None;
                f.rejections.insert(ManagedObject::Namespace("ns".into()), "no".into());
            },
            &[],
            UNREADY,
        ),
        (
            "the API server rejects the instance",
            |f| {
                f.instance = None;
                f.rejections.insert(ManagedObject::Instance { namespace: "ns".into() }, "no".into());
            },
            &[],
            NOT_INSTALLED,
        ),
        (
            "the API server rejects a change of the instance",
            |f| {
                f.instance()["spec"] = json!({});
                f.rejections.insert(ManagedObject::Instance { namespace: "ns".into() }, "no".into());
            },
            &[],
            NOT_INSTALLED,
        ),
        (
            "installAckRequired, and Installed is absent",
            |f| {
                f.spec()["installAckRequired"] = json!(true);
            },
            &[],
            NOT_INSTALLED,
        ),
        (
            "installAckRequired, and Installed is False",
            |f| {
                f.spec()["installAckRequired"] = json!(true);
                f.set_instance_condition("Installed", "False", "Blocked");
            },
            &[],
            NOT_INSTALLED,
        ),
        (
            "installAckRequired, and Installed is Unknown",
            |f| {
                f.spec()["installAckRequired"] = json!(true);
                f.set_instance_condition("Installed", "Unknown", "Blocked");
            },
            &[],
            NOT_INSTALLED,
        ),
        (
            "installAckRequired, and Installed is True",
            |f| {
                f.spec()["installAckRequired"] = json!(true);
                f.set_instance_condition("Installed", "True", "SetupComplete");
            },
            &[],
            READY,
        ),
        (
            "Installed is False, but no acknowledgement is required",
            |f| f.set_instance_condition("Installed", "False", "Blocked"),
            &[],
            READY,
        ),
        (
            "a heartbeat timeout does not affect availability",
            |f| f.set_instance_condition("Healthy", "Unknown", "HeartbeatTimeout"),
            &[],
            READY,
        ),
        (
            "unknown install type",
            |f| f.spec()["install"] = json!({"type": "random"}),
            &[],
            CONFIGURATION_ERROR,
        ),
        ("no install type", |f| f.spec()["install"] = json!({}), &[], CONFIGURATION_ERROR),
        (
            "OLMOwnNamespace without its block",
            |f| f.spec()["install"] = json!({"type": "OLMOwnNamespace"}),
            &[],
            CONFIGURATION_ERROR,
        ),
        (
            "OLMAllNamespaces without its block",
            |f| f.spec()["install"] = json!({"type": "OLMAllNamespaces"}),
            &[],
            CONFIGURATION_ERROR,
        ),
        (
            "OLMOwnNamespace with an empty namespace",
            |f| {
                f.spec()["install"] =
                    json!({"type": "OLMOwnNamespace", "olmOwnNamespace": {"namespace": ""}});
            },
            &[],
            CONFIGURATION_ERROR,
        ),
        (
            "OLMAllNamespaces with an empty namespace",
            |f| {
                f.spec()["install"] = json!({"type": "OLMAllNamespaces", "olmAllNamespaces": {}});
            },
            &[],
            CONFIGURATION_ERROR,
        ),
        ("malformed spec", |f| f.addon["spec"] = json!({"install": 7}), &[], CONFIGURATION_ERROR),
        ("no spec", |f| f.addon["spec"] = Value::Null, &[], CONFIGURATION_ERROR),
    ];
    for (name, change, steps, (phase, available)) in rows {
        let mut fixture = ready_addon();
        change(&mut fixture);
        let plan = fixture.plan();
        assert_eq!(plan.steps(), steps, "{name}");
        if steps.is_empty() {
            assert_eq!((plan.phase(), plan.condition("Available").as_str()), (phase, available), "{name}");
            assert_eq!(plan.condition("Installed").is_empty(), available != READY.1, "{name}");
            assert_eq!(plan.status.observed_generation, Some(3), "{name}");
        }
        assert_eq!(plan.next, Next::OnChange, "{name}");
    }
}

#[test]
fn message_names_the_cause() {
    let rows: [(Edit, &str); 9] = [
        (|f| f.spec()["installAckRequired"] = json!(true), "Addon instance is not yet installed."),
        (|f| f.namespaces[0]["deletionTimestamp"] = NOW.into(), "\"ns\" is being deleted"),
        (
            |f| {
                f.spec()["namespaces"] = json!([]);
                f.namespaces.clear();
            },
            "\"ns\" does not exist: create it, or list it in .spec.namespaces",
        ),
        (
            |f| {
                f.namespaces.clear();
                f.rejections.insert(ManagedObject::Namespace("ns".into()), "because".into());
            },
            "\"ns\" cannot be created or changed: because",
        ),
        (
            |f| {
                f.instance = None;
                f.rejections.insert(ManagedObject::Instance { namespace: "ns".into() }, "because".into());
            },
            "AddonInstance ns/addon-instance cannot be created: because",
        ),
        (
            |f| f.instance()["metadata"]["deletionTimestamp"] = NOW.into(),
            "ns/addon-instance is being deleted",
        ),
        (
            |f| f.instance()["metadata"]["ownerReferences"] = json!([owner("other", true)]),
            "belongs to Addon \"addon-other\"",
        ),
        (|f| f.spec()["install"] = json!({"type": "External"}), ".spec.install.external is required"),
        (|f| f.addon["spec"]["pause"] = json!("perhaps"), ".spec cannot be parsed: invalid type"),
    ];
    for (change, expected) in rows {
        let mut fixture = ready_addon();
        change(&mut fixture);
        let message = fixture.plan().message("Available");
        assert!(message.contains(expected), "{message:?} does not contain {expected:?}");
    }
}

#[test]
fn installed_stays_true_after_the_addon_becomes_unavailable() {
    let mut fixture = ready_addon();
    fixture.set_addon_condition("Installed", "True", "AddonInstalled");
    fixture.spec()["installAckRequired"] = json!(true);
    let plan = fixture.plan();
    assert_eq!(plan.condition("Installed"), "True/AddonInstalled");
    assert_eq!(plan.condition("Available"), "False/AddonInstanceNotInstalled");
}

#[test]
fn status_fields_of_other_writers_are_kept() {
    let mut fixture = ready_addon();
    fixture.set_addon_condition("Foreign", "True", "Because");
    fixture.addon["status"]["ocmReportedStatusHash"] = json!({"statusHash": "x", "observedGeneration": 1});
    let status = serde_json::to_value(fixture.plan().status).unwrap();
    assert_eq!(status["ocmReportedStatusHash"]["statusHash"], "x");
    assert_eq!(status["conditions"][0]["type"], "Foreign");
}

#[test]
fn paused_addon_is_not_reconciled() {
    let rows: [(&str, Edit, &str); 5] = [
        ("no pause", |_| {}, ""),
        ("the Addon is paused", |f| f.spec()["pause"] = json!(true), "True/AddonPaused"),
        ("all Addons are paused", |f| f.all_paused = true, "True/AddonOperatorPaused"),
        (
            "the Addon and all Addons are paused",
            |f| {
                f.spec()["pause"] = json!(true);
                f.all_paused = true;
            },
            "True/AddonOperatorPaused",
        ),
        (
            "all Addons are paused, and the spec is malformed",
            |f| {
                f.addon["spec"] = json!(7);
                f.all_paused = true;
            },
            "True/AddonOperatorPaused",
        ),
    ];
    for (name, change, paused) in rows {
        let mut fixture = ready_addon();
        fixture.set_addon_condition("Paused", "True", "Before");
        change(&mut fixture);
        assert_eq!(fixture.plan().condition("Paused"), paused, "{name}");

        fixture.addon["metadata"]["finalizers"] = Value::Null;
        fixture.annotate(names::DELETE_ANNOTATION, "");
        fixture.namespaces.clear();
        fixture.instance = None;
        let plan = fixture.plan();
        assert_eq!(plan.steps.is_empty(), !paused.is_empty(), "{name}");
        if !paused.is_empty() {
            assert_eq!((plan.phase(), plan.condition("Available").as_str()), ("Pending", ""), "{name}");
            assert_eq!(plan.condition("ReadyToBeDeleted"), "", "{name}");
        }
    }
}

#[test]
fn finalizer_is_removed_after_terminating_is_reported() {
    let rows: [(&str, Edit); 4] = [
        ("not paused", |_| {}),
        ("paused", |f| f.spec()["pause"] = json!(true)),
        ("all Addons are paused", |f| f.all_paused = true),
        ("malformed spec", |f| f.addon["spec"] = json!(7)),
    ];
    for (name, change) in rows {
        let mut fixture = ready_addon();
        fixture.addon["metadata"]["deletionTimestamp"] = NOW.into();
        fixture.addon["metadata"]["finalizers"] = json!(["a", names::FINALIZER, "b"]);
        fixture.namespaces.clear();
        fixture.instance = None;
        change(&mut fixture);
        let reported = fixture.plan();
        assert_eq!(reported.steps(), [""; 0], "{name}: no objects are created");
        assert_eq!(
            (reported.phase(), reported.condition("Available").as_str()),
            ("Terminating", "False/Terminating"),
            "{name}"
        );

        fixture.addon["status"] = serde_json::to_value(&reported.status).unwrap();
        let released = fixture.plan();
        assert_eq!(released.steps(), ["patch addon"], "{name}");
        assert_eq!(
            released.body()["metadata"],
            json!({"resourceVersion": "7", "finalizers": ["a", "b"]}),
            "{name}"
        );

        fixture.addon["metadata"]["finalizers"] = json!(["a", "b"]);
        assert_eq!(fixture.plan().steps(), [""; 0], "{name}: finalizers of others are not removed");
    }
}

#[test]
fn heartbeat_timeout_is_mirrored_only_if_enabled() {
    let rows: [(MirrorTimeouts, &str, &str); 4] = [
        (MirrorTimeouts::Off, "HeartbeatTimeout", ""),
        (MirrorTimeouts::Off, "ComponentsUp", ""),
        (MirrorTimeouts::On, "HeartbeatTimeout", "True/HeartbeatTimeout"),
        (MirrorTimeouts::On, "ComponentsUp", ""),
    ];
    for (mirror, reason, mirrored) in rows {
        for before in [false, true] {
            let mut fixture = ready_addon();
            fixture.mirror = mirror;
            fixture.set_instance_condition("Healthy", "Unknown", reason);
            if before {
                fixture.set_addon_condition("HeartbeatTimeout", "True", "HeartbeatTimeout");
            }
            assert_eq!(fixture.plan().condition("HeartbeatTimeout"), mirrored, "{mirror:?} {reason}");
        }
    }
}
