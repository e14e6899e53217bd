//! The hand-shake before a deletion.

use super::*;

const HOUR: u64 = 60 * 60;

struct Row {
    name: &'static str,
    change: Alter,
    ready: &'static str,
    timeout: &'static str,
    next: Option<u64>,
}

const WAITING: &str = "False/AddonNotReadyToBeDeleted";
const READY: &str = "True/AddonReadyToBeDeleted";
const TIMED_OUT: &str = "True/AddonReasonDeletionTimedOut";

fn ask(world: &mut World) {
    world.spec()["deleteAckRequired"] = json!(true);
    world.annotate(addon::DELETE, "");
    world.instance()["spec"]["markedForDeletion"] = json!(true);
}

fn wait(world: &mut World, timeout: &str, seconds: u64) {
    ask(world);
    world.annotate(addon::DELETE_TIMEOUT_AFTER, timeout);
    world.said("ReadyToBeDeleted", "False", "AddonNotReadyToBeDeleted");
    world.pass(seconds);
}

#[test]
fn the_add_on_is_waited_for_as_long_as_it_may_take() {
    let row = |name, change, ready, timeout, next| Row { name, change, ready, timeout, next };
    let rows = [
        row("nobody asks", |_| {}, "", "", None),
        row("no acknowledgement is needed", |w| w.annotate(addon::DELETE, "x"), READY, "", None),
        row(
            "it was ready before",
            |w| {
                ask(w);
                w.said("ReadyToBeDeleted", "True", "AddonReadyToBeDeleted");
            },
            READY,
            "",
            None,
        ),
        row("it says nothing", ask, WAITING, "", Some(HOUR)),
        row(
            "it does not know",
            |w| {
                ask(w);
                w.says("ReadyToBeDeleted", "Unknown", "X");
            },
            WAITING,
            "",
            Some(HOUR),
        ),
        row(
            "it says no",
            |w| {
                ask(w);
                w.says("ReadyToBeDeleted", "False", "X");
            },
            WAITING,
            "",
            Some(HOUR),
        ),
        row(
            "it says yes",
            |w| {
                ask(w);
                w.says("ReadyToBeDeleted", "True", "X");
            },
            READY,
            "",
            None,
        ),
        row(
            "the instance is gone",
            |w| {
                ask(w);
                w.instance = None;
            },
            WAITING,
            "",
            Some(HOUR),
        ),
        row(
            "another's instance says yes",
            |w| {
                ask(w);
                w.says("ReadyToBeDeleted", "True", "X");
                w.instance()["metadata"]["ownerReferences"] = json!([owner("other", true)]);
            },
            WAITING,
            "",
            Some(HOUR),
        ),
        row("five minutes", |w| wait(w, "5m", 0), WAITING, "", Some(300)),
        row("two of five minutes later", |w| wait(w, "5m", 120), WAITING, "", Some(180)),
        row("a second before the end", |w| wait(w, "5m", 299), WAITING, "", Some(1)),
        row("at the end", |w| wait(w, "5m", 300), WAITING, TIMED_OUT, None),
        row("long after the end", |w| wait(w, "5m", 600), WAITING, TIMED_OUT, None),
        row("no duration", |w| wait(w, "5minutes", 600), WAITING, "", Some(HOUR - 600)),
        row("no time at all", |w| wait(w, "0s", 600), WAITING, "", Some(HOUR - 600)),
        row("less than no time", |w| wait(w, "-5m", 600), WAITING, "", Some(HOUR - 600)),
        row("an hour, which is what counts else", |w| wait(w, "", HOUR), WAITING, TIMED_OUT, None),
        row(
            "it is late",
            |w| {
                wait(w, "5m", 600);
                w.said("DeleteTimeout", "True", "AddonReasonDeletionTimedOut");
            },
            WAITING,
            TIMED_OUT,
            None,
        ),
        row(
            "it is late, and says yes",
            |w| {
                wait(w, "5m", 600);
                w.said("DeleteTimeout", "True", "AddonReasonDeletionTimedOut");
                w.says("ReadyToBeDeleted", "True", "X");
            },
            READY,
            "",
            None,
        ),
        row(
            "it is late, and gets more time",
            |w| {
                wait(w, "20m", 600);
                w.said("DeleteTimeout", "True", "AddonReasonDeletionTimedOut");
            },
            WAITING,
            "",
            Some(600),
        ),
        row(
            "nobody asks any more",
            |w| {
                wait(w, "5m", 600);
                w.said("DeleteTimeout", "True", "AddonReasonDeletionTimedOut");
                w.addon["metadata"]["annotations"] = json!({});
            },
            "",
            "",
            None,
        ),
        row(
            "nobody asks any more, and it was ready",
            |w| {
                ask(w);
                w.said("ReadyToBeDeleted", "True", "AddonReadyToBeDeleted");
                w.addon["metadata"]["annotations"] = json!({});
            },
            READY,
            "",
            None,
        ),
    ];
    for Row { name, change, ready, timeout, next } in rows {
        let mut world = settled();
        change(&mut world);
        let plan = world.plan();
        assert_eq!(plan.says("ReadyToBeDeleted"), ready, "{name}");
        assert_eq!(plan.says("DeleteTimeout"), timeout, "{name}");
        let next = next.map_or(Next::OnChange, |seconds| Next::After(Duration::from_secs(seconds)));
        assert_eq!(plan.next, next, "{name}");
    }
}

#[test]
fn the_instance_is_marked_for_as_long_as_somebody_asks() {
    let rows: [(&str, bool, Alter, Option<bool>); 9] = [
        ("nobody asks", false, |_| {}, None),
        ("somebody asks", false, ask_only, Some(true)),
        ("somebody asks still", true, ask_only, None),
        ("no acknowledgement is needed", false, |w| w.annotate(addon::DELETE, ""), None),
        ("nobody asks any more", true, |_| {}, Some(false)),
        ("nobody asks any more, and it is ready", true, |w| w.says("ReadyToBeDeleted", "True", "X"), None),
        (
            "nobody asks any more, and it was ready",
            true,
            |w| {
                w.said("ReadyToBeDeleted", "True", "AddonReadyToBeDeleted");
            },
            None,
        ),
        (
            "nobody asks any more, and it is not ready",
            true,
            |w| w.says("ReadyToBeDeleted", "False", "X"),
            Some(false),
        ),
        (
            "it was ready, and somebody asks",
            false,
            |w| {
                ask_only(w);
                w.said("ReadyToBeDeleted", "True", "AddonReadyToBeDeleted");
            },
            Some(true),
        ),
    ];
    for (name, marked, change, patched) in rows {
        let mut world = settled();
        if marked {
            world.instance()["spec"]["markedForDeletion"] = json!(true);
        }
        change(&mut world);
        let plan = world.plan();
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

fn ask_only(world: &mut World) {
    world.spec()["deleteAckRequired"] = json!(true);
    world.annotate(addon::DELETE, "");
}

#[test]
fn an_instance_made_during_the_wait_is_made_with_the_mark() {
    let mut world = settled();
    ask(&mut world);
    world.instance = None;
    let plan = world.plan();
    assert_eq!(plan.steps(), ["create instance in ns"]);
    assert_eq!(plan.body()["spec"], json!({"heartbeatUpdatePeriod": "10s", "markedForDeletion": true}));
}
