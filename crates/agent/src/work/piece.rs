//! One manifest of a work on its way through a visit: which object it is, what is there, what is done, what is told.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use bellwether_api::work::{FeedbackRule, ManifestResourceMeta, ManifestWorkSpec};
use serde_json::Value;

use super::decide::feedback::{Feedback, feedback};
use super::decide::manifest::{Manifest, ObjectId, Served, body};
use super::decide::order::Rank;
use super::decide::owners::{Owner, fate_of};
use super::decide::record::Standing;
use super::decide::report::{Finding, Presence};
use super::decide::rules::{Fate, Force, Treatment};
use super::decide::settled::digest;
use super::decide::step::{Step, Subject, step};
use super::spoke::{Address, Spoke, text};
use super::trouble::{Hope, Trouble};

/// One manifest on its way.
pub(crate) struct Piece<'s> {
    manifest: &'s Value,
    pub(crate) meta: ManifestResourceMeta,
    pub(crate) rank: Rank,
    pub(crate) place: Place<'s>,
    pub(crate) applied: Result<(), Trouble>,
    /// What is known of the object by now.
    pub(crate) known: Option<Known>,
    /// What is there, where it was read or written in this visit.
    live: Option<Value>,
    /// What was decided, and what that would send in short.
    step: Option<(Step, u64)>,
    /// Whether it puts back what somebody has changed.
    pub(crate) repairs: bool,
}

/// Which object a manifest is.
pub(crate) enum Place<'s> {
    /// None.
    Nowhere,
    /// That is not known: its kind is not served.
    Unserved(Manifest),
    /// This one.
    Object(Box<Target<'s>>),
}

/// An object, and what its work says of it.
pub(crate) struct Target<'s> {
    pub(crate) manifest: Manifest,
    pub(crate) served: Served,
    pub(crate) at: Address,
    pub(crate) treatment: Treatment,
    /// What its work asks for, until what is there says otherwise.
    pub(crate) fate: Fate,
    pub(crate) rules: Vec<&'s FeedbackRule>,
}

/// An object as it was last read or written.
#[derive(Clone)]
pub(crate) struct Known {
    /// What was last sent, and what came of it, in short.
    sent: Option<(u64, u64)>,
    /// The revision; none where it is not there.
    pub(crate) revision: Option<String>,
    standing: Standing,
    presence: Presence,
    feedback: Feedback,
    applied: Result<(), Trouble>,
}

impl Known {
    /// Whether to look again without a change would show nothing else.
    pub(crate) fn is_conclusive(&self) -> bool {
        self.applied.as_ref().err().is_none_or(|trouble| trouble.hope == Hope::Change)
    }
}

/// The manifests of a work.
pub(crate) fn pieces(spec: &ManifestWorkSpec) -> Vec<Piece<'_>> {
    spec.workload
        .manifests
        .iter()
        .enumerate()
        .map(|(ordinal, manifest)| Piece::of(ordinal, manifest))
        .collect()
}

