//! Where the works of an add-on stand (`spec/lifecycle.md` 3.1): what the version needs, beside what there is.

use std::collections::BTreeMap;

use bellwether_conditions::Status;

/// A work as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its name.
    pub name: String,
    /// What its manifests are, so that a change of them is noticed.
    pub digest: String,
}

/// A work as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its name.
    pub name: String,
    /// The add-on that its label names.
    pub addon: String,
    /// The version that its label names.
    pub version: String,
    /// What its manifests are.
    pub digest: String,
    /// Its generation.
    pub generation: i64,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether its objects were written.
    pub applied: Option<Reading>,
    /// Whether its objects are there.
    pub available: Option<Reading>,
}

/// What a condition of a work says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Whether it is so.
    pub status: Status,
    /// Of which generation.
    pub generation: i64,
    /// In words.
    pub message: String,
}

/// A workload, as the agent reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Which: `Deployment hello/hello`.
    pub name: String,
    /// How its copies are; nothing, while nobody has said.
    pub copies: Option<Copies>,
    /// Whether the agent looks at it: of one that does not, there is nothing to be learned by waiting.
    pub watched: bool,
}

/// The copies of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copies {
    /// How many there should be.
    pub wanted: i64,
    /// How many are ready, old or new.
    pub ready: i64,
    /// How many are new, and how many old ones are still there; nothing where the agent does not say.
    pub renewed: Option<(i64, i64)>,
}

/// Where a work stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stand {
    /// It is not there, or about to go.
    Missing,
    /// It is of another version, or was changed.
    Stale,
    /// The agent has not answered yet.
    Behind,
    /// The agent could not write an object.
    NotApplied(String),
    /// An object is not there.
    NotAvailable(String),
    /// Whether the objects are there cannot be told.
    Unknown(String),
    /// All is there.
    Ready,
}

impl Stand {
    fn of(wanted: &Wanted, found: Option<&Found>, addon: &str, version: &str) -> Self {
        let Some(found) = found.filter(|found| !found.deleting) else { return Self::Missing };
        if found.addon != addon || found.version != version || found.digest != wanted.digest {
            return Self::Stale;
        }
        let current = |reading: &Option<Reading>| {
            reading.clone().filter(|reading| reading.generation == found.generation)
        };
        let applied = current(&found.applied);
        if let Some(Reading { status: Status::False, message, .. }) = applied {
            return Self::NotApplied(message);
        }
        let (Some(applied), Some(available)) = (applied, current(&found.available)) else {
            return Self::Behind;
        };
        match (applied.status, available.status) {
            (Status::True, Status::True) => Self::Ready,
            (Status::True, Status::False) => Self::NotAvailable(available.message),
            (Status::True, Status::Unknown) => Self::Unknown(available.message),
            (Status::False | Status::Unknown, _) => Self::Behind,
        }
    }
}

/// All works of a version, where they stand, and those that the version does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stands {
    /// By name, in the order of the version.
    pub wanted: Vec<(String, Stand)>,
    /// Works of the add-on that are left over from another version.
    pub surplus: Vec<String>,
}

impl Stands {
    /// Of an add-on in a version. Works that are somebody else's are not looked at.
    pub fn of(wanted: &[Wanted], found: &[Found], addon: &str, version: &str) -> Self {
        let mut ours: BTreeMap<&str, &Found> = found
            .iter()
            .filter(|found| is_ours(found, addon))
            .map(|found| (found.name.as_str(), found))
            .collect();
        let wanted = wanted
            .iter()
            .map(|work| {
                let found = ours.remove(work.name.as_str());
                (work.name.clone(), Stand::of(work, found, addon, version))
            })
            .collect();
        Self { wanted, surplus: ours.into_keys().map(str::to_owned).collect() }
    }

    /// Of what there is, whatever it should be; nothing, where there is nothing.
    pub fn as_found<'a>(found: impl Iterator<Item = &'a Found>) -> Option<Self> {
        let wanted: Vec<(String, Stand)> = found
            .map(|found| {
                let same = Wanted { name: found.name.clone(), digest: found.digest.clone() };
                (found.name.clone(), Stand::of(&same, Some(found), &found.addon, &found.version))
            })
            .collect();
        (!wanted.is_empty()).then_some(Self { wanted, surplus: Vec::new() })
    }

    /// Whether all is there, and nothing is left over.
    pub fn done(&self) -> bool {
        self.surplus.is_empty() && self.wanted.iter().all(|(_, stand)| *stand == Stand::Ready)
    }

    /// Whether everything was deployed and nothing was taken away since, whatever became of it.
    pub fn deployed(&self) -> bool {
        let deployed = |stand: &Stand| !matches!(stand, Stand::Missing | Stand::Stale);
        self.surplus.is_empty() && self.wanted.iter().all(|(_, stand)| deployed(stand))
    }

    /// What is missing or of another version is on its way: all that is waited for is the agent. So it is where all is
    /// there and is still to come up.
    pub fn await_what_is_brought(&mut self) {
        let done = self.done();
        for (_, stand) in &mut self.wanted {
            if done || matches!(stand, Stand::Missing | Stand::Stale) {
                *stand = Stand::Behind;
            }
        }
    }

    /// The first work that could not be written, and why.
    pub fn failure(&self) -> Option<(&str, &str)> {
        self.wanted.iter().find_map(|(name, stand)| match stand {
            Stand::NotApplied(message) => Some((name.as_str(), message.as_str())),
            _ => None,
        })
    }
}

