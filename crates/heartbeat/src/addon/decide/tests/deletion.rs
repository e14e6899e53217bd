//! The acknowledgement of a deletion: `markedForDeletion`, `ReadyToBeDeleted` and `DeleteTimeout`.

use super::*;

const HOUR: u64 = 60 * 60;

struct Row {
    name: &'static str,
    change: Edit,
    ready: &'static str,
    timeout: &'static str,
    next: Option<u64>,
}

const WAITING: &str = "False/AddonNotReadyToBeDeleted";
const READY: &str = "True/AddonReadyToBeDeleted";
const TIMED_OUT: &str = "True/AddonReasonDeletionTimedOut";

fn announce(fixture: &mut Fixture) {
    fixture.spec()["deleteAckRequired"] = json!(true);
    fixture.annotate(names::DELETE_ANNOTATION, "");
    fixture.instance()["spec"]["markedForDeletion"] = json!(true);
}

/// Announces the deletion with a timeout, and advances the clock.
fn announce_before(fixture: &mut Fixture, timeout: &str, seconds: u64) {
    announce(fixture);
    fixture.annotate(names::DELETE_TIMEOUT_ANNOTATION, timeout);
    fixture.set_addon_condition("ReadyToBeDeleted", "False", "AddonNotReadyToBeDeleted");
    fixture.advance_clock(seconds);
}

#[test]
fn deletion_is_acknowledged_or_times_out() {
    let row = |name, change, ready, timeout, next| Row { name, change, ready, timeout, next };
    let rows = [
        row("not announced", |_| {}, "", "", None),
        row("no acknowledgement is needed", |f| f.annotate(names::DELETE_ANNOTATION, "x"), READY, "", None),
        row(
            "ready before",
            |f| {
                announce(f);
                f.set_addon_condition("ReadyToBeDeleted", "True", "AddonReadyToBeDeleted");
            },
            READY,
            "",
            None,
        ),
        row("no report", announce, WAITING, "", Some(HOUR)),
        row(
            "Unknown is reported",
            |f| {
                announce(f);
                f.set_instance_condition("ReadyToBeDeleted", "Unknown", "X");
            },
            WAITING,
            "",
            Some(HOUR),
        ),
        row(
            "False is reported",
            |f| {
                announce(f);
                f.set_instance_condition("ReadyToBeDeleted", "False", "X");
            },
            WAITING,
            "",
            Some(HOUR),
        ),
        row(
            "True is reported",
            |f| {
                announce(f);
                f.set_instance_condition("ReadyToBeDeleted", "True", "X");
            },
            READY,
            "",
            None,
        ),
        row(
            "the instance is deleted",
            |f| {
                announce(f);
                f.instance = None;
            },
            WAITING,
            "",
            Some(HOUR),
        ),
        row(
            "an instance of another Addon reports True",
            |f| {
                announce(f);
                f.set_instance_condition("ReadyToBeDeleted", "True", "X");
                f.instance()["metadata"]["ownerReferences"] = json!([owner("other", true)]);
            },
            WAITING,
            "",
            Some(HOUR),
        ),
        row("timeout of five minutes", |f| announce_before(f, "5m", 0), WAITING, "", Some(300)),
        row("two of five minutes have passed", |f| announce_before(f, "5m", 120), WAITING, "", Some(180)),
        row("one second before the timeout", |f| announce_before(f, "5m", 299), WAITING, "", Some(1)),
        row("at the timeout", |f| announce_before(f, "5m", 300), WAITING, TIMED_OUT, None),
        row("long after the timeout", |f| announce_before(f, "5m", 600), WAITING, TIMED_OUT, None),
        row(
            "invalid duration: the default of one hour",
            |f| announce_before(f, "5minutes", 600),
            WAITING,
            "",
            Some(HOUR - 600),
        ),
        row(
            "zero: the default of one hour",
            |f| announce_before(f, "0s", 600),
            WAITING,
            "",
            Some(HOUR - 600),
        ),
        row(
            "negative: the default of one hour",
            |f| announce_before(f, "-5m", 600),
            WAITING,
            "",
            Some(HOUR - 600),
        ),
        row(
            "empty: the default of one hour has passed",
            |f| announce_before(f, "", HOUR),
            WAITING,
            TIMED_OUT,
            None,
        ),
        row(
            "timed out before",
            |f| {
                announce_before(f, "5m", 600);
                f.set_addon_condition("DeleteTimeout", "True", "AddonReasonDeletionTimedOut");
            },
            WAITING,
            TIMED_OUT,
            None,
        ),
        row(
            "timed out before, and True is reported",
            |f| {
                announce_before(f, "5m", 600);
                f.set_addon_condition("DeleteTimeout", "True", "AddonReasonDeletionTimedOut");
                f.set_instance_condition("ReadyToBeDeleted", "True", "X");
            },
            READY,
            "",
            None,
        ),
        row(
            "timed out before, and the timeout is extended",
            |f| {
                announce_before(f, "20m", 600);
                f.set_addon_condition("DeleteTimeout", "True", "AddonReasonDeletionTimedOut");
            },
            WAITING,
            "",
            Some(600),
        ),
        row(
            "revoked",
            |f| {
                announce_before(f, "5m", 600);
                f.set_addon_condition("DeleteTimeout", "True", "AddonReasonDeletionTimedOut");
                f.addon["metadata"]["annotations"] = json!({});
            },
            "",
            "",
            None,
        ),
        row(
            "revoked, and ready before",
            |f| {
                announce(f);
                f.set_addon_condition("ReadyToBeDeleted", "True", "AddonReadyToBeDeleted");
                f.addon["metadata"]["annotations"] = json!({});
            },
            READY,
            "",
            None,
        ),
    ];
    for Row { name, change, ready, timeout, next } in rows {
        let mut fixture = ready_addon();
        change(&mut fixture);
        let plan = fixture.plan();
        assert_eq!(plan.condition("ReadyToBeDeleted"), ready, "{name}");
        assert_eq!(plan.condition("DeleteTimeout"), timeout, "{name}");
        let next = next.map_or(Next::OnChange, |seconds| Next::After(Duration::from_secs(seconds)));
        assert_eq!(plan.next, next, "{name}");
    }
}