/// What is known of the objects of a work, for the record.
pub(crate) fn standings(pieces: &[Piece<'_>]) -> Vec<(ObjectId, String, Standing)> {
    let known = pieces.iter().filter_map(|piece| Some((piece.target()?, piece.known.as_ref()?)));
    known
        .map(|(target, known)| (target.at.id.clone(), target.at.version.clone(), known.standing.clone()))
        .collect()
}

impl<'s> Piece<'s> {
    fn of(ordinal: usize, manifest: &'s Value) -> Self {
        let (meta, place, applied) = match Manifest::read(ordinal, manifest) {
            Ok(read) => (read.meta(None), Place::Unserved(read), Ok(())),
            Err(flawed) => {
                (flawed.meta, Place::Nowhere, Err(Trouble { words: flawed.words, hope: Hope::Change }))
            }
        };
        Self {
            manifest,
            meta,
            rank: Rank::Others,
            place,
            applied,
            known: None,
            live: None,
            step: None,
            repairs: false,
        }
    }

    pub(crate) fn target(&self) -> Option<&Target<'s>> {
        match &self.place {
            Place::Object(target) => Some(target),
            Place::Nowhere | Place::Unserved(_) => None,
        }
    }

    /// The object, where it is about to become ours.
    pub(crate) fn plan(&self) -> Option<(ObjectId, String)> {
        let target = self.target().filter(|target| target.fate == Fate::Goes)?;
        self.step.as_ref().map(|_| (target.at.id.clone(), target.at.version.clone()))
    }

    /// The uid of the object, where it is ours.
    pub(crate) fn uid(&self) -> Option<&str> {
        match self.known.as_ref().map(|known| &known.standing) {
            Some(Standing::Ours { uid }) => Some(uid),
            _ => None,
        }
    }

    /// It is as it was known.
    pub(crate) fn remember(&mut self, known: &Known) {
        self.applied = known.applied.clone();
        self.known = Some(known.clone());
    }

    /// It cannot be read.
    pub(crate) fn despair(&mut self, trouble: Trouble, before: Option<&Known>) {
        self.known = Some(Known {
            sent: before.and_then(|known| known.sent),
            revision: None,
            standing: Standing::Unsure,
            presence: Presence::Unreadable(trouble.words.clone()),
            feedback: before.map(|known| known.feedback.clone()).unwrap_or_default(),
            applied: Err(trouble.clone()),
        });
        self.applied = Err(trouble);
    }

    /// Decides what is to be done, by what is there.
    pub(crate) fn decide(&mut self, live: Option<Value>, owner: &Owner, before: Option<&Known>) {
        self.live = live;
        let Place::Object(target) = &mut self.place else { return };
        let live = self.live.as_ref();
        target.fate = fate_of(&target.at.id, live, target.fate);
        let owners = owner.applied(self.manifest, live, target.fate);
        let body = body(self.manifest, &target.served, owners);
        let would_send = in_short(&body, &target.treatment);
        let sent = before.and_then(|known| known.sent);
        let decided = step(Subject {
            treatment: &target.treatment,
            fate: target.fate,
            owner,
            body,
            live,
            came_of_this: sent.is_some() && sent == live.map(|live| (would_send, digest(live))),
        });
        match decided {
            Step::Leave => self.settle(owner, Some(would_send)),
            Step::Fail { words } => {
                self.applied = Err(Trouble { words, hope: Hope::Change });
                self.settle(owner, None);
            }
            Step::Apply { .. } | Step::Create { .. } | Step::Own { .. } => {
                self.repairs = sent.is_some_and(|(sent, _)| sent == would_send);
                self.step = Some((decided, would_send));
            }
        }
    }

    /// What was decided, to be carried out.
    pub(crate) fn order(&mut self, place: usize) -> Option<Order> {
        let Place::Object(target) = &self.place else { return None };
        let (step, sent) = self.step.take()?;
        Some(Order { place, sent, step, at: target.at.clone(), live: self.live.clone() })
    }

    /// It was written.
    pub(crate) fn succeed(&mut self, live: Value, sent: u64, owner: &Owner) {
        self.applied = Ok(());
        self.live = Some(live);
        self.settle(owner, Some(sent));
    }

    /// It was not written. Where fields of others are in the way and are not to be taken, only a change can help.
    pub(crate) fn fail(&mut self, trouble: Trouble, conflict: bool, owner: &Owner) {
        let treatment = self.target().map(|target| &target.treatment);
        let yields = matches!(treatment, Some(Treatment::Apply { force: Force::No, .. }));
        let hope = if conflict && yields { Hope::Change } else { trouble.hope };
        self.applied = Err(Trouble { hope, ..trouble });
        self.repairs = false;
        self.settle(owner, None);
    }

    /// Notes what is known by now, and whether it came of what was sent.
    pub(crate) fn settle(&mut self, owner: &Owner, sent: Option<u64>) {
        let Place::Object(target) = &self.place else { return };
        let live = self.live.as_ref();
        let never_ours = matches!(target.treatment, Treatment::Read | Treatment::Unknown);
        self.known = Some(Known {
            sent: sent.zip(live.map(digest)),
            revision: live.map(|live| text(live, "/metadata/resourceVersion").to_owned()),
            standing: match live {
                Some(live) if owner.owns(live) => {
                    Standing::Ours { uid: text(live, "/metadata/uid").to_owned() }
                }
                Some(_) => Standing::NotOurs,
                None if never_ours => Standing::NotOurs,
                None => Standing::Unsure,
            },
            presence: if live.is_some() { Presence::There } else { Presence::Missing },
            feedback: feedback(&target.rules, &target.manifest.kind, live),
            applied: self.applied.clone(),
        });
    }

    /// What is told of it.
    pub(crate) fn finding(self) -> Finding {
        let (presence, feedback) = match self.known {
            Some(known) => (known.presence, known.feedback),
            None => (Presence::Unnamed, Feedback::default()),
        };
        Finding {
            meta: self.meta,
            applied: self.applied.map_err(|trouble| trouble.words),
            presence,
            feedback,
        }
    }
}

/// Something to be written.
pub(crate) struct Order {
    /// Which manifest it is for.
    pub(crate) place: usize,
    /// What is sent, in short.
    pub(crate) sent: u64,
    step: Step,
    at: Address,
    live: Option<Value>,
}

impl Order {
    /// Writes it, and says what is there then.
    pub(crate) async fn write(&self, spoke: &Spoke) -> Result<Value, kube::Error> {
        let live = self.live.as_ref();
        match &self.step {
            Step::Apply { body, manager, force } => {
                spoke.apply(&self.at, body, manager, *force, live.is_some()).await
            }
            Step::Create { body } => spoke.create(&self.at, body).await,
            Step::Own { owners } => spoke.own(&self.at, live.unwrap_or(&Value::Null), owners).await,
            // Nothing is to be done, and nothing is planned for it.
            Step::Leave | Step::Fail { .. } => Ok(self.live.clone().unwrap_or_default()),
        }
    }
}

/// What would be sent, as a number.
fn in_short(body: &Value, treatment: &Treatment) -> u64 {
    let mut hasher = DefaultHasher::new();
    digest(body).hash(&mut hasher);
    body.get("status").map(ToString::to_string).hash(&mut hasher);
    treatment.hash(&mut hasher);
    hasher.finish()
}
