//! Whether an add-on is up on its cluster: all that is known of that, folded into the condition Available, the worst first.
//! Also what the rollout reads: whether it is up, and whether it is well.

use bellwether_api::addon::vocabulary::{AVAILABLE, MANIFEST_APPLIED};
use bellwether_conditions::{Condition, ConditionType, Desired, Reason, Status, shorten};

use crate::works::{Copies, Stand, Stands, Workload};

/// How long a message may be.
const LONGEST: usize = 1024;

/// Reasons of the conditions Available and ManifestApplied.
pub mod reason {
    /// The cluster is out of reach.
    pub const CLUSTER_LOST: &str = "ManagedClusterLeaseUpdateStopped";
    /// Nothing was deployed yet.
    pub const NOT_FOUND: &str = "WorkNotFound";
    /// The agent has not answered yet.
    pub const NOT_ANSWERED: &str = "WorkNotApplied";
    /// The agent could not write an object.
    pub const NOT_APPLIED: &str = "WorkApplyFailed";
    /// An object is not there.
    pub const NOT_THERE: &str = "WorkNotAvailable";
    /// A workload is not up.
    pub const NOT_UP: &str = "ProbeUnavailable";
    /// Nothing is known of a workload.
    pub const NO_PROBE: &str = "NoProbeResult";
    /// The add-on is silent.
    pub const SILENT: &str = "HeartbeatTimeout";
    /// The add-on says that it is not well.
    pub const UNWELL: &str = "AddonUnhealthy";
    /// All is there, and no workload tells more.
    pub const APPLIED: &str = "WorkApplied";
    /// All workloads are up.
    pub const UP: &str = "ProbeAvailable";
    /// All is up, and something is wrong.
    pub const DEGRADED: &str = "Degraded";

    /// Of ManifestApplied: all objects were written.
    pub const MANIFESTS: &str = "AddonManifestApplied";
    /// Of ManifestApplied: some object was not.
    pub const NO_MANIFESTS: &str = "ManifestWorkApplyFailed";
}

/// All that counts.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Whether the cluster is in reach.
    pub reachable: bool,
    /// Where the works stand; nothing, before there is a version.
    pub stands: Option<&'a Stands>,
    /// The workloads in them.
    pub workloads: &'a [Workload],
    /// What the agent says of the add-on's heartbeats.
    pub heartbeat: Option<&'a Condition>,
    /// What the add-on's own status source says.
    pub degraded: Option<&'a Condition>,
}

/// The condition Available.
pub fn available(known: &Known<'_>) -> Desired {
    let (status, reason, message) = fold(known);
    Desired::new(
        ConditionType::constant(AVAILABLE),
        status,
        Reason::constant(reason),
        shorten(&message, LONGEST),
    )
}

fn fold(known: &Known<'_>) -> (Status, &'static str, String) {
    if !known.reachable {
        let message = "The cluster is out of reach; what runs there is not known.".to_owned();
        return (Status::Unknown, reason::CLUSTER_LOST, message);
    }
    let Some(stands) = known.stands else {
        return (Status::Unknown, reason::NOT_FOUND, "Nothing was deployed yet.".to_owned());
    };
    let said = |heartbeat: &Condition| format!("{}: {}", heartbeat.reason, heartbeat.message);
    worst_work(stands)
        .or_else(|| known.workloads.iter().find_map(trouble))
        .or_else(|| match known.heartbeat {
            Some(beat) if beat.status == Status::Unknown => {
                Some((Status::Unknown, reason::SILENT, said(beat)))
            }
            Some(beat) if beat.status == Status::False => Some((Status::False, reason::UNWELL, said(beat))),
            _ => None,
        })
        .or_else(|| {
            let wrong = known.degraded.filter(|degraded| degraded.is_true())?;
            Some((Status::True, reason::DEGRADED, said(wrong)))
        })
        .unwrap_or_else(|| match known.workloads {
            [] => (Status::True, reason::APPLIED, "All objects are there.".to_owned()),
            workloads => (Status::True, reason::UP, format!("{} workload(s) are up.", workloads.len())),
        })
}

