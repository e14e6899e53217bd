use bellwether_api::addon::{AddOnTemplate, ManagedClusterAddOnStatus};
use bellwether_conditions::{ConditionSet, TransitionKey};
use serde_json::json;

use super::*;
use crate::rollout::WaitReason;
use crate::works::WorkState;

mod messages;

fn catalogue(versions: &[&str]) -> Catalogue {
    let template = |version: &&str| -> AddOnTemplate {
        serde_json::from_value(json!({
            "metadata": {"name": format!("hello-{version}")},
            "spec": {"addonName": "hello", "version": version, "agentSpec": {}},
        }))
        .unwrap()
    };
    let templates: Vec<AddOnTemplate> = versions.iter().map(template).collect();
    Catalogue::of("hello", &templates, None)
}

fn now() -> Timestamp {
    "2024-05-01T10:00:00Z".parse().unwrap()
}

fn rendered(work_state: WorkState) -> Rendering {
    Rendering::Rendered(WorkStates {
        desired: vec![("addon-hello-deploy-0".to_owned(), work_state)],
        surplus: vec![],
    })
}

fn standing(begun: &str, current: &str, last: &str) -> Standing {
    Standing {
        begun: Version::new(begun),
        current: StatusVersion::read(current),
        last: StatusVersion::read(last),
        ..Standing::default()
    }
}

/// A decision in one line: the versions, the condition Progressing and its message.
fn summarize(decision: &ProgressDecision) -> String {
    let ProgressDecision { begun, current, last, .. } = decision;
    let progressing = decision.progressing.as_ref().map_or("-".to_owned(), |condition| {
        format!("{}/{}: {}", condition.status, condition.reason, condition.message)
    });
    format!("P={} C={current} L={last} {progressing}", StatusVersion::from(begun.clone()))
}

struct Row {
    number: &'static str,
    requested: &'static str,
    standing: Standing,
    rendering: Rendering,
    deadline: Option<Duration>,
    expected: &'static str,
    work_action: WorkAction,
}

