use bellwether_api::addon::{AddOnTemplate, ManagedClusterAddOnStatus};
use bellwether_conditions::{ConditionSet, TransitionKey};
use serde_json::json;

use super::*;
use crate::rollout::WaitReason;
use crate::works::Stand;

mod words;

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

fn made(stand: Stand) -> Rendering {
    Rendering::Made(Stands { wanted: vec![("addon-hello-deploy-0".to_owned(), stand)], surplus: vec![] })
}

fn standing(begun: &str, current: &str, last: &str) -> Standing {
    Standing {
        begun: Version::new(begun),
        current: StatusVersion::read(current),
        last: StatusVersion::read(last),
        ..Standing::default()
    }
}

/// What a verdict says, in a line: the versions, the condition, its message.
fn line(verdict: &Verdict) -> String {
    let Verdict { begun, current, last, .. } = verdict;
    let said = verdict.progressing.as_ref().map_or("-".to_owned(), |condition| {
        format!("{}/{}: {}", condition.status, condition.reason, condition.message)
    });
    format!("P={} C={current} L={last} {said}", StatusVersion::from(begun.clone()))
}

struct Row {
    number: &'static str,
    requested: &'static str,
    standing: Standing,
    rendering: Rendering,
    deadline: Option<Duration>,
    wanted: &'static str,
    works: Deed,
}

