//! What is to be done about one add-on on one cluster: its status, its finalizer and its works, decided from the hub cache.
//! Pure.

use std::sync::Arc;

use bellwether_api::addon::vocabulary::{
    CONFIGURED, DEGRADED, FINALIZER, HEARTBEAT, NAME_LABEL, PROGRESSING, RENDERED_HASH, VERSION_LABEL,
};
use bellwether_api::addon::{AppliedConfig, InstallType, ManagedClusterAddOn, ManagedClusterAddOnStatus};
use bellwether_api::work::ManifestWork;
use bellwether_conditions::{ConditionType, Desired, Reason, Status, TransitionKey, kubernetes};
use jiff::Timestamp;
use kube::{Resource as _, ResourceExt as _};
use serde_json::json;

use super::decide::available::{Known, available, is_coming_up, manifest_applied};
use super::decide::progress::{self, Deed, Observed, Rendering, Verdict};
use crate::clusters::Reachability;
use crate::fields::{is_overridden, is_placed};
use crate::hub::{AddonKey, Configs, HubCache, Management, Work, requests_same};
use crate::render::{Order, Rendered, render};
use crate::rollout::{Turn, WaitReason};
use crate::standing::{Course, Standing, requested_version};
use crate::version::Version;
use crate::works::{Stand, Stands, Workload};

/// The reason for which an add-on is marked as degraded by us.
const UNSUPPORTED: &str = "VersionUnsupported";
/// Whether an add-on is being taken away.
const DELETING: &str = "Deleting";

/// What is to be done. Each step comes after the one before it.
#[derive(Debug)]
pub(crate) struct Judgement {
    /// The object that was judged.
    pub object: Arc<ManagedClusterAddOn>,
    /// Its finalizers, where they change.
    pub finalizers: Option<Vec<String>>,
    /// Its status, where that changes.
    pub status: Option<ManagedClusterAddOnStatus>,
    /// Whether the status says that a change begins.
    pub begins: bool,
    /// Its works, where they change.
    pub works: Vec<WorkWrite>,
    /// When time alone changes the judgement.
    pub next: Option<Timestamp>,
}

/// A write of a work.
#[derive(Debug)]
pub(crate) enum WorkWrite {
    /// It is made.
    Create(Box<ManifestWork>),
    /// It is made another; only if it is still what was judged.
    Replace(Box<ManifestWork>),
    /// It is taken away; only if it is still the same.
    Delete {
        /// Its name.
        name: String,
        /// Its identity.
        uid: String,
    },
}

impl WorkWrite {
    /// The name of the work.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Create(work) | Self::Replace(work) => work.name_any(),
            Self::Delete { name, .. } => name.clone(),
        }
    }
}

impl Judgement {
    fn nothing_yet(object: &Arc<ManagedClusterAddOn>) -> Self {
        let object = object.clone();
        Self { object, finalizers: None, status: None, begins: false, works: Vec::new(), next: None }
    }

    /// Whether there is nothing to do.
    pub(crate) fn is_settled(&self) -> bool {
        self.finalizers.is_none() && self.status.is_none() && self.works.is_empty()
    }
}

impl HubCache {
    /// Judges an add-on on a cluster; `None` where it is not managed here.
    pub(crate) fn judge(&self, key: &AddonKey, now: Timestamp) -> Option<Judgement> {
        let object = self.addon(key)?;
        if object.metadata.deletion_timestamp.is_some() {
            return self.judge_deletion(key, object, now);
        }
        if self.cluster(&key.cluster).is_some_and(|cluster| cluster.is_deleting) {
            return None;
        }
        let management = self.management(&key.addon)?;
        Some(self.judge_managed(key, object, management, now))
    }