/// The table of `spec/lifecycle.md` 3.3, for an add-on with the versions v1 and v2.
fn table() -> Vec<Row> {
    let row = |number, requested, standing, rendering, expected, work_action| Row {
        number,
        requested,
        standing,
        rendering,
        deadline: None,
        expected,
        work_action,
    };
    let broken = || Rendering::Failed("manifest 0 has no kind".to_owned());
    let rejected = || rendered(WorkState::NotApplied("it was rejected".to_owned()));
    let overdue = |begun: &str, last: &str| Standing {
        change: ChangeState::InProgress("2024-05-01T09:00:00Z".parse().unwrap()),
        ..standing(begun, "unknown", last)
    };
    let mut rows = vec![
        row(
            "3 fresh",
            "v3",
            standing("", "", ""),
            rendered(WorkState::Missing),
            "P=v3 C=unknown L= False/Failed: could not install invalid version v3",
            WorkAction::Keep,
        ),
        row(
            "3 again",
            "v3",
            standing("v3", "unknown", ""),
            rendered(WorkState::Missing),
            "P=v3 C=unknown L= False/Failed: could not install invalid version v3",
            WorkAction::Keep,
        ),
        row(
            "4",
            "v3",
            standing("v1", "v1", ""),
            rendered(WorkState::Stale),
            "P=v3 C=unknown L=v1 False/Failed: could not upgrade to invalid version v3",
            WorkAction::Keep,
        ),
        row(
            "5",
            "v0",
            standing("v1", "v1", ""),
            rendered(WorkState::Stale),
            "P=v0 C=unknown L=v1 False/Failed: could not rollback to invalid version v0",
            WorkAction::Keep,
        ),
        row(
            "6",
            "nightly",
            standing("v1", "v1", ""),
            rendered(WorkState::Stale),
            "P=nightly C=unknown L=v1 False/Failed: could not install invalid version nightly",
            WorkAction::Keep,
        ),
        row(
            "6 equal",
            "1.0",
            standing("v1", "v1", ""),
            rendered(WorkState::Stale),
            "P=1.0 C=unknown L=v1 False/Failed: could not install invalid version 1.0",
            WorkAction::Keep,
        ),
        row(
            "7 install",
            "v1",
            standing("", "", ""),
            broken(),
            "P=v1 C=unknown L= False/Failed: could not install version v1: manifest 0 has no kind",
            WorkAction::Keep,
        ),
        row(
            "7 upgrade",
            "v2",
            standing("v1", "v1", ""),
            broken(),
            "P=v2 C=unknown L=v1 False/Failed: could not upgrade to version v2: manifest 0 has no kind",
            WorkAction::Keep,
        ),
        row(
            "7 rollback",
            "v1",
            standing("v2", "v2", ""),
            broken(),
            "P=v1 C=unknown L=v2 False/Failed: could not rollback to version v1: manifest 0 has no kind",
            WorkAction::Keep,
        ),
        row(
            "8 fresh",
            "v1",
            standing("v1", "unknown", ""),
            rendered(WorkState::Ready),
            "P=v1 C=v1 L= False/Succeed: install completed with no errors.",
            WorkAction::Apply,
        ),
        row(
            "8 upgraded",
            "v2",
            standing("v2", "unknown", "v1"),
            rendered(WorkState::Ready),
            "P=v2 C=v2 L=v1 False/Succeed: install completed with no errors.",
            WorkAction::Apply,
        ),
        row(
            "8 rolled back",
            "v1",
            standing("v1", "unknown", "v2"),
            rendered(WorkState::Ready),
            "P=v1 C=v1 L=v2 False/Succeed: install completed with no errors.",
            WorkAction::Apply,
        ),
        row(
            "8 at once",
            "v1",
            standing("v3", "unknown", "v1"),
            rendered(WorkState::Ready),
            "P=v1 C=v1 L=v3 False/Succeed: install completed with no errors.",
            WorkAction::Apply,
        ),
        row(
            "8 no objects",
            "v1",
            standing("", "", ""),
            Rendering::Rendered(WorkStates::default()),
            "P=v1 C=v1 L= False/Succeed: install completed with no errors.",
            WorkAction::Apply,
        ),
        row(
            "9",
            "v1",
            standing("v1", "unknown", ""),
            rejected(),
            "P=v1 C=unknown L= False/Failed: could not install version v1: work addon-hello-deploy-0: it was rejected",
            WorkAction::Apply,
        ),
        row(
            "10",
            "v2",
            standing("v2", "unknown", "v1"),
            rejected(),
            "P=v2 C=unknown L=v1 False/Failed: could not upgrade to version v2: work addon-hello-deploy-0: it was rejected",
            WorkAction::Apply,
        ),
        row(
            "11",
            "v1",
            standing("v1", "unknown", "v2"),
            rejected(),
            "P=v1 C=unknown L=v2 False/Failed: could not rollback to version v1: work addon-hello-deploy-0: it was rejected",
            WorkAction::Apply,
        ),
        row(
            "16 spelling",
            "v2",
            standing("v2", "unknown", "2.0"),
            rendered(WorkState::Pending),
            "P=v2 C=unknown L=2.0 True/Upgrading: Upgrading addon to version v2.",
            WorkAction::Apply,
        ),
        row(
            "16 names",
            "v2",
            standing("v2", "unknown", "nightly"),
            rendered(WorkState::Pending),
            "P=v2 C=unknown L=nightly True/Upgrading: Upgrading addon to version v2.",
            WorkAction::Apply,
        ),
        row(
            "crash before the status was written",
            "v2",
            standing("v1", "v1", ""),
            rendered(WorkState::Stale),
            "P=v2 C=unknown L=v1 True/Upgrading: Upgrading addon to version v2.",
            WorkAction::Apply,
        ),
    ];
    let unfinished = [
        WorkState::Missing,
        WorkState::Stale,
        WorkState::Pending,
        WorkState::NotAvailable("one of two objects does not exist".to_owned()),
        WorkState::Unknown("availability is unknown".to_owned()),
    ];
    for work_state in unfinished {
        let directions = [
            ("13 fresh", "v1", "", "P=v1 C=unknown L= True/Installing: Installing addon to version v1."),
            (
                "13 unknown",
                "v1",
                "unknown",
                "P=v1 C=unknown L=unknown True/Installing: Installing addon to version v1.",
            ),
            ("14", "v2", "v1", "P=v2 C=unknown L=v1 True/Upgrading: Upgrading addon to version v2."),
            ("15", "v1", "v2", "P=v1 C=unknown L=v2 True/Rollingback: Rollingback addon to version v1."),
        ];
        for (number, version, last, expected) in directions {
            rows.push(row(
                number,
                version,
                standing(version, "unknown", last),
                rendered(work_state.clone()),
                expected,
                WorkAction::Apply,
            ));
        }
    }
    let timed_out = [
        (
            "12 install",
            "v1",
            "",
            "P=v1 C=unknown L= False/Failed: could not install version v1: timed out after 5m",
        ),
        (
            "12 upgrade",
            "v2",
            "v1",
            "P=v2 C=unknown L=v1 False/Failed: could not upgrade to version v2: timed out after 5m",
        ),
        (
            "12 rollback",
            "v1",
            "v2",
            "P=v1 C=unknown L=v2 False/Failed: could not rollback to version v1: timed out after 5m",
        ),
    ];
    for (number, version, last, expected) in timed_out {
        let late = row(
            number,
            version,
            overdue(version, last),
            rendered(WorkState::Pending),
            expected,
            WorkAction::Apply,
        );
        rows.push(Row { deadline: Some(Duration::from_secs(300)), ..late });
    }
    rows
}

