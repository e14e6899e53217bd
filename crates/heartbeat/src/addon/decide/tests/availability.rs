//! When an Addon is available, paused, in error or on its way out.

use super::*;

/// A sentence, a change, the steps, and what the Addon says where there are none.
type Row = (&'static str, Alter, &'static [&'static str], (&'static str, &'static str));

const READY: (&str, &str) = ("Ready", "True/FullyReconciled");
const NOT_INSTALLED: (&str, &str) = ("Pending", "False/AddonInstanceNotInstalled");
const UNREADY: (&str, &str) = ("Pending", "False/UnreadyNamespaces");
const WRONG: (&str, &str) = ("Error", "False/ConfigurationError");
const LATER: (&str, &str) = ("", "");

#[test]
fn an_addon_is_available_when_it_has_all_it_needs() {
    let rows: [Row; 27] = [
        ("all is there", |_| {}, &[], READY),
        (
            "it is new",
            |w| {
                w.addon["metadata"]["finalizers"] = json!(["other"]);
                w.namespaces.clear();
                w.instance = None;
            },
            &["patch addon", "create namespace ns"],
            LATER,
        ),
        ("the instance is missing", |w| w.instance = None, &["create instance in ns"], LATER),
        (
            "the instance is being deleted",
            |w| {
                w.instance()["metadata"]["deletionTimestamp"] = NOW.into();
            },
            &[],
            NOT_INSTALLED,
        ),
        (
            "the instance is another's",
            |w| {
                w.instance()["metadata"]["ownerReferences"] = json!([owner("other", true)]);
            },
            &[],
            WRONG,
        ),
        (
            "the namespace is being deleted",
            |w| w.namespaces[0]["deletionTimestamp"] = NOW.into(),
            &[],
            UNREADY,
        ),
        (
            "it is being deleted, with the instance gone",
            |w| {
                w.namespaces[0]["deletionTimestamp"] = NOW.into();
                w.instance = None;
            },
            &[],
            UNREADY,
        ),
        (
            "another namespace is being deleted",
            |w| {
                w.spec()["namespaces"] = json!([{"name": "ns"}, {"name": "more"}]);
                w.namespaces.push(json!({"name": "more", "deletionTimestamp": NOW}));
            },
            &[],
            UNREADY,
        ),
        ("the target is not listed, and there", |w| w.spec()["namespaces"] = json!([]), &[], READY),
        (
            "the target is not listed, and not there",
            |w| {
                w.spec()["namespaces"] = json!([]);
                w.namespaces.clear();
                w.instance = None;
            },
            &[],
            UNREADY,
        ),
        (
            "a namespace is refused",
            |w| {
                w.namespaces.clear();
                w.instance = None;
                w.refused.insert(Piece::Namespace("ns".into()), "no".into());
            },
            &[],
            UNREADY,
        ),
        (
            "the instance is refused",
            |w| {
                w.instance = None;
                w.refused.insert(Piece::Instance { namespace: "ns".into() }, "no".into());
            },
            &[],
            NOT_INSTALLED,
        ),
        (
            "a change of the instance is refused",
            |w| {
                w.instance()["spec"] = json!({});
                w.refused.insert(Piece::Instance { namespace: "ns".into() }, "no".into());
            },
            &[],
            NOT_INSTALLED,
        ),
        (
            "it must say that it is installed, and says nothing",
            |w| {
                w.spec()["installAckRequired"] = json!(true);
            },
            &[],
            NOT_INSTALLED,
        ),
        (
            "it says that it is not",
            |w| {
                w.spec()["installAckRequired"] = json!(true);
                w.says("Installed", "False", "Blocked");
            },
            &[],
            NOT_INSTALLED,
        ),
        (
            "it does not know",
            |w| {
                w.spec()["installAckRequired"] = json!(true);
                w.says("Installed", "Unknown", "Blocked");
            },
            &[],
            NOT_INSTALLED,
        ),
        (
            "it says that it is",
            |w| {
                w.spec()["installAckRequired"] = json!(true);
                w.says("Installed", "True", "SetupComplete");
            },
            &[],
            READY,
        ),
        ("it says that it is not, and need not", |w| w.says("Installed", "False", "Blocked"), &[], READY),
        ("silence is not asked for", |w| w.says("Healthy", "Unknown", "HeartbeatTimeout"), &[], READY),
        ("an unknown type", |w| w.spec()["install"] = json!({"type": "random"}), &[], WRONG),
        ("no type", |w| w.spec()["install"] = json!({}), &[], WRONG),
        (
            "no block for its own namespace",
            |w| w.spec()["install"] = json!({"type": "OLMOwnNamespace"}),
            &[],
            WRONG,
        ),
        (
            "no block for all namespaces",
            |w| w.spec()["install"] = json!({"type": "OLMAllNamespaces"}),
            &[],
            WRONG,
        ),
        (
            "an empty namespace",
            |w| {
                w.spec()["install"] =
                    json!({"type": "OLMOwnNamespace", "olmOwnNamespace": {"namespace": ""}});
            },
            &[],
            WRONG,
        ),
        (
            "an empty namespace for all",
            |w| {
                w.spec()["install"] = json!({"type": "OLMAllNamespaces", "olmAllNamespaces": {}});
            },
            &[],
            WRONG,
        ),
        ("nonsense", |w| w.addon["spec"] = json!({"install": 7}), &[], WRONG),
        ("no spec", |w| w.addon["spec"] = Value::Null, &[], WRONG),
    ];
    for (name, change, steps, (phase, available)) in rows {
        let mut world = settled();
        change(&mut world);
        let plan = world.plan();
        assert_eq!(plan.steps(), steps, "{name}");
        if steps.is_empty() {
            assert_eq!((plan.phase(), plan.says("Available").as_str()), (phase, available), "{name}");
            assert_eq!(plan.says("Installed").is_empty(), available != READY.1, "{name}");
            assert_eq!(plan.status.observed_generation, Some(3), "{name}");
        }
        assert_eq!(plan.next, Next::OnChange, "{name}");
    }
}

#[test]
fn a_wait_says_what_it_waits_for() {
    let rows: [(Alter, &str); 9] = [
        (|w| w.spec()["installAckRequired"] = json!(true), "Addon instance is not yet installed."),
        (|w| w.namespaces[0]["deletionTimestamp"] = NOW.into(), "\"ns\" is being deleted"),
        (
            |w| {
                w.spec()["namespaces"] = json!([]);
                w.namespaces.clear();
            },
            "\"ns\" does not exist: create it, or list it in .spec.namespaces",
        ),
        (
            |w| {
                w.namespaces.clear();
                w.refused.insert(Piece::Namespace("ns".into()), "because".into());
            },
            "\"ns\" cannot be provided: because",
        ),
        (
            |w| {
                w.instance = None;
                w.refused.insert(Piece::Instance { namespace: "ns".into() }, "because".into());
            },
            "AddonInstance ns/addon-instance cannot be created: because",
        ),
        (
            |w| w.instance()["metadata"]["deletionTimestamp"] = NOW.into(),
            "ns/addon-instance is being deleted",
        ),
        (
            |w| w.instance()["metadata"]["ownerReferences"] = json!([owner("other", true)]),
            "belongs to Addon \"addon-other\"",
        ),
        (|w| w.spec()["install"] = json!({"type": "External"}), ".spec.install.external is required"),
        (|w| w.addon["spec"]["pause"] = json!("perhaps"), ".spec cannot be read: invalid type"),
    ];
    for (change, words) in rows {
        let mut world = settled();
        change(&mut world);
        let message = world.plan().message("Available");
        assert!(message.contains(words), "{message:?} does not say {words:?}");
    }
}

#[test]
fn what_was_installed_once_stays_installed() {
    let mut world = settled();
    world.said("Installed", "True", "AddonInstalled");
    world.spec()["installAckRequired"] = json!(true);
    let plan = world.plan();
    assert_eq!(plan.says("Installed"), "True/AddonInstalled");
    assert_eq!(plan.says("Available"), "False/AddonInstanceNotInstalled");
}

#[test]
fn what_others_keep_in_the_status_is_kept() {
    let mut world = settled();
    world.said("Theirs", "True", "Because");
    world.addon["status"]["ocmReportedStatusHash"] = json!({"statusHash": "x", "observedGeneration": 1});
    let status = serde_json::to_value(world.plan().status).unwrap();
    assert_eq!(status["ocmReportedStatusHash"]["statusHash"], "x");
    assert_eq!(status["conditions"][0]["type"], "Theirs");
}

#[test]
fn a_pause_leaves_everything_as_it_is() {
    let rows: [(&str, Alter, &str); 5] = [
        ("nobody pauses", |_| {}, ""),
        ("the Addon is paused", |w| w.spec()["pause"] = json!(true), "True/AddonPaused"),
        ("all are paused", |w| w.all_paused = true, "True/AddonOperatorPaused"),
        (
            "both",
            |w| {
                w.spec()["pause"] = json!(true);
                w.all_paused = true;
            },
            "True/AddonOperatorPaused",
        ),
        (
            "all are paused, and the Addon makes no sense",
            |w| {
                w.addon["spec"] = json!(7);
                w.all_paused = true;
            },
            "True/AddonOperatorPaused",
        ),
    ];
    for (name, change, paused) in rows {
        let mut world = settled();
        world.said("Paused", "True", "Before");
        change(&mut world);
        assert_eq!(world.plan().says("Paused"), paused, "{name}");

        world.addon["metadata"]["finalizers"] = Value::Null;
        world.annotate(addon::DELETE, "");
        world.namespaces.clear();
        world.instance = None;
        let plan = world.plan();
        assert_eq!(plan.steps.is_empty(), !paused.is_empty(), "{name}");
        if !paused.is_empty() {
            assert_eq!((plan.phase(), plan.says("Available").as_str()), ("Pending", ""), "{name}");
            assert_eq!(plan.says("ReadyToBeDeleted"), "", "{name}");
        }
    }
}

#[test]
fn a_deleted_addon_says_so_before_it_is_let_go() {
    let rows: [(&str, Alter); 4] = [
        ("plainly", |_| {}),
        ("while it is paused", |w| w.spec()["pause"] = json!(true)),
        ("while all are paused", |w| w.all_paused = true),
        ("while it makes no sense", |w| w.addon["spec"] = json!(7)),
    ];
    for (name, change) in rows {
        let mut world = settled();
        world.addon["metadata"]["deletionTimestamp"] = NOW.into();
        world.addon["metadata"]["finalizers"] = json!(["a", addon::FINALIZER, "b"]);
        world.namespaces.clear();
        world.instance = None;
        change(&mut world);
        let told = world.plan();
        assert_eq!(told.steps(), [""; 0], "{name}: nothing is made any more");
        assert_eq!(
            (told.phase(), told.says("Available").as_str()),
            ("Terminating", "False/Terminating"),
            "{name}"
        );

        world.addon["status"] = serde_json::to_value(&told.status).unwrap();
        let let_go = world.plan();
        assert_eq!(let_go.steps(), ["patch addon"], "{name}");
        assert_eq!(
            let_go.body()["metadata"],
            json!({"resourceVersion": "7", "finalizers": ["a", "b"]}),
            "{name}"
        );

        world.addon["metadata"]["finalizers"] = json!(["a", "b"]);
        assert_eq!(world.plan().steps(), [""; 0], "{name}: the rest is others' business");
    }
}

#[test]
fn silence_is_mirrored_only_on_demand() {
    let rows: [(MirrorTimeouts, &str, &str); 4] = [
        (MirrorTimeouts::Off, "HeartbeatTimeout", ""),
        (MirrorTimeouts::Off, "ComponentsUp", ""),
        (MirrorTimeouts::On, "HeartbeatTimeout", "True/HeartbeatTimeout"),
        (MirrorTimeouts::On, "ComponentsUp", ""),
    ];
    for (mirror, reason, mirrored) in rows {
        for before in [false, true] {
            let mut world = settled();
            world.mirror = mirror;
            world.says("Healthy", "Unknown", reason);
            if before {
                world.said("HeartbeatTimeout", "True", "HeartbeatTimeout");
            }
            assert_eq!(world.plan().says("HeartbeatTimeout"), mirrored, "{mirror:?} {reason}");
        }
    }
}
