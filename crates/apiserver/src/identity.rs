//! Who is asking. Authentication decides the identity once, and it travels with the request to every rule.

use std::collections::BTreeMap;

/// The group of those whom no rule restrains.
pub(crate) const MASTERS: &str = "system:masters";
/// The group of everybody who is known.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
/// The group of everybody who is not.
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The group of the administrators, whom a ClusterRoleBinding makes what they are.
pub(crate) const ADMINS: &str = "bellwether:admins";

const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";

/// A user as the API knows one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The user's name, such as `admin` or `system:serviceaccount:default:builder`.
    pub user: String,
    /// What tells this user from another one who had the same name before; may be empty.
    pub uid: String,
    /// The groups the user is in.
    pub groups: Vec<String>,
    /// What else is known of the user.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Identity {
    /// A user by name, in no group but `system:authenticated`.
    pub fn user(name: impl Into<String>) -> Self {
        Self { user: name.into(), groups: vec![AUTHENTICATED.into()], ..Self::default() }
    }

    /// The same user, in one more group.
    #[must_use]
    pub fn with_group(mut self, group: impl Into<String>) -> Self {
        self.groups.insert(0, group.into());
        self
    }

    /// The administrator, by the rights that every logical cluster gives to `bellwether:admins`.
    pub fn admin() -> Self {
        Self::user("admin").with_group(ADMINS)
    }

    /// Somebody whom no rule restrains. For setting up the rules, not for daily work: it cannot be revoked.
    pub fn master(name: impl Into<String>) -> Self {
        Self::user(name).with_group(MASTERS)
    }

    /// A controller of ours: it may do what its Role says.
    pub fn controller(name: &str) -> Self {
        Self::user(format!("bellwether:{name}"))
    }

    /// A ServiceAccount.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self {
            user: service_account(namespace, name),
            groups: vec![
                SERVICE_ACCOUNTS.into(),
                format!("{SERVICE_ACCOUNTS}:{namespace}"),
                AUTHENTICATED.into(),
            ],
            ..Self::default()
        }
    }
}

/// The name of a ServiceAccount as a user.
pub(crate) fn service_account(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT}{namespace}:{name}")
}

/// The namespace and name in the user name of a ServiceAccount.
pub(crate) fn split_service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')?;
    let valid = crate::names::label(namespace).is_empty() && crate::names::subdomain(name).is_empty();
    valid.then_some((namespace, name))
}