#[test]
fn every_row_of_the_table_is_decided_as_specified() {
    let catalogue = catalogue(&["v1", "v2"]);
    for row in table() {
        let decision = decide(&ProgressInput {
            addon: "hello",
            generation: 4,
            is_deleting: false,
            requested: Version::new(row.requested).as_ref(),
            standing: &row.standing,
            reconfigured: false,
            catalogue: &catalogue,
            turn: Turn::MayStart,
            rendering: row.rendering,
            has_starting_workload: false,
            running: None,
            foreign_works: &[],
            rejection: None,
            deadline: row.deadline,
            now: now(),
        });
        assert_eq!(summarize(&decision), row.expected, "row {}", row.number);
        assert_eq!(decision.work_action, row.work_action, "row {}", row.number);
        assert_eq!(decision.progressing.and_then(|condition| condition.observed_generation), Some(4));
    }
}

/// An add-on on a cluster whose status is carried from one reconcile to the next.
struct AddonScenario {
    catalogue: Catalogue,
    status: ManagedClusterAddOnStatus,
    work_state: WorkState,
    has_starting_workload: bool,
    requested: &'static str,
    turn: Turn,
    deadline: Option<Duration>,
    now: Timestamp,
}

impl AddonScenario {
    fn new(versions: &[&str]) -> Self {
        Self {
            catalogue: catalogue(versions),
            status: ManagedClusterAddOnStatus::default(),
            work_state: WorkState::Missing,
            has_starting_workload: false,
            requested: "",
            turn: Turn::MayStart,
            deadline: None,
            now: now(),
        }
    }

    fn decide(&self, reconfigured: bool) -> ProgressDecision {
        decide(&ProgressInput {
            addon: "hello",
            generation: 1,
            is_deleting: false,
            requested: Version::new(self.requested).as_ref(),
            standing: &Standing::read(&self.status),
            reconfigured,
            catalogue: &self.catalogue,
            turn: self.turn.clone(),
            rendering: rendered(self.work_state.clone()),
            has_starting_workload: self.has_starting_workload,
            running: None,
            foreign_works: &[],
            rejection: None,
            deadline: self.deadline,
            now: self.now,
        })
    }

    /// Decides and stores the result in the status, as the controller does; returns the decision in one line.
    fn reconcile(&mut self) -> String {
        self.reconcile_with(false)
    }

    fn reconcile_with(&mut self, reconfigured: bool) -> String {
        let decision = self.decide(reconfigured);
        let summary = summarize(&decision);
        let conditions = serde_json::to_value(&self.status.conditions).unwrap();
        let mut set: ConditionSet = serde_json::from_value(conditions).unwrap();
        for condition in decision.progressing.into_iter().chain(decision.configured) {
            let after = decision.begun.as_ref().map(Version::as_str).unwrap_or_default();
            let before = self.status.install_version.as_str();
            let _ = set.upsert(condition, TransitionKey::StatusReasonAndTarget { before, after }, self.now);
        }
        self.status.conditions = serde_json::from_value(serde_json::to_value(&set).unwrap()).unwrap();
        self.status.install_version = StatusVersion::from(decision.begun).to_string();
        self.status.current_version = decision.current.to_string();
        self.status.last_version = decision.last.to_string();
        self.status.failure = decision.change.failure();
        summary
    }

