//! Compares the ManifestWorks that a version of an add-on needs with those on the hub (`spec/lifecycle.md` 3.1).
//! Rendering them is left to `render`, writing them to `addon`.

use std::collections::BTreeMap;

use bellwether_conditions::Status;

/// A ManifestWork that the version needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredWork {
    /// Its name.
    pub name: String,
    /// The digest of its spec; it differs if the manifests differ.
    pub digest: String,
}

/// A ManifestWork on the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedWork {
    /// Its name.
    pub name: String,
    /// The add-on that its label names.
    pub addon: String,
    /// The version that its label names.
    pub version: String,
    /// The digest of its spec.
    pub digest: String,
    /// Its generation.
    pub generation: i64,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The condition Applied: whether the agent has applied its objects.
    pub applied: Option<ReportedCondition>,
    /// The condition Available: whether its objects exist on the cluster.
    pub available: Option<ReportedCondition>,
}

/// A condition that the agent reports in the status of a ManifestWork.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedCondition {
    /// Its status.
    pub status: Status,
    /// The generation that it is about.
    pub generation: i64,
    /// Its message.
    pub message: String,
}

/// A workload, as the agent reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Its kind, namespace and name: `Deployment hello/hello`.
    pub name: String,
    /// Its replicas; `None` until the agent has reported them.
    pub replicas: Option<Replicas>,
    /// Whether the agent reports status feedback for it. Without feedback, waiting for it to start is pointless.
    pub has_feedback: bool,
}

/// The replicas of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replicas {
    /// The desired number of replicas.
    pub desired: i64,
    /// The number of ready replicas, of the current and of older revisions.
    pub ready: i64,
    /// The number of replicas of the current revision and of older ones; `None` if the agent does not report it.
    pub updated_and_old: Option<(i64, i64)>,
}

/// The state of one ManifestWork, compared with what the version needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkState {
    /// It does not exist, or it is being deleted.
    Missing,
    /// It is of another version, or its spec differs.
    Stale,
    /// The agent has not reported on its current generation.
    Pending,
    /// The agent could not apply an object.
    NotApplied(String),
    /// An object does not exist on the cluster.
    NotAvailable(String),
    /// The agent cannot determine whether the objects exist.
    Unknown(String),
    /// All objects were applied and exist.
    Ready,
}

impl WorkState {
    fn compare(desired: &DesiredWork, found: Option<&ObservedWork>, addon: &str, version: &str) -> Self {
        let Some(found) = found.filter(|found| !found.deleting) else { return Self::Missing };
        if found.addon != addon || found.version != version || found.digest != desired.digest {
            return Self::Stale;
        }
        let current = |condition: &Option<ReportedCondition>| {
            condition.clone().filter(|condition| condition.generation == found.generation)
        };
        let applied = current(&found.applied);
        if let Some(ReportedCondition { status: Status::False, message, .. }) = applied {
            return Self::NotApplied(message);
        }
        let (Some(applied), Some(available)) = (applied, current(&found.available)) else {
            return Self::Pending;
        };
        match (applied.status, available.status) {
            (Status::True, Status::True) => Self::Ready,
            (Status::True, Status::False) => Self::NotAvailable(available.message),
            (Status::True, Status::Unknown) => Self::Unknown(available.message),
            (Status::False | Status::Unknown, _) => Self::Pending,
        }
    }
}

/// The states of all ManifestWorks of a version, and the ManifestWorks that the version does not need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkStates {
    /// The states by name, in the order in which they were rendered.
    pub desired: Vec<(String, WorkState)>,
    /// Names of the ManifestWorks of the add-on that this version does not need.
    pub surplus: Vec<String>,
}

impl WorkStates {
    /// Compares the ManifestWorks of an add-on with those that the version needs. ManifestWorks that do not belong to the
    /// add-on are ignored.
    pub fn compare(desired: &[DesiredWork], found: &[ObservedWork], addon: &str, version: &str) -> Self {
        let mut existing: BTreeMap<&str, &ObservedWork> = found
            .iter()
            .filter(|found| is_work_of(found, addon))
            .map(|found| (found.name.as_str(), found))
            .collect();
        let desired = desired
            .iter()
            .map(|work| {
                let found = existing.remove(work.name.as_str());
                (work.name.clone(), WorkState::compare(work, found, addon, version))
            })
            .collect();
        Self { desired, surplus: existing.into_keys().map(str::to_owned).collect() }
    }

    /// The states of existing ManifestWorks, whatever version they are of; `None` if there are none.
    pub fn of_observed<'a>(found: impl Iterator<Item = &'a ObservedWork>) -> Option<Self> {
        let desired: Vec<(String, WorkState)> = found
            .map(|found| {
                let same = DesiredWork { name: found.name.clone(), digest: found.digest.clone() };
                (found.name.clone(), WorkState::compare(&same, Some(found), &found.addon, &found.version))
            })
            .collect();
        (!desired.is_empty()).then_some(Self { desired, surplus: Vec::new() })
    }

    /// Whether all ManifestWorks are ready and none is surplus.
    pub fn is_ready(&self) -> bool {
        self.surplus.is_empty() && self.desired.iter().all(|(_, state)| *state == WorkState::Ready)
    }

    /// Whether all ManifestWorks are on the hub as the version needs them and none is surplus. The agent may not have applied
    /// them yet, or may have failed to.
    pub fn is_deployed(&self) -> bool {
        let deployed = |state: &WorkState| !matches!(state, WorkState::Missing | WorkState::Stale);
        self.surplus.is_empty() && self.desired.iter().all(|(_, state)| deployed(state))
    }

    /// Marks missing and stale ManifestWorks as pending, because they are about to be written; then only the agent is waited
    /// for. If all are ready and only workloads are still starting, all are marked as pending.
    pub fn mark_pending(&mut self) {
        let all_ready = self.is_ready();
        for (_, state) in &mut self.desired {
            if all_ready || matches!(state, WorkState::Missing | WorkState::Stale) {
                *state = WorkState::Pending;
            }
        }
    }

    /// The first ManifestWork that the agent could not apply, and its message.
    pub fn failure(&self) -> Option<(&str, &str)> {
        self.desired.iter().find_map(|(name, state)| match state {
            WorkState::NotApplied(message) => Some((name.as_str(), message.as_str())),
            _ => None,
        })
    }
}

