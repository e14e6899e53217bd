//! Decides whether and how one object is written, from its strategy and its state on the cluster.

use serde_json::Value;

use super::drift::is_up_to_date;
use super::object_options::{DeletionPolicy, Force, WriteStrategy};
use super::owners::Owner;

/// The write that an object needs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// None: the object is as specified.
    None,
    Apply {
        body: Value,
        field_manager: String,
        force: Force,
    },
    Create {
        body: Value,
    },
    /// Only the owner references are written.
    SetOwners {
        owners: Vec<Value>,
    },
    /// The object cannot be written now, with this message for the status.
    Fail {
        message: String,
    },
}

/// An object as it is specified and as it is on the cluster.
pub(crate) struct ActionInput<'a> {
    pub(crate) strategy: &'a WriteStrategy,
    pub(crate) policy: DeletionPolicy,
    pub(crate) owner: &'a Owner,
    /// The body of an apply or create request, with all owner references.
    pub(crate) body: Value,
    /// The object on the cluster.
    pub(crate) live: Option<&'a Value>,
    /// Whether the last write sent the same body, and the object has not changed since.
    pub(crate) is_result_of_same_write: bool,
}

/// Decides the write that an object needs.
pub(crate) fn decide_action(input: ActionInput<'_>) -> Action {
    let ActionInput { strategy, policy, owner, body, live, is_result_of_same_write } = input;
    match (strategy, live) {
        (WriteStrategy::ReadOnly, _) => Action::None,
        (WriteStrategy::Unsupported, _) => Action::Fail {
            message: "the object was not written, because its updateStrategy.type is invalid: \
                must be Update, CreateOnly, ServerSideApply or ReadOnly"
                .into(),
        },
        (_, Some(live)) if is_being_deleted(live) => Action::Fail {
            message: "the object is being deleted; it is created again after the deletion".into(),
        },
        (WriteStrategy::CreateOnly, None) => Action::Create { body },
        (WriteStrategy::CreateOnly, Some(live)) => decide_owners(owner, live, policy),
        (WriteStrategy::Apply { field_manager, .. }, Some(live))
            if is_result_of_same_write || is_up_to_date(&body, live, field_manager) =>
        {
            Action::None
        }
        (WriteStrategy::Apply { field_manager, force }, _) => {
            Action::Apply { body, field_manager: field_manager.clone(), force: *force }
        }
    }
}

/// Decides the owners of an existing object with strategy `CreateOnly`. If the agent created it, each ManifestWork that
/// lists it owns it; if somebody else created it, none does.
fn decide_owners(owner: &Owner, live: &Value, policy: DeletionPolicy) -> Action {
    let differs = match policy {
        DeletionPolicy::Delete => !owner.is_owner_of(live) && owner.has_other_work_in(live),
        DeletionPolicy::Orphan => owner.is_owner_of(live),
    };
    if !differs {
        return Action::None;
    }
    Action::SetOwners { owners: owner.owners_to_set(live, policy) }
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

    fn being_deleted() -> Value {
        json!({"metadata": {"name": "x", "deletionTimestamp": "2024-05-01T10:00:00Z"}})
    }

    #[test]
    fn action_follows_from_strategy_and_state() {
        let apply = WriteStrategy::Apply { field_manager: "work-agent".into(), force: Force::Yes };
        let applied =
            || Action::Apply { body: body(), field_manager: "work-agent".into(), force: Force::Yes };
        let (none, created) = (Action::None, Action::Create { body: body() });
        let unknown = Action::Fail {
            message: "the object was not written, because its updateStrategy.type is invalid: \
                must be Update, CreateOnly, ServerSideApply or ReadOnly"
                .into(),
        };
        let waiting = Action::Fail {
            message: "the object is being deleted; it is created again after the deletion".into(),
        };
        let set_owners = |owners: &[Value]| Action::SetOwners { owners: owners.to_vec() };
        let rows = [
            ("a missing object is applied", &apply, DeletionPolicy::Delete, None, applied()),
            (
                "an up-to-date object is not written",
                &apply,
                DeletionPolicy::Delete,
                Some(live(&[])),
                none.clone(),
            ),
            ("an object that drifted is applied", &apply, DeletionPolicy::Delete, Some(drifted()), applied()),
            (
                "an object that is being deleted is not applied",
                &apply,
                DeletionPolicy::Delete,
                Some(being_deleted()),
                waiting.clone(),
            ),
            (
                "CreateOnly creates a missing object",
                &WriteStrategy::CreateOnly,
                DeletionPolicy::Delete,
                None,
                created,
            ),
            (
                "CreateOnly does not write its own object",
                &WriteStrategy::CreateOnly,
                DeletionPolicy::Delete,
                Some(live(&[work("us")])),
                none.clone(),
            ),
            (
                "CreateOnly does not write an object of somebody else",
                &WriteStrategy::CreateOnly,
                DeletionPolicy::Delete,
                Some(drifted()),
                none.clone(),
            ),
            (
                "CreateOnly shares an object of another ManifestWork",
                &WriteStrategy::CreateOnly,
                DeletionPolicy::Delete,
                Some(live(&[work("them")])),
                set_owners(&[work("them"), work("us")]),
            ),
            (
                "CreateOnly releases an orphaned object",
                &WriteStrategy::CreateOnly,
                DeletionPolicy::Orphan,
                Some(live(&[work("us")])),
                set_owners(&[]),
            ),
            (
                "CreateOnly does not write a released object",
                &WriteStrategy::CreateOnly,
                DeletionPolicy::Orphan,
                Some(live(&[work("them")])),
                none.clone(),
            ),
            (
                "CreateOnly does not create an object that is being deleted",
                &WriteStrategy::CreateOnly,
                DeletionPolicy::Delete,
                Some(being_deleted()),
                waiting,
            ),
            (
                "ReadOnly does not write an existing object",
                &WriteStrategy::ReadOnly,
                DeletionPolicy::Delete,
                Some(drifted()),
                none.clone(),
            ),
            (
                "ReadOnly does not create a missing object",
                &WriteStrategy::ReadOnly,
                DeletionPolicy::Delete,
                None,
                none,
            ),
            (
                "an unsupported strategy writes nothing",
                &WriteStrategy::Unsupported,
                DeletionPolicy::Delete,
                None,
                unknown,
            ),
        ];
        for (case, strategy, policy, live, expected) in rows {
            let (owner, live) = (us(), live.as_ref());
            let input = ActionInput {
                strategy,
                policy,
                owner: &owner,
                body: body(),
                live,
                is_result_of_same_write: false,
            };
            assert_eq!(decide_action(input), expected, "{case}");
        }
        let (owner, live) = (us(), drifted());
        let input = ActionInput {
            strategy: &apply,
            policy: DeletionPolicy::Delete,
            owner: &owner,
            body: body(),
            live: Some(&live),
            is_result_of_same_write: true,
        };
        assert_eq!(decide_action(input), Action::None, "the result of the same write is not written again");
    }
}