    fn request(&mut self, version: &'static str) -> &mut Self {
        self.requested = version;
        self
    }

    fn set_work_state(&mut self, work_state: WorkState) -> &mut Self {
        self.work_state = work_state;
        self
    }

    fn configured(&self) -> &str {
        let found = self.status.conditions.iter().find(|condition| condition.type_ == CONFIGURED);
        found.map_or("", |condition| condition.reason.as_str())
    }
}

#[test]
fn fresh_install_waits_for_default_version() {
    let mut scenario = AddonScenario::new(&[]);
    assert_eq!(
        scenario.reconcile(),
        "P= C= L= True/Installing: Waiting for ClusterManagementAddOn hello status.defaultVersion."
    );
    scenario.catalogue = catalogue(&["v1"]);
    assert_eq!(scenario.reconcile(), "P=v1 C=unknown L= True/Installing: Installing addon to version v1.");
    assert_eq!(
        scenario.set_work_state(WorkState::Ready).reconcile(),
        "P=v1 C=v1 L= False/Succeed: install completed with no errors."
    );
}

#[test]
fn addon_without_requested_version_follows_default() {
    let mut scenario = AddonScenario::new(&["v1"]);
    scenario.reconcile();
    scenario.set_work_state(WorkState::Ready).reconcile();
    scenario.catalogue = catalogue(&["v1", "v2"]);
    assert_eq!(
        scenario.set_work_state(WorkState::Stale).reconcile(),
        "P=v2 C=unknown L=v1 True/Upgrading: Upgrading addon to version v2."
    );
    assert_eq!(
        scenario.set_work_state(WorkState::Ready).reconcile(),
        "P=v2 C=v2 L=v1 False/Succeed: install completed with no errors."
    );
    assert_eq!(
        scenario.request("v1").set_work_state(WorkState::Stale).reconcile(),
        "P=v1 C=unknown L=v2 True/Rollingback: Rollingback addon to version v1."
    );
    assert_eq!(
        scenario.set_work_state(WorkState::Ready).reconcile(),
        "P=v1 C=v1 L=v2 False/Succeed: install completed with no errors."
    );
}

fn at_v1() -> AddonScenario {
    let mut scenario = AddonScenario::new(&["v1", "v2"]);
    scenario.request("v1").reconcile();
    scenario.set_work_state(WorkState::Ready).reconcile();
    scenario
}

#[test]
fn change_after_invalid_version_is_an_installation() {
    let mut scenario = at_v1();
    assert_eq!(
        scenario.request("v3").set_work_state(WorkState::Stale).reconcile(),
        "P=v3 C=unknown L=v1 False/Failed: could not upgrade to invalid version v3"
    );
    assert_eq!(scenario.configured(), "InvalidVersion");
    assert_eq!(
        scenario.request("v2").reconcile(),
        "P=v2 C=unknown L=unknown True/Installing: Installing addon to version v2."
    );
    assert_eq!(
        scenario.set_work_state(WorkState::Ready).reconcile(),
        "P=v2 C=v2 L=unknown False/Succeed: install completed with no errors."
    );
}

#[test]
fn return_from_invalid_version_succeeds_at_once() {
    let mut scenario = at_v1();
    scenario.request("v3").set_work_state(WorkState::Stale).reconcile();
    assert_eq!(
        scenario.request("v1").set_work_state(WorkState::Ready).reconcile(),
        "P=v1 C=v1 L=unknown False/Succeed: install completed with no errors."
    );
}

#[test]
fn invalid_version_is_remembered_while_waiting_and_after_it_is_added() {
    let mut scenario = at_v1();
    scenario.request("v3").set_work_state(WorkState::Stale).reconcile();
    scenario.turn = Turn::Waits(WaitReason::Paused);
    scenario.request("v2").reconcile();
    assert_eq!(scenario.configured(), "WaitingForTurn");
    scenario.catalogue = catalogue(&["v1", "v2", "v3"]);
    scenario.turn = Turn::MayStart;
    assert_eq!(
        scenario.reconcile(),
        "P=v2 C=unknown L=unknown True/Installing: Installing addon to version v2."
    );
}