/// The name of the ManifestWork with this number of an add-on.
pub fn work_name(addon: &str, number: usize) -> String {
    format!("addon-{addon}-deploy-{number}")
}

/// Whether this controller created a ManifestWork for the add-on, determined by its name.
pub fn is_work_of(found: &ObservedWork, addon: &str) -> bool {
    addon_of_work_name(&found.name) == Some(addon)
}

/// The add-on that a ManifestWork was created for, parsed from its name.
pub fn addon_of_work_name(work: &str) -> Option<&str> {
    let (addon, number) = work.strip_prefix("addon-")?.rsplit_once("-deploy-")?;
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(addon)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(status: Status, generation: i64) -> Option<ReportedCondition> {
        Some(ReportedCondition { status, generation, message: "reported by the agent".to_owned() })
    }

    fn desired() -> DesiredWork {
        DesiredWork { name: work_name("hello", 0), digest: "d".to_owned() }
    }

    fn found() -> ObservedWork {
        ObservedWork {
            name: work_name("hello", 0),
            addon: "hello".to_owned(),
            version: "v1".to_owned(),
            digest: "d".to_owned(),
            generation: 2,
            deleting: false,
            applied: reported(Status::True, 2),
            available: reported(Status::True, 2),
        }
    }

    fn state(found: Option<ObservedWork>) -> WorkState {
        let found: Vec<ObservedWork> = found.into_iter().collect();
        WorkStates::compare(&[desired()], &found, "hello", "v1").desired.remove(0).1
    }

    #[test]
    fn work_state_follows_conditions_of_current_generation() {
        use Status::{False, True, Unknown};
        let message = || "reported by the agent".to_owned();
        let rows: [(&str, Option<ObservedWork>, WorkState); 14] = [
            ("no ManifestWork", None, WorkState::Missing),
            ("being deleted", Some(ObservedWork { deleting: true, ..found() }), WorkState::Missing),
            ("another version", Some(ObservedWork { version: "v2".into(), ..found() }), WorkState::Stale),
            (
                "another add-on's label",
                Some(ObservedWork { addon: "other".into(), ..found() }),
                WorkState::Stale,
            ),
            ("other manifests", Some(ObservedWork { digest: "e".into(), ..found() }), WorkState::Stale),
            ("applied and available", Some(found()), WorkState::Ready),
            ("never applied", Some(ObservedWork { applied: None, ..found() }), WorkState::Pending),
            ("no condition Available", Some(ObservedWork { available: None, ..found() }), WorkState::Pending),
            (
                "Applied is of an older generation",
                Some(ObservedWork { applied: reported(True, 1), ..found() }),
                WorkState::Pending,
            ),
            (
                "Available is of an older generation",
                Some(ObservedWork { available: reported(True, 1), ..found() }),
                WorkState::Pending,
            ),
            (
                "failure is of an older generation",
                Some(ObservedWork { applied: reported(False, 1), ..found() }),
                WorkState::Pending,
            ),
            (
                "failure is of the current generation",
                Some(ObservedWork { applied: reported(False, 2), available: None, ..found() }),
                WorkState::NotApplied(message()),
            ),
            (
                "object does not exist",
                Some(ObservedWork { available: reported(False, 2), ..found() }),
                WorkState::NotAvailable(message()),
            ),
            (
                "availability unknown",
                Some(ObservedWork { available: reported(Unknown, 2), ..found() }),
                WorkState::Unknown(message()),
            ),
        ];
        for (what, found, wanted) in rows {
            assert_eq!(state(found), wanted, "{what}");
        }
    }

    #[test]
    fn surplus_works_prevent_readiness_and_foreign_works_are_ignored() {
        let named = |name: &str| ObservedWork { name: name.to_owned(), ..found() };
        let others = [
            named("addon-hello-deploy-1"),
            named("addon-hello-deploy-"),
            named("addon-hello-deploy-x"),
            named("addon-hello-world-deploy-0"),
            named("hello"),
        ];
        let mut all = others.to_vec();
        all.push(found());
        let states = WorkStates::compare(&[desired()], &all, "hello", "v1");
        assert_eq!(states.surplus, ["addon-hello-deploy-1"]);
        assert!(!states.is_ready() && !states.is_deployed());
        all.remove(0);
        assert!(WorkStates::compare(&[desired()], &all, "hello", "v1").is_ready());
    }

    #[test]
    fn version_without_objects_is_ready_at_once() {
        assert!(WorkStates::compare(&[], &[], "hello", "v1").is_ready());
    }
}
