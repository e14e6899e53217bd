//! What is done for one object, from how it is to be treated and what is there.

use serde_json::Value;

use super::owners::Owner;
use super::rules::{Fate, Force, Treatment};
use super::settled::is_settled;

/// What is done for an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Nothing: it is as it should be.
    Leave,
    /// It is applied.
    Apply { body: Value, manager: String, force: Force },
    /// It is made.
    Create { body: Value },
    /// Its owners are written, and nothing else.
    Own { owners: Vec<Value> },
    /// Nothing can be done now, for this reason.
    Fail { words: String },
}

/// An object, as it is wanted and as it is.
pub(crate) struct Subject<'a> {
    pub(crate) treatment: &'a Treatment,
    pub(crate) fate: Fate,
    pub(crate) owner: &'a Owner,
    /// What would be sent, with all owners.
    pub(crate) body: Value,
    /// What is there.
    pub(crate) live: Option<&'a Value>,
    /// Whether just this was sent before, and what is there is what came of it.
    pub(crate) came_of_this: bool,
}

/// What is done for it.
pub(crate) fn step(subject: Subject<'_>) -> Step {
    let Subject { treatment, fate, owner, body, live, came_of_this } = subject;
    match (treatment, live) {
        (Treatment::Read, _) => Step::Leave,
        (Treatment::Unknown, _) => Step::Fail {
            words: "it is not written, as its work asks for a way to update it that is not known here".into(),
        },
        (_, Some(live)) if is_being_deleted(live) => {
            Step::Fail { words: "it is being deleted; it is made again when it is gone".into() }
        }
        (Treatment::Create, None) => Step::Create { body },
        (Treatment::Create, Some(live)) => owning(owner, live, fate),
        (Treatment::Apply { manager, .. }, Some(live))
            if came_of_this || is_settled(&body, live, manager) =>
        {
            Step::Leave
        }
        (Treatment::Apply { manager, force }, _) => {
            Step::Apply { body, manager: manager.clone(), force: *force }
        }
    }
}

/// An object that is made and then left alone belongs to the works that would have made it; one that somebody else made
/// belongs to none of them.
fn owning(owner: &Owner, live: &Value, fate: Fate) -> Step {
    let differs = match fate {
        Fate::Goes => !owner.owns(live) && owner.shares(live),
        Fate::Stays => owner.owns(live),
    };
    if !differs {
        return Step::Leave;
    }
    Step::Own { owners: owner.kept(live, fate) }
}

fn is_being_deleted(live: &Value) -> bool {
    live.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn us() -> Owner {
        Owner { name: "us".into(), uid: "us".into() }
    }

    fn work(uid: &str) -> Value {
        json!({"apiVersion": "work.open-cluster-management.io/v1", "kind": "AppliedManifestWork", "name": uid, "uid": uid})
    }

    fn body() -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "b"}})
    }

    fn live(owners: &[Value]) -> Value {
        let fields = json!({"f:data": {"f:a": {}}});
        let managed =
            json!([{"manager": "work-agent", "operation": "Apply", "apiVersion": "v1", "fieldsV1": fields}]);
        json!({"metadata": {"name": "x", "ownerReferences": owners, "managedFields": managed}, "data": {"a": "b"}})
    }

    fn drifted() -> Value {
        json!({"metadata": {"name": "x"}, "data": {"a": "c"}})
    }

    fn leaving() -> Value {
        json!({"metadata": {"name": "x", "deletionTimestamp": "2024-05-01T10:00:00Z"}})
    }

    #[test]
    fn every_treatment_meets_every_state() {
        let apply = Treatment::Apply { manager: "work-agent".into(), force: Force::Yes };
        let applied = || Step::Apply { body: body(), manager: "work-agent".into(), force: Force::Yes };
        let (none, created) = (Step::Leave, Step::Create { body: body() });
        let unknown = Step::Fail {
            words: "it is not written, as its work asks for a way to update it that is not known here".into(),
        };
        let awaited = Step::Fail { words: "it is being deleted; it is made again when it is gone".into() };
        let own = |owners: &[Value]| Step::Own { owners: owners.to_vec() };
        let rows = [
            ("a new object is applied", &apply, Fate::Goes, None, applied()),
            ("one that is settled is left alone", &apply, Fate::Goes, Some(live(&[])), none.clone()),
            ("one that drifted is applied", &apply, Fate::Goes, Some(drifted()), applied()),
            ("one that leaves is waited for", &apply, Fate::Goes, Some(leaving()), awaited.clone()),
            ("a new object is made", &Treatment::Create, Fate::Goes, None, created),
            ("and then left alone", &Treatment::Create, Fate::Goes, Some(live(&[work("us")])), none.clone()),
            ("as is that of another", &Treatment::Create, Fate::Goes, Some(drifted()), none.clone()),
            (
                "that of another work is shared",
                &Treatment::Create,
                Fate::Goes,
                Some(live(&[work("them")])),
                own(&[work("them"), work("us")]),
            ),
            (
                "one that is to stay is released",
                &Treatment::Create,
                Fate::Stays,
                Some(live(&[work("us")])),
                own(&[]),
            ),
            (
                "and then left alone too",
                &Treatment::Create,
                Fate::Stays,
                Some(live(&[work("them")])),
                none.clone(),
            ),
            ("what leaves is waited for", &Treatment::Create, Fate::Goes, Some(leaving()), awaited),
            ("what is read is not written", &Treatment::Read, Fate::Goes, Some(drifted()), none.clone()),
            ("whether it is there or not", &Treatment::Read, Fate::Goes, None, none),
            ("what nobody knows is not done", &Treatment::Unknown, Fate::Goes, None, unknown),
        ];
        for (sentence, treatment, fate, live, wanted) in rows {
            let (owner, live) = (us(), live.as_ref());
            let subject = Subject { treatment, fate, owner: &owner, body: body(), live, came_of_this: false };
            assert_eq!(step(subject), wanted, "{sentence}");
        }
        let (owner, live) = (us(), drifted());
        let subject = Subject {
            treatment: &apply,
            fate: Fate::Goes,
            owner: &owner,
            body: body(),
            live: Some(&live),
            came_of_this: true,
        };
        assert_eq!(step(subject), Step::Leave, "what came of the same is not tried again");
    }
}