#[test]
fn last_version_stays_valid_after_its_removal() {
    let mut scenario = at_v1();
    scenario.catalogue = catalogue(&["v2"]);
    assert_eq!(
        scenario.request("v2").set_work_state(WorkState::Stale).reconcile(),
        "P=v2 C=unknown L=v1 True/Upgrading: Upgrading addon to version v2."
    );
}

#[test]
fn last_version_is_previously_requested_one_even_if_not_completed() {
    let mut scenario = at_v1();
    scenario.catalogue = catalogue(&["v1", "v2", "v3"]);
    scenario.request("v2").set_work_state(WorkState::Stale).reconcile();
    scenario.set_work_state(WorkState::Pending);
    assert_eq!(
        scenario.request("v3").reconcile(),
        "P=v3 C=unknown L=v2 True/Upgrading: Upgrading addon to version v3."
    );
    assert_eq!(
        scenario.request("v1").reconcile(),
        "P=v1 C=unknown L=v3 True/Rollingback: Rollingback addon to version v1."
    );
}

#[test]
fn success_persists_while_works_are_deployed() {
    let mut scenario = at_v1();
    for drift in [
        WorkState::Pending,
        WorkState::NotAvailable("object was deleted".to_owned()),
        WorkState::Unknown("availability is unknown".to_owned()),
    ] {
        assert_eq!(
            scenario.set_work_state(drift).reconcile(),
            "P=v1 C=v1 L= False/Succeed: install completed with no errors."
        );
    }
    // A24 and A28: the configurations changed, and a ManifestWork was deleted.
    assert_eq!(
        scenario.set_work_state(WorkState::Pending).reconcile_with(true),
        "P=v1 C=unknown L= True/Installing: Installing addon to version v1."
    );
    assert_eq!(
        scenario.set_work_state(WorkState::Ready).reconcile(),
        "P=v1 C=v1 L= False/Succeed: install completed with no errors."
    );
    assert_eq!(
        scenario.set_work_state(WorkState::Missing).reconcile(),
        "P=v1 C=unknown L= True/Installing: Installing addon to version v1."
    );
}

#[test]
fn failed_change_succeeds_when_cause_disappears() {
    let mut scenario = at_v1();
    scenario.request("v2").set_work_state(WorkState::Stale).reconcile();
    let rejected = WorkState::NotApplied("quota exceeded".to_owned());
    assert_eq!(
        scenario.set_work_state(rejected).reconcile(),
        "P=v2 C=unknown L=v1 False/Failed: could not upgrade to version v2: work addon-hello-deploy-0: quota exceeded"
    );
    assert_eq!(
        scenario.set_work_state(WorkState::Ready).reconcile(),
        "P=v2 C=v2 L=v1 False/Succeed: install completed with no errors."
    );
}

#[test]
fn running_version_that_is_removed_stays_and_is_marked_unsupported() {
    let mut scenario = at_v1();
    scenario.catalogue = catalogue(&["v2"]);
    let decision = scenario.decide(false);
    assert_eq!(summarize(&decision), "P=v1 C=v1 L= False/Succeed: install completed with no errors.");
    assert_eq!((decision.is_unsupported, decision.work_action), (true, WorkAction::Keep));
}

#[test]
fn waiting_cluster_keeps_status_and_reports_wait_reason() {
    let mut scenario = at_v1();
    scenario.turn = Turn::Waits(WaitReason::ConcurrencyLimit(2));
    let decision = scenario.request("v2").set_work_state(WorkState::Stale).decide(true);
    assert_eq!(summarize(&decision), "P=v1 C=v1 L= -");
    assert_eq!(decision.work_action, WorkAction::Keep);
    let configured = decision.configured.unwrap();
    assert_eq!((configured.status, configured.reason.as_str()), (Status::False, "WaitingForTurn"));
    assert_eq!(configured.message, "at most 2 at a time");
}