fn worst_work(stands: &Stands) -> Option<(Status, &'static str, String)> {
    let found = stands.wanted.iter().filter_map(|(name, stand)| {
        Some(match stand {
            Stand::Ready => return None,
            Stand::NotApplied(why) => (0, Status::False, reason::NOT_APPLIED, format!("work {name}: {why}")),
            Stand::NotAvailable(why) => (1, Status::False, reason::NOT_THERE, format!("work {name}: {why}")),
            Stand::Missing => (2, Status::Unknown, reason::NOT_FOUND, format!("work {name} is not there.")),
            Stand::Stale | Stand::Behind => {
                let message = format!("work {name}: the agent has not said yet that all is up.");
                (3, Status::Unknown, reason::NOT_ANSWERED, message)
            }
            Stand::Unknown(why) => (4, Status::Unknown, reason::NOT_ANSWERED, format!("work {name}: {why}")),
        })
    });
    found.min_by_key(|(rank, ..)| *rank).map(|(_, status, reason, message)| (status, reason, message))
}

/// Whether a workload is still to come up, and it will be told when it is.
pub fn is_coming_up(workload: &Workload) -> bool {
    workload.watched && trouble(workload).is_some()
}

fn trouble(workload: &Workload) -> Option<(Status, &'static str, String)> {
    let name = &workload.name;
    let down = |words: String| Some((Status::False, reason::NOT_UP, format!("{name}: {words}")));
    match workload.copies {
        None => Some((Status::Unknown, reason::NO_PROBE, format!("{name}: nothing is known of it yet."))),
        Some(Copies { wanted, renewed: Some((new, _)), .. }) if new < wanted => {
            down(format!("{new} of {wanted} copies are new."))
        }
        Some(Copies { wanted, ready, .. }) if ready < wanted => {
            down(format!("{ready} of {wanted} copies are ready."))
        }
        // Those that are ready may be these.
        Some(Copies { renewed: Some((_, old @ 1..)), .. }) => {
            down(format!("{old} old copies are still there."))
        }
        Some(_) => None,
    }
}