    fn judge_managed(
        &self,
        key: &AddonKey,
        object: &Arc<ManagedClusterAddOn>,
        management: &Management,
        now: Timestamp,
    ) -> Judgement {
        let before = object.status.clone().unwrap_or_default();
        let standing = Standing::read(&before);
        let configs = self.configs_of(management, object);
        let reconfigured = configs
            .as_ref()
            .is_ok_and(|configs| standing.begun.is_some() && !configs.are_same_as(&before.config_references));
        let requested = Version::new(&object.spec.install_version);
        let version = requested_version(object, &management.catalogue);
        let version = version.as_ref();
        let ours: Vec<&Work> = self.works_of(key).collect();
        let rendered = version.and_then(|version| self.rendered(key, object, management, version, &configs));
        let stands = rendered.as_ref().and_then(|rendered| rendered.as_ref().ok()).map(|rendered| {
            let wanted: Vec<_> = rendered.iter().map(Rendered::wanted).collect();
            let found: Vec<_> = ours.iter().map(|work| work.found.clone()).collect();
            Stands::of(&wanted, &found, &key.addon, version.map(Version::as_str).unwrap_or_default())
        });
        let strangers = self.works(&key.cluster).filter(|work| work.claims.as_ref() == Some(&key.addon));
        let strangers: Vec<String> = strangers.map(|work| work.found.name.clone()).collect();
        let running = ours.iter().map(|work| work.found.version.as_str());
        let running = running.filter(|running| Some(*running) != version.map(Version::as_str)).max();
        let rendering = match (&rendered, &stands) {
            (Some(Err(why)), _) => Rendering::Failed(why.clone()),
            (_, stands) => Rendering::Made(stands.clone().unwrap_or_default()),
        };
        let begins = version.is_some_and(|version| standing.begun.as_ref() != Some(version)) || reconfigured;
        let turn = if begins { self.turn(key, object, management) } else { Some(Turn::Come) };
        let Some(turn) = turn.filter(|_| !self.is_to_be_planned(key, object, management, &standing)) else {
            // It is planned soon, and reconciled again then.
            return Judgement::nothing_yet(object);
        };
        let waits = matches!(turn, Turn::Waits(_));
        let workloads: Vec<Workload> = ours.iter().flat_map(|work| work.workloads.clone()).collect();
        let verdict = progress::decide(&Observed {
            addon: &key.addon,
            generation: object.metadata.generation.unwrap_or_default(),
            deleting: false,
            requested: requested.as_ref(),
            standing: &standing,
            reconfigured,
            catalogue: &management.catalogue,
            turn,
            rendering,
            coming_up: workloads.iter().any(is_coming_up),
            running,
            strangers: &strangers,
            // A rejection of the works before says nothing of those to come.
            refused: self.rejection(key).filter(|_| !begins),
            deadline: management.deadline(&key.cluster),
            now,
        });
        let begins =
            begins && verdict.begun != standing.begun || reconfigured && verdict.works == Deed::Bring;
        let mut told = match verdict.works {
            Deed::Bring => stands.clone().filter(|_| verdict.begun.is_some()),
            // What is there is judged as it is, whatever is asked for.
            Deed::Leave if ours.is_empty() && verdict.is_current() => Some(Stands::default()),
            Deed::Leave => Stands::as_found(ours.iter().map(|work| &work.found)),
        };
        if verdict.works == Deed::Bring && !verdict.is_current() {
            // What is brought now is waited for from now on, and nothing is written only to say so.
            told.iter_mut().for_each(Stands::await_what_is_brought);
        }
        let known = Known {
            reachable: !self.is_unreachable(&key.cluster),
            stands: told.as_ref(),
            workloads: &workloads,
            heartbeat: None,
            degraded: None,
        };
        let works = match (&rendered, &stands, verdict.works) {
            (Some(Ok(rendered)), Some(stands), Deed::Bring) => {
                self.bring(key, object, rendered, stands, &ours)
            }
            _ => Vec::new(),
        };
        // What it was last begun with, also where nothing could be made of that.
        let references = match (&configs, &rendered) {
            (Ok(configs), Some(_)) if !waits => Some(configs.references.as_slice()),
            _ => None,
        };
        let after = status(&before, &verdict, &known, references, now);
        let missing = !object.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
        let finalizers =
            missing.then(|| object.finalizers().iter().cloned().chain([FINALIZER.to_owned()]).collect());
        let worth = is_news(&before, &after);
        Judgement {
            object: object.clone(),
            finalizers,
            status: worth.then_some(after),
            begins,
            works,
            next: verdict.next,
        }
    }

    /// The works of an add-on on a cluster.
    fn works_of(&self, key: &AddonKey) -> impl Iterator<Item = &Work> {
        self.works(&key.cluster).filter(move |work| work.addon.as_ref() == Some(&key.addon))
    }

    fn is_unreachable(&self, cluster: &str) -> bool {
        self.cluster(cluster).is_some_and(|cluster| cluster.reachability == Reachability::Unreachable)
    }

    fn rendered(
        &self,
        key: &AddonKey,
        object: &ManagedClusterAddOn,
        management: &Management,
        version: &Version,
        configs: &Result<Configs, String>,
    ) -> Option<Result<Vec<Rendered>, String>> {
        let template = &self.template(management.catalogue.template(version)?)?.object;
        let configs = match configs {
            Ok(configs) => configs,
            Err(why) => return Some(Err(why.clone())),
        };
        let specs: Vec<_> = configs.objects.iter().map(|config| &config.spec).collect();
        let order = Order {
            addon: &key.addon,
            cluster: &key.cluster,
            install_namespace: object.spec.install_namespace.as_deref(),
            template: &template.spec,
            configs: &specs,
        };
        Some(render(&order).map_err(|why| why.to_string()))
    }