/// The name of a work of an add-on.
pub fn work_name(addon: &str, number: usize) -> String {
    format!("addon-{addon}-deploy-{number}")
}

/// Whether a work is one that we made for the add-on: by its name, which nobody else gives.
pub fn is_ours(found: &Found, addon: &str) -> bool {
    addon_of(&found.name) == Some(addon)
}

/// The add-on that a work was made for, by its name.
pub fn addon_of(work: &str) -> Option<&str> {
    let (addon, number) = work.strip_prefix("addon-")?.rsplit_once("-deploy-")?;
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(addon)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(status: Status, generation: i64) -> Option<Reading> {
        Some(Reading { status, generation, message: "the words of the agent".to_owned() })
    }

    fn wanted() -> Wanted {
        Wanted { name: work_name("hello", 0), digest: "d".to_owned() }
    }

    fn found() -> Found {
        Found {
            name: work_name("hello", 0),
            addon: "hello".to_owned(),
            version: "v1".to_owned(),
            digest: "d".to_owned(),
            generation: 2,
            deleting: false,
            applied: reading(Status::True, 2),
            available: reading(Status::True, 2),
        }
    }

    fn stand(found: Option<Found>) -> Stand {
        let found: Vec<Found> = found.into_iter().collect();
        Stands::of(&[wanted()], &found, "hello", "v1").wanted.remove(0).1
    }

    #[test]
    fn a_work_stands_where_its_conditions_at_its_generation_say() {
        use Status::{False, True, Unknown};
        let words = || "the words of the agent".to_owned();
        let rows: [(&str, Option<Found>, Stand); 14] = [
            ("there is none", None, Stand::Missing),
            ("it goes", Some(Found { deleting: true, ..found() }), Stand::Missing),
            ("another version", Some(Found { version: "v2".into(), ..found() }), Stand::Stale),
            ("another add-on's label", Some(Found { addon: "other".into(), ..found() }), Stand::Stale),
            ("other manifests", Some(Found { digest: "e".into(), ..found() }), Stand::Stale),
            ("all well", Some(found()), Stand::Ready),
            ("never applied", Some(Found { applied: None, ..found() }), Stand::Behind),
            ("available unsaid", Some(Found { available: None, ..found() }), Stand::Behind),
            (
                "applied before the change",
                Some(Found { applied: reading(True, 1), ..found() }),
                Stand::Behind,
            ),
            (
                "available before the change",
                Some(Found { available: reading(True, 1), ..found() }),
                Stand::Behind,
            ),
            (
                "failed before the change",
                Some(Found { applied: reading(False, 1), ..found() }),
                Stand::Behind,
            ),
            (
                "failed now",
                Some(Found { applied: reading(False, 2), available: None, ..found() }),
                Stand::NotApplied(words()),
            ),
            (
                "not there",
                Some(Found { available: reading(False, 2), ..found() }),
                Stand::NotAvailable(words()),
            ),
            (
                "nobody can tell",
                Some(Found { available: reading(Unknown, 2), ..found() }),
                Stand::Unknown(words()),
            ),
        ];
        for (what, found, wanted) in rows {
            assert_eq!(stand(found), wanted, "{what}");
        }
    }

    #[test]
    fn what_another_version_left_behind_keeps_it_from_being_done_and_foreign_works_do_not() {
        let named = |name: &str| Found { name: name.to_owned(), ..found() };
        let others = [
            named("addon-hello-deploy-1"),
            named("addon-hello-deploy-"),
            named("addon-hello-deploy-x"),
            named("addon-hello-world-deploy-0"),
            named("hello"),
        ];
        let mut all = others.to_vec();
        all.push(found());
        let stands = Stands::of(&[wanted()], &all, "hello", "v1");
        assert_eq!(stands.surplus, ["addon-hello-deploy-1"]);
        assert!(!stands.done() && !stands.deployed());
        all.remove(0);
        assert!(Stands::of(&[wanted()], &all, "hello", "v1").done());
    }

    #[test]
    fn a_version_without_objects_is_done_at_once() {
        assert!(Stands::of(&[], &[], "hello", "v1").done());
    }
}