/// The condition ManifestApplied, over all works; nothing, while the agent has not answered.
pub fn manifest_applied(stands: &Stands) -> Option<Desired> {
    let type_ = ConditionType::constant(MANIFEST_APPLIED);
    if let Some((work, why)) = stands.failure() {
        let message = shorten(&format!("work {work}: {why}"), LONGEST);
        return Some(Desired::new(type_, Status::False, Reason::constant(reason::NO_MANIFESTS), message));
    }
    let answered = |stand: &Stand| !matches!(stand, Stand::Missing | Stand::Stale | Stand::Behind);
    let all = stands.wanted.iter().all(|(_, stand)| answered(stand));
    let message = match stands.wanted.as_slice() {
        [] => "no manifest need to apply",
        _ => "manifests of addon are applied successfully",
    };
    all.then(|| Desired::new(type_, Status::True, Reason::constant(reason::MANIFESTS), message))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn stands(stands: &[Stand]) -> Stands {
        let wanted = stands.iter().enumerate().map(|(number, stand)| (format!("w{number}"), stand.clone()));
        Stands { wanted: wanted.collect(), surplus: vec![] }
    }

    fn condition(status: Status, reason: &'static str) -> Condition {
        Desired::new(ConditionType::constant("X"), status, Reason::constant(reason), "in words")
            .since(Timestamp::UNIX_EPOCH)
    }

    fn workload(copies: Option<(i64, i64)>) -> Workload {
        let copies = copies.map(|(ready, wanted)| Copies { wanted, ready, renewed: None });
        Workload { name: "Deployment hello/hello".to_owned(), copies, watched: true }
    }

    #[test]
    fn a_workload_is_up_when_all_its_copies_are_new_and_ready() {
        let copies = |wanted, ready, renewed| Some(Copies { wanted, ready, renewed });
        let rows = [
            (None, Some("nothing is known of it yet.")),
            (copies(3, 3, None), None),
            (copies(3, 2, None), Some("2 of 3 copies are ready.")),
            (copies(0, 0, Some((0, 0))), None),
            (copies(3, 3, Some((0, 3))), Some("0 of 3 copies are new.")),
            (copies(3, 3, Some((3, 3))), Some("3 old copies are still there.")),
            (copies(3, 2, Some((3, 0))), Some("2 of 3 copies are ready.")),
            (copies(3, 3, Some((3, 0))), None),
        ];
        for (copies, wanted) in rows {
            let workload = Workload { name: "w".to_owned(), copies, watched: true };
            let said = trouble(&workload).map(|(_, _, words)| words);
            assert_eq!(said, wanted.map(|words| format!("w: {words}")), "{copies:?}");
            assert_eq!(is_coming_up(&workload), wanted.is_some(), "{copies:?}");
            assert!(!is_coming_up(&Workload { watched: false, ..workload }), "{copies:?}, and nobody looks");
        }
    }

    #[test]
    fn the_worst_that_is_known_is_what_is_said() {
        let ready = stands(&[Stand::Ready]);
        let refused = stands(&[Stand::Behind, Stand::Missing, Stand::NotApplied("no".into())]);
        let gone = stands(&[Stand::Behind, Stand::NotAvailable("gone".into())]);
        let behind = stands(&[Stand::Ready, Stand::Behind]);
        let up = [workload(Some((2, 2)))];
        let down = [workload(Some((2, 2))), workload(Some((1, 2)))];
        let unheard = [workload(None)];
        let silent = condition(Status::Unknown, "HeartbeatTimeout");
        let ill = condition(Status::False, "OutOfMemory");
        let alive = condition(Status::True, "ReceivingHeartbeats");
        let degraded = condition(Status::True, "Degraded");
        let well =
            Known { reachable: true, stands: Some(&ready), workloads: &[], heartbeat: None, degraded: None };
        let rows: Vec<(Known<'_>, &str)> = vec![
            (
                Known { reachable: false, ..well },
                "Unknown/ManagedClusterLeaseUpdateStopped: The cluster is out of reach; what runs there is not known.",
            ),
            (Known { stands: None, ..well }, "Unknown/WorkNotFound: Nothing was deployed yet."),
            (Known { stands: Some(&refused), ..well }, "False/WorkApplyFailed: work w2: no"),
            (Known { stands: Some(&gone), ..well }, "False/WorkNotAvailable: work w1: gone"),
            (
                Known { stands: Some(&behind), heartbeat: Some(&ill), ..well },
                "Unknown/WorkNotApplied: work w1: the agent has not said yet that all is up.",
            ),
            (
                Known { workloads: &down, heartbeat: Some(&silent), ..well },
                "False/ProbeUnavailable: Deployment hello/hello: 1 of 2 copies are ready.",
            ),
            (
                Known { workloads: &unheard, ..well },
                "Unknown/NoProbeResult: Deployment hello/hello: nothing is known of it yet.",
            ),
            (
                Known { workloads: &up, heartbeat: Some(&silent), degraded: Some(&degraded), ..well },
                "Unknown/HeartbeatTimeout: HeartbeatTimeout: in words",
            ),
            (Known { heartbeat: Some(&ill), ..well }, "False/AddonUnhealthy: OutOfMemory: in words"),
            (
                Known { workloads: &up, degraded: Some(&degraded), ..well },
                "True/Degraded: Degraded: in words",
            ),
            (
                Known { workloads: &up, heartbeat: Some(&alive), ..well },
                "True/ProbeAvailable: 1 workload(s) are up.",
            ),
            (well, "True/WorkApplied: All objects are there."),
        ];
        for (known, wanted) in rows {
            let found = available(&known);
            assert_eq!(format!("{}/{}: {}", found.status, found.reason, found.message), wanted);
        }
    }

    #[test]
    fn manifests_are_applied_when_every_work_is() {
        let rows: Vec<(Stands, Option<&str>)> = vec![
            (stands(&[]), Some("True: no manifest need to apply")),
            (
                stands(&[Stand::Ready, Stand::NotAvailable("gone".into())]),
                Some("True: manifests of addon are applied successfully"),
            ),
            (stands(&[Stand::Ready, Stand::Behind]), None),
            (stands(&[Stand::NotApplied("no".into()), Stand::Ready]), Some("False: work w0: no")),
        ];
        for (stands, wanted) in rows {
            let found = manifest_applied(&stands).map(|said| format!("{}: {}", said.status, said.message));
            assert_eq!(found.as_deref(), wanted);
        }
    }
}