    /// Whether an add-on may start to change: at once where a user created it or set its version, otherwise by its rollout;
    /// `None` while that is not planned.
    fn turn(&self, key: &AddonKey, object: &ManagedClusterAddOn, management: &Management) -> Option<Turn> {
        if !is_placed(object) || is_overridden(object) {
            return Some(Turn::Come);
        }
        if management.object.spec.install_strategy.type_ != InstallType::Placements {
            return Some(Turn::Come);
        }
        if !management.is_planned {
            return None;
        }
        match management.rollout(&key.cluster) {
            // It asks for something else than its placement: the request of the placement is not written there yet, or not
            // delivered here. To start with it would bypass its rollout.
            Some(rollout) if !requests_same(object, &rollout.request) => None,
            Some(rollout) => rollout.plan.turn(&key.cluster),
            None => Some(Turn::Waits(WaitReason::NotSelected)),
        }
    }

    /// Whether an add-on timed out and its deadline is not planned yet: a restart of this process gives it no more time.
    fn is_to_be_planned(
        &self,
        key: &AddonKey,
        object: &ManagedClusterAddOn,
        management: &Management,
        standing: &Standing,
    ) -> bool {
        matches!(standing.course, Course::TimedOut(_))
            && !management.is_planned
            && management.rollout(&key.cluster).is_none()
            && management.object.spec.install_strategy.type_ == InstallType::Placements
            && is_placed(object)
            && !is_overridden(object)
    }

    fn bring(
        &self,
        key: &AddonKey,
        object: &ManagedClusterAddOn,
        rendered: &[Rendered],
        stands: &Stands,
        ours: &[&Work],
    ) -> Vec<WorkWrite> {
        let found = |name: &str| ours.iter().find(|work| work.found.name == name);
        let changes = rendered.iter().zip(&stands.wanted).filter_map(|(wanted, (name, stand))| {
            let work = || Box::new(work(key, object, wanted));
            match (stand, found(name)) {
                (Stand::Missing, None) => Some(WorkWrite::Create(work())),
                // It goes, and is made anew when it is gone.
                (Stand::Missing, Some(_)) => None,
                (Stand::Stale, Some(found)) => {
                    let mut work = work();
                    work.metadata.resource_version = Some(found.version.to_string());
                    work.metadata.uid = Some(found.uid.clone());
                    Some(WorkWrite::Replace(work))
                }
                _ => None,
            }
        });
        let surplus =
            stands.surplus.iter().filter_map(|name| found(name)).filter(|work| !work.found.deleting);
        changes.chain(surplus.map(|work| delete(work))).collect()
    }

    /// An add-on that is being deleted: first its works, then its finalizer.
    fn judge_deletion(
        &self,
        key: &AddonKey,
        object: &Arc<ManagedClusterAddOn>,
        now: Timestamp,
    ) -> Option<Judgement> {
        let held = object.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
        if !held {
            return None;
        }
        let ours: Vec<&Work> = self.works_of(key).collect();
        let done = ours.is_empty() || self.cluster(&key.cluster).is_none();
        let finalizers = done.then(|| {
            let others = object.finalizers().iter().filter(|finalizer| *finalizer != FINALIZER);
            others.cloned().collect()
        });
        let before = object.status.clone().unwrap_or_default();
        let mut after = before.clone();
        if !done {
            let names: Vec<&str> = ours.iter().map(|work| work.found.name.as_str()).collect();
            let away = if self.is_unreachable(&key.cluster) { ", which is out of reach," } else { "" };
            let message =
                format!("The agent of {}{away} has to take away {}.", key.cluster, names.join(", "));
            let desired = Desired::new(
                ConditionType::constant(DELETING),
                Status::True,
                Reason::constant("WaitingForAgent"),
                message,
            );
            let _ = kubernetes::upsert(&mut after.conditions, desired, TransitionKey::Status, now);
        }
        let works = ours.into_iter().filter(|work| !work.found.deleting).map(delete).collect();
        let status = (after != before).then_some(after);
        Some(Judgement { object: object.clone(), finalizers, status, begins: false, works, next: None })
    }
}

fn delete(work: &Work) -> WorkWrite {
    WorkWrite::Delete { name: work.found.name.clone(), uid: work.uid.clone() }
}