/// The table of `spec/lifecycle.md` 3.3, for an add-on with the versions v1 and v2.
fn table() -> Vec<Row> {
    let row = |number, requested, standing, rendering, wanted, works| Row {
        number,
        requested,
        standing,
        rendering,
        deadline: None,
        wanted,
        works,
    };
    let broken = || Rendering::Failed("manifest 0 has no kind".to_owned());
    let refused = || made(Stand::NotApplied("it was refused".to_owned()));
    let overdue = |begun: &str, last: &str| Standing {
        course: Course::Since("2024-05-01T09:00:00Z".parse().unwrap()),
        ..standing(begun, "unknown", last)
    };
    let mut rows = vec![
        row(
            "3 fresh",
            "v3",
            standing("", "", ""),
            made(Stand::Missing),
            "P=v3 C=unknown L= False/Failed: could not install invalid version v3",
            Deed::Leave,
        ),
        row(
            "3 again",
            "v3",
            standing("v3", "unknown", ""),
            made(Stand::Missing),
            "P=v3 C=unknown L= False/Failed: could not install invalid version v3",
            Deed::Leave,
        ),
        row(
            "4",
            "v3",
            standing("v1", "v1", ""),
            made(Stand::Stale),
            "P=v3 C=unknown L=v1 False/Failed: could not upgrade to invalid version v3",
            Deed::Leave,
        ),
        row(
            "5",
            "v0",
            standing("v1", "v1", ""),
            made(Stand::Stale),
            "P=v0 C=unknown L=v1 False/Failed: could not rollback to invalid version v0",
            Deed::Leave,
        ),
        row(
            "6",
            "nightly",
            standing("v1", "v1", ""),
            made(Stand::Stale),
            "P=nightly C=unknown L=v1 False/Failed: could not install invalid version nightly",
            Deed::Leave,
        ),
        row(
            "6 equal",
            "1.0",
            standing("v1", "v1", ""),
            made(Stand::Stale),
            "P=1.0 C=unknown L=v1 False/Failed: could not install invalid version 1.0",
            Deed::Leave,
        ),
        row(
            "7 install",
            "v1",
            standing("", "", ""),
            broken(),
            "P=v1 C=unknown L= False/Failed: could not install version v1: manifest 0 has no kind",
            Deed::Leave,
        ),
        row(
            "7 upgrade",
            "v2",
            standing("v1", "v1", ""),
            broken(),
            "P=v2 C=unknown L=v1 False/Failed: could not upgrade to version v2: manifest 0 has no kind",
            Deed::Leave,
        ),
        row(
            "7 rollback",
            "v1",
            standing("v2", "v2", ""),
            broken(),
            "P=v1 C=unknown L=v2 False/Failed: could not rollback to version v1: manifest 0 has no kind",
            Deed::Leave,
        ),
        row(
            "8 fresh",
            "v1",
            standing("v1", "unknown", ""),
            made(Stand::Ready),
            "P=v1 C=v1 L= False/Succeed: install completed with no errors.",
            Deed::Bring,
        ),
        row(
            "8 upgraded",
            "v2",
            standing("v2", "unknown", "v1"),
            made(Stand::Ready),
            "P=v2 C=v2 L=v1 False/Succeed: install completed with no errors.",
            Deed::Bring,
        ),
        row(
            "8 rolled back",
            "v1",
            standing("v1", "unknown", "v2"),
            made(Stand::Ready),
            "P=v1 C=v1 L=v2 False/Succeed: install completed with no errors.",
            Deed::Bring,
        ),
        row(
            "8 at once",
            "v1",
            standing("v3", "unknown", "v1"),
            made(Stand::Ready),
            "P=v1 C=v1 L=v3 False/Succeed: install completed with no errors.",
            Deed::Bring,
        ),
        row(
            "8 no objects",
            "v1",
            standing("", "", ""),
            Rendering::Made(Stands::default()),
            "P=v1 C=v1 L= False/Succeed: install completed with no errors.",
            Deed::Bring,
        ),
        row(
            "9",
            "v1",
            standing("v1", "unknown", ""),
            refused(),
            "P=v1 C=unknown L= False/Failed: could not install version v1: work addon-hello-deploy-0: it was refused",
            Deed::Bring,
        ),
        row(
            "10",
            "v2",
            standing("v2", "unknown", "v1"),
            refused(),
            "P=v2 C=unknown L=v1 False/Failed: could not upgrade to version v2: work addon-hello-deploy-0: it was refused",
            Deed::Bring,
        ),
        row(
            "11",
            "v1",
            standing("v1", "unknown", "v2"),
            refused(),
            "P=v1 C=unknown L=v2 False/Failed: could not rollback to version v1: work addon-hello-deploy-0: it was refused",
            Deed::Bring,
        ),
        row(
            "16 spelling",
            "v2",
            standing("v2", "unknown", "2.0"),
            made(Stand::Behind),
            "P=v2 C=unknown L=2.0 True/Upgrading: Upgrading addon to version v2.",
            Deed::Bring,
        ),
        row(
            "16 names",
            "v2",
            standing("v2", "unknown", "nightly"),
            made(Stand::Behind),
            "P=v2 C=unknown L=nightly True/Upgrading: Upgrading addon to version v2.",
            Deed::Bring,
        ),
        row(
            "crash before the first word",
            "v2",
            standing("v1", "v1", ""),
            made(Stand::Stale),
            "P=v2 C=unknown L=v1 True/Upgrading: Upgrading addon to version v2.",
            Deed::Bring,
        ),
    ];
    let unfinished = [
        Stand::Missing,
        Stand::Stale,
        Stand::Behind,
        Stand::NotAvailable("one of two is not there".to_owned()),
        Stand::Unknown("it cannot be told".to_owned()),
    ];
    for stand in unfinished {
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
        for (number, version, last, wanted) in directions {
            rows.push(row(
                number,
                version,
                standing(version, "unknown", last),
                made(stand.clone()),
                wanted,
                Deed::Bring,
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
    for (number, version, last, wanted) in timed_out {
        let late = row(number, version, overdue(version, last), made(Stand::Behind), wanted, Deed::Bring);
        rows.push(Row { deadline: Some(Duration::from_secs(300)), ..late });
    }
    rows
}

#[test]
fn every_row_of_the_table_says_what_it_says() {
    let catalogue = catalogue(&["v1", "v2"]);
    for row in table() {
        let verdict = decide(&Observed {
            addon: "hello",
            generation: 4,
            deleting: false,
            requested: Version::new(row.requested).as_ref(),
            standing: &row.standing,
            reconfigured: false,
            catalogue: &catalogue,
            turn: Turn::Come,
            rendering: row.rendering,
            coming_up: false,
            running: None,
            strangers: &[],
            refused: None,
            deadline: row.deadline,
            now: now(),
        });
        assert_eq!(line(&verdict), row.wanted, "row {}", row.number);
        assert_eq!(verdict.works, row.works, "row {}", row.number);
        assert_eq!(verdict.progressing.and_then(|said| said.observed_generation), Some(4));
    }
}

/// An add-on on a cluster, and all that happens to it.
struct Story {
    catalogue: Catalogue,
    status: ManagedClusterAddOnStatus,
    stand: Stand,
    coming_up: bool,
    requested: &'static str,
    turn: Turn,
    deadline: Option<Duration>,
    now: Timestamp,
}

impl Story {
    fn of(versions: &[&str]) -> Self {
        Self {
            catalogue: catalogue(versions),
            status: ManagedClusterAddOnStatus::default(),
            stand: Stand::Missing,
            coming_up: false,
            requested: "",
            turn: Turn::Come,
            deadline: None,
            now: now(),
        }
    }

    fn decided(&self, reconfigured: bool) -> Verdict {
        decide(&Observed {
            addon: "hello",
            generation: 1,
            deleting: false,
            requested: Version::new(self.requested).as_ref(),
            standing: &Standing::read(&self.status),
            reconfigured,
            catalogue: &self.catalogue,
            turn: self.turn.clone(),
            rendering: made(self.stand.clone()),
            coming_up: self.coming_up,
            running: None,
            strangers: &[],
            refused: None,
            deadline: self.deadline,
            now: self.now,
        })
    }

    /// One look, written down as the controller does.
    fn look(&mut self) -> String {
        self.look_with(false)
    }

    fn look_with(&mut self, reconfigured: bool) -> String {
        let verdict = self.decided(reconfigured);
        let said = line(&verdict);
        let conditions = serde_json::to_value(&self.status.conditions).unwrap();
        let mut set: ConditionSet = serde_json::from_value(conditions).unwrap();
        for condition in verdict.progressing.into_iter().chain(verdict.configured) {
            let after = verdict.begun.as_ref().map(Version::as_str).unwrap_or_default();
            let before = self.status.install_version.as_str();
            let _ = set.upsert(condition, TransitionKey::StatusReasonAndTarget { before, after }, self.now);
        }
        self.status.conditions = serde_json::from_value(serde_json::to_value(&set).unwrap()).unwrap();
        self.status.install_version = StatusVersion::from(verdict.begun).to_string();
        self.status.current_version = verdict.current.to_string();
        self.status.last_version = verdict.last.to_string();
        self.status.failure = verdict.course.failure();
        said
    }

    fn asks(&mut self, version: &'static str) -> &mut Self {
        self.requested = version;
        self
    }

    fn stands(&mut self, stand: Stand) -> &mut Self {
        self.stand = stand;
        self
    }

    fn configured(&self) -> &str {
        let found = self.status.conditions.iter().find(|condition| condition.type_ == CONFIGURED);
        found.map_or("", |condition| condition.reason.as_str())
    }
}

#[test]
fn a_fresh_install_waits_for_a_default_and_takes_it() {
    let mut story = Story::of(&[]);
    assert_eq!(
        story.look(),
        "P= C= L= True/Installing: Waiting for ClusterManagementAddOn hello status.defaultVersion."
    );
    story.catalogue = catalogue(&["v1"]);
    assert_eq!(story.look(), "P=v1 C=unknown L= True/Installing: Installing addon to version v1.");
    assert_eq!(
        story.stands(Stand::Ready).look(),
        "P=v1 C=v1 L= False/Succeed: install completed with no errors."
    );
}

#[test]
fn an_add_on_without_a_version_of_its_own_follows_the_default() {
    let mut story = Story::of(&["v1"]);
    story.look();
    story.stands(Stand::Ready).look();
    story.catalogue = catalogue(&["v1", "v2"]);
    assert_eq!(
        story.stands(Stand::Stale).look(),
        "P=v2 C=unknown L=v1 True/Upgrading: Upgrading addon to version v2."
    );
    assert_eq!(
        story.stands(Stand::Ready).look(),
        "P=v2 C=v2 L=v1 False/Succeed: install completed with no errors."
    );
    assert_eq!(
        story.asks("v1").stands(Stand::Stale).look(),
        "P=v1 C=unknown L=v2 True/Rollingback: Rollingback addon to version v1."
    );
    assert_eq!(
        story.stands(Stand::Ready).look(),
        "P=v1 C=v1 L=v2 False/Succeed: install completed with no errors."
    );
}

fn at_v1() -> Story {
    let mut story = Story::of(&["v1", "v2"]);
    story.asks("v1").look();
    story.stands(Stand::Ready).look();
    story
}

#[test]
fn after_a_version_that_there_was_not_the_next_one_is_an_installation() {
    let mut story = at_v1();
    assert_eq!(
        story.asks("v3").stands(Stand::Stale).look(),
        "P=v3 C=unknown L=v1 False/Failed: could not upgrade to invalid version v3"
    );
    assert_eq!(story.configured(), "InvalidVersion");
    assert_eq!(
        story.asks("v2").look(),
        "P=v2 C=unknown L=unknown True/Installing: Installing addon to version v2."
    );
    assert_eq!(
        story.stands(Stand::Ready).look(),
        "P=v2 C=v2 L=unknown False/Succeed: install completed with no errors."
    );
}

#[test]
fn back_from_a_version_that_there_was_not_all_is_there_already() {
    let mut story = at_v1();
    story.asks("v3").stands(Stand::Stale).look();
    assert_eq!(
        story.asks("v1").stands(Stand::Ready).look(),
        "P=v1 C=v1 L=unknown False/Succeed: install completed with no errors."
    );
}

#[test]
fn that_there_was_no_such_version_is_remembered_while_it_waits_and_when_there_is_one_later() {
    let mut story = at_v1();
    story.asks("v3").stands(Stand::Stale).look();
    story.turn = Turn::Waits(WaitReason::Paused);
    story.asks("v2").look();
    assert_eq!(story.configured(), "WaitingForTurn");
    story.catalogue = catalogue(&["v1", "v2", "v3"]);
    story.turn = Turn::Come;
    assert_eq!(story.look(), "P=v2 C=unknown L=unknown True/Installing: Installing addon to version v2.");
}

#[test]
fn a_version_that_was_good_when_it_was_asked_for_stays_good_in_memory() {
    let mut story = at_v1();
    story.catalogue = catalogue(&["v2"]);
    assert_eq!(
        story.asks("v2").stands(Stand::Stale).look(),
        "P=v2 C=unknown L=v1 True/Upgrading: Upgrading addon to version v2."
    );
}

#[test]
fn the_last_version_is_the_one_asked_for_before_whether_or_not_it_came() {
    let mut story = at_v1();
    story.catalogue = catalogue(&["v1", "v2", "v3"]);
    story.asks("v2").stands(Stand::Stale).look();
    story.stands(Stand::Behind);
    assert_eq!(story.asks("v3").look(), "P=v3 C=unknown L=v2 True/Upgrading: Upgrading addon to version v3.");
    assert_eq!(
        story.asks("v1").look(),
        "P=v1 C=unknown L=v3 True/Rollingback: Rollingback addon to version v1."
    );
}

#[test]
fn what_was_reached_stays_reached_while_it_is_deployed() {
    let mut story = at_v1();
    for drift in [
        Stand::Behind,
        Stand::NotAvailable("it was deleted".to_owned()),
        Stand::Unknown("nobody knows".to_owned()),
    ] {
        assert_eq!(
            story.stands(drift).look(),
            "P=v1 C=v1 L= False/Succeed: install completed with no errors."
        );
    }
    // A24 and A28: other configurations, and a work that was taken away.
    assert_eq!(
        story.stands(Stand::Behind).look_with(true),
        "P=v1 C=unknown L= True/Installing: Installing addon to version v1."
    );
    assert_eq!(
        story.stands(Stand::Ready).look(),
        "P=v1 C=v1 L= False/Succeed: install completed with no errors."
    );
    assert_eq!(
        story.stands(Stand::Missing).look(),
        "P=v1 C=unknown L= True/Installing: Installing addon to version v1."
    );
}

#[test]
fn a_failure_heals_by_itself() {
    let mut story = at_v1();
    story.asks("v2").stands(Stand::Stale).look();
    let refused = Stand::NotApplied("quota exceeded".to_owned());
    assert_eq!(
        story.stands(refused).look(),
        "P=v2 C=unknown L=v1 False/Failed: could not upgrade to version v2: work addon-hello-deploy-0: quota exceeded"
    );
    assert_eq!(
        story.stands(Stand::Ready).look(),
        "P=v2 C=v2 L=v1 False/Succeed: install completed with no errors."
    );
}

#[test]
fn a_version_in_use_that_is_withdrawn_stays_and_is_marked() {
    let mut story = at_v1();
    story.catalogue = catalogue(&["v2"]);
    let verdict = story.decided(false);
    assert_eq!(line(&verdict), "P=v1 C=v1 L= False/Succeed: install completed with no errors.");
    assert_eq!((verdict.unsupported, verdict.works), (true, Deed::Leave));
}

#[test]
fn who_waits_keeps_everything_and_says_what_for() {
    let mut story = at_v1();
    story.turn = Turn::Waits(WaitReason::ConcurrencyLimit(2));
    let verdict = story.asks("v2").stands(Stand::Stale).decided(true);
    assert_eq!(line(&verdict), "P=v1 C=v1 L= -");
    assert_eq!(verdict.works, Deed::Leave);
    let configured = verdict.configured.unwrap();
    assert_eq!((configured.status, configured.reason.as_str()), (Status::False, "WaitingForTurn"));
    assert_eq!(configured.message, "at most 2 at a time");
}

#[test]
fn what_is_deleted_is_left_as_it_is() {
    let story = at_v1();
    let standing = Standing::read(&story.status);
    let verdict = decide(&Observed {
        addon: "hello",
        generation: 2,
        deleting: true,
        requested: Version::new("v2").as_ref(),
        standing: &standing,
        reconfigured: true,
        catalogue: &story.catalogue,
        turn: Turn::Come,
        rendering: made(Stand::Missing),
        coming_up: false,
        running: None,
        strangers: &[],
        refused: None,
        deadline: None,
        now: now(),
    });
    assert_eq!(line(&verdict), "P=v1 C=v1 L= -");
    assert_eq!((verdict.configured, verdict.works), (None, Deed::Leave));
}

#[test]
fn a_change_that_took_too_long_stays_so_until_it_is_done_or_another_begins() {
    let mut story = at_v1();
    story.deadline = Some(Duration::from_secs(90));
    let begun = story.now;
    story.asks("v2").stands(Stand::Stale).look();
    story.stands(Stand::Behind);
    assert_eq!(story.decided(false).next, Some(begun + SignedDuration::from_secs(90)));
    story.now = begun + SignedDuration::from_secs(89);
    assert_eq!(story.look(), "P=v2 C=unknown L=v1 True/Upgrading: Upgrading addon to version v2.");
    let late = "P=v2 C=unknown L=v1 False/Failed: could not upgrade to version v2: timed out after 1m30s";
    for second in [90, 91, 1000] {
        story.now = begun + SignedDuration::from_secs(second);
        assert_eq!(story.look(), late);
    }
    assert_eq!(story.look_with(true), "P=v2 C=unknown L=v1 True/Upgrading: Upgrading addon to version v2.");
    story.now += SignedDuration::from_secs(91);
    assert_eq!(story.look(), late);
    assert_eq!(
        story.stands(Stand::Ready).look(),
        "P=v2 C=v2 L=v1 False/Succeed: install completed with no errors."
    );
}

#[test]
fn what_was_applied_waits_a_while_for_its_workloads() {
    let coming = "P=v2 C=unknown L=v1 True/Upgrading: Upgrading addon to version v2.";
    let done = "P=v2 C=v2 L=v1 False/Succeed: install completed with no errors.";
    // How long it may take, after how many seconds it is looked at, and until when it waits.
    let rows = [
        (None, 0, Some(10)),
        (None, 9, Some(10)),
        (None, 10, None),
        (Some(3600), 9, Some(10)),
        (Some(8), 3, Some(4)),
        (Some(8), 4, None),
        (Some(8), 9, None),
        // By the clock of whoever began it, that is still to come.
        (None, -60, None),
    ];
    for (deadline, second, until) in rows {
        let mut story = at_v1();
        let begun = story.now;
        let at = |second: i64| begun + SignedDuration::from_secs(second);
        story.deadline = deadline.map(Duration::from_secs);
        story.asks("v2").stands(Stand::Stale).look();
        story.stands(Stand::Ready).coming_up = true;
        story.now = at(second);
        let verdict = story.decided(false);
        let words = if until.is_some() { coming } else { done };
        let row = format!("{deadline:?} {second}");
        assert_eq!((line(&verdict).as_str(), verdict.next), (words, until.map(at)), "{row}");
        assert_eq!(verdict.works, Deed::Bring, "{row}");
        story.coming_up = false;
        assert_eq!(story.look(), done, "{row}, and is up");
        story.coming_up = true;
        assert_eq!(story.look(), done, "{row}, and what is done stays done");
    }
}

#[test]
fn durations_are_written_as_strategies_write_them() {
    for (seconds, words) in [(0, "0s"), (5, "5s"), (90, "1m30s"), (300, "5m"), (3661, "1h1m1s"), (7200, "2h")]
    {
        assert_eq!(display(Duration::from_secs(seconds)), words);
    }
}