#[test]
fn deleted_addon_is_left_unchanged() {
    let scenario = at_v1();
    let standing = Standing::read(&scenario.status);
    let decision = decide(&ProgressInput {
        addon: "hello",
        generation: 2,
        is_deleting: true,
        requested: Version::new("v2").as_ref(),
        standing: &standing,
        reconfigured: true,
        catalogue: &scenario.catalogue,
        turn: Turn::MayStart,
        rendering: rendered(WorkState::Missing),
        has_starting_workload: false,
        running: None,
        foreign_works: &[],
        rejection: None,
        deadline: None,
        now: now(),
    });
    assert_eq!(summarize(&decision), "P=v1 C=v1 L= -");
    assert_eq!((decision.configured, decision.work_action), (None, WorkAction::Keep));
}

#[test]
fn timed_out_change_stays_failed_until_done_or_restarted() {
    let mut scenario = at_v1();
    scenario.deadline = Some(Duration::from_secs(90));
    let begun = scenario.now;
    scenario.request("v2").set_work_state(WorkState::Stale).reconcile();
    scenario.set_work_state(WorkState::Pending);
    assert_eq!(scenario.decide(false).recheck_at, Some(begun + SignedDuration::from_secs(90)));
    scenario.now = begun + SignedDuration::from_secs(89);
    assert_eq!(scenario.reconcile(), "P=v2 C=unknown L=v1 True/Upgrading: Upgrading addon to version v2.");
    let late = "P=v2 C=unknown L=v1 False/Failed: could not upgrade to version v2: timed out after 1m30s";
    for second in [90, 91, 1000] {
        scenario.now = begun + SignedDuration::from_secs(second);
        assert_eq!(scenario.reconcile(), late);
    }
    assert_eq!(
        scenario.reconcile_with(true),
        "P=v2 C=unknown L=v1 True/Upgrading: Upgrading addon to version v2."
    );
    scenario.now += SignedDuration::from_secs(91);
    assert_eq!(scenario.reconcile(), late);
    assert_eq!(
        scenario.set_work_state(WorkState::Ready).reconcile(),
        "P=v2 C=v2 L=v1 False/Succeed: install completed with no errors."
    );
}

#[test]
fn applied_change_waits_briefly_for_workloads() {
    let in_progress = "P=v2 C=unknown L=v1 True/Upgrading: Upgrading addon to version v2.";
    let done = "P=v2 C=v2 L=v1 False/Succeed: install completed with no errors.";
    // The deadline, the seconds after the start at which it is decided, and until when it waits.
    let rows = [
        (None, 0, Some(10)),
        (None, 9, Some(10)),
        (None, 10, None),
        (Some(3600), 9, Some(10)),
        (Some(8), 3, Some(4)),
        (Some(8), 4, None),
        (Some(8), 9, None),
        // The start time is in the future, written with another clock.
        (None, -60, None),
    ];
    for (deadline, second, until) in rows {
        let mut scenario = at_v1();
        let begun = scenario.now;
        let at = |second: i64| begun + SignedDuration::from_secs(second);
        scenario.deadline = deadline.map(Duration::from_secs);
        scenario.request("v2").set_work_state(WorkState::Stale).reconcile();
        scenario.set_work_state(WorkState::Ready).has_starting_workload = true;
        scenario.now = at(second);
        let decision = scenario.decide(false);
        let expected = if until.is_some() { in_progress } else { done };
        let row = format!("{deadline:?} {second}");
        assert_eq!((summarize(&decision).as_str(), decision.recheck_at), (expected, until.map(at)), "{row}");
        assert_eq!(decision.work_action, WorkAction::Apply, "{row}");
        scenario.has_starting_workload = false;
        assert_eq!(scenario.reconcile(), done, "{row}, and the workloads are available");
        scenario.has_starting_workload = true;
        assert_eq!(scenario.reconcile(), done, "{row}, and success persists");
    }
}

#[test]
fn durations_are_formatted_as_in_strategies() {
    for (seconds, text) in [(0, "0s"), (5, "5s"), (90, "1m30s"), (300, "5m"), (3661, "1h1m1s"), (7200, "2h")]
    {
        assert_eq!(format_duration(Duration::from_secs(seconds)), text);
    }
}