fn work(key: &AddonKey, object: &ManagedClusterAddOn, rendered: &Rendered) -> ManifestWork {
    let version = object.status.as_ref().map(|status| status.install_version.clone()).unwrap_or_default();
    let mut work = ManifestWork::new(&rendered.name, rendered.spec.clone());
    work.metadata.namespace = Some(key.cluster.to_string());
    work.metadata.owner_references = object.owner_ref(&()).map(|owner| vec![owner]);
    work.labels_mut().insert(NAME_LABEL.to_owned(), key.addon.to_string());
    work.labels_mut().insert(VERSION_LABEL.to_owned(), version);
    work.annotations_mut().insert(RENDERED_HASH.to_owned(), rendered.digest.clone());
    work
}

fn status(
    before: &ManagedClusterAddOnStatus,
    verdict: &Verdict,
    known: &Known<'_>,
    references: Option<&[AppliedConfig]>,
    now: Timestamp,
) -> ManagedClusterAddOnStatus {
    let mut conditions = before.conditions.clone();
    // What is brought is a version in its configurations: another of either begins anew (A33).
    let named = |version: &str, references: &[AppliedConfig]| format!("{version} {}", json!(references));
    let begun = verdict.begun.as_ref().map(ToString::to_string).unwrap_or_default();
    let (held, wanted) = (
        named(&before.install_version, &before.config_references),
        named(&begun, references.unwrap_or(&before.config_references)),
    );
    let target = TransitionKey::StatusReasonAndTarget { before: &held, after: &wanted };
    for (desired, key) in
        [(&verdict.progressing, target), (&verdict.configured, TransitionKey::StatusAndReason)]
    {
        if let Some(desired) = desired.clone() {
            let _ = kubernetes::upsert(&mut conditions, desired, key, now);
        }
    }
    let is_ours =
        kubernetes::find(&conditions, DEGRADED).is_none_or(|degraded| degraded.reason == UNSUPPORTED);
    if is_ours && verdict.unsupported {
        let message = format!("version {begun} is no longer among those that there are");
        let type_ = ConditionType::constant(DEGRADED);
        let degraded = Desired::new(type_, Status::True, Reason::constant(UNSUPPORTED), message);
        let _ = kubernetes::upsert(&mut conditions, degraded, TransitionKey::Status, now);
    } else if is_ours {
        kubernetes::remove(&mut conditions, DEGRADED);
    }
    let (heartbeat, degraded) =
        (kubernetes::get(&conditions, HEARTBEAT), kubernetes::get(&conditions, DEGRADED));
    let up = available(&Known { heartbeat: heartbeat.as_ref(), degraded: degraded.as_ref(), ..*known });
    let _ = kubernetes::upsert(&mut conditions, up, TransitionKey::Status, now);
    if let Some(applied) = known.stands.and_then(manifest_applied) {
        let _ = kubernetes::upsert(&mut conditions, applied, TransitionKey::Status, now);
    }
    if !verdict.is_current() || begun != before.install_version {
        // What the agent has heard of the add-on so far was of something else.
        let heartbeat = conditions.iter_mut().find(|said| said.type_ == HEARTBEAT);
        heartbeat.into_iter().for_each(|said| said.observed_generation = None);
    }
    ManagedClusterAddOnStatus {
        install_version: begun,
        current_version: verdict.current.to_string(),
        last_version: verdict.last.to_string(),
        failure: verdict.course.failure(),
        conditions,
        config_references: references.unwrap_or(&before.config_references).to_vec(),
    }
}

/// Whether a status says something that is worth a write. What rides along is not, while there is more to come.
fn is_news(before: &ManagedClusterAddOnStatus, after: &ManagedClusterAddOnStatus) -> bool {
    if before == after {
        return false;
    }
    let without = |status: &ManagedClusterAddOnStatus| ManagedClusterAddOnStatus {
        conditions: Vec::new(),
        ..status.clone()
    };
    let moving = after.conditions.iter().any(|said| said.type_ == PROGRESSING && said.status == "True");
    let told = |status: &ManagedClusterAddOnStatus| -> Vec<(String, String, String)> {
        let tell = |said: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
            let words = match said.type_.as_str() {
                PROGRESSING | CONFIGURED | DEGRADED => format!("{} {}", said.reason, said.message),
                _ if moving => String::new(),
                _ => said.reason.clone(),
            };
            (said.type_.clone(), said.status.clone(), words)
        };
        let all = status.conditions.iter();
        let counts = |said: &&k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
            !moving || said.type_ != bellwether_api::addon::vocabulary::MANIFEST_APPLIED
        };
        all.filter(counts).map(tell).collect()
    };
    without(before) != without(after) || told(before) != told(after)
}

#[cfg(test)]
mod tests;