#[test]
fn instance_is_marked_while_deletion_is_announced() {
    let rows: [(&str, bool, Edit, Option<bool>); 9] = [
        ("not announced", false, |_| {}, None),
        ("announced", false, announce_only, Some(true)),
        ("announced, already marked", true, announce_only, None),
        ("no acknowledgement is needed", false, |f| f.annotate(names::DELETE_ANNOTATION, ""), None),
        ("revoked", true, |_| {}, Some(false)),
        (
            "revoked, and True is reported",
            true,
            |f| f.set_instance_condition("ReadyToBeDeleted", "True", "X"),
            None,
        ),
        (
            "revoked, and ready before",
            true,
            |f| {
                f.set_addon_condition("ReadyToBeDeleted", "True", "AddonReadyToBeDeleted");
            },
            None,
        ),
        (
            "revoked, and False is reported",
            true,
            |f| f.set_instance_condition("ReadyToBeDeleted", "False", "X"),
            Some(false),
        ),
        (
            "ready before, and announced again",
            false,
            |f| {
                announce_only(f);
                f.set_addon_condition("ReadyToBeDeleted", "True", "AddonReadyToBeDeleted");
            },
            Some(true),
        ),
    ];
    for (name, marked, change, patched) in rows {
        let mut fixture = ready_addon();
        if marked {
            fixture.instance()["spec"]["markedForDeletion"] = json!(true);
        }
        change(&mut fixture);
        let plan = fixture.plan();
        match patched {
            None => assert_eq!(plan.steps(), [""; 0], "{name}"),
            Some(mark) => assert_eq!(
                plan.body(),
                &json!({"metadata": {"resourceVersion": "6"}, "spec": {"markedForDeletion": mark}}),
                "{name}"
            ),
        }
    }
}

fn announce_only(fixture: &mut Fixture) {
    fixture.spec()["deleteAckRequired"] = json!(true);
    fixture.annotate(names::DELETE_ANNOTATION, "");
}

#[test]
fn instance_created_after_the_announcement_is_marked() {
    let mut fixture = ready_addon();
    announce(&mut fixture);
    fixture.instance = None;
    let plan = fixture.plan();
    assert_eq!(plan.steps(), ["create instance in ns"]);
    assert_eq!(plan.body()["spec"], json!({"heartbeatUpdatePeriod": "10s", "markedForDeletion": true}));
}
