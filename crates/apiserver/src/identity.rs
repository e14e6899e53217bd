//! Who is asking. The transport decides the identity once, and it travels with the request to every rule.

/// The group of those whom no rule restrains.
pub(crate) const MASTERS: &str = "system:masters";

/// A user as the API knows one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user's name, such as `admin` or `system:apiserver`.
    pub user: String,
    /// The groups the user is in.
    pub groups: Vec<String>,
}

impl Identity {
    /// A user by name, in no group but `system:authenticated`.
    pub fn user(name: impl Into<String>) -> Self {
        Self { user: name.into(), groups: vec!["system:authenticated".into()] }
    }

    /// The administrator.
    pub fn admin() -> Self {
        Self { user: "admin".into(), groups: vec![MASTERS.into(), "system:authenticated".into()] }
    }

    /// One of the server's own controllers.
    pub fn controller(name: &str) -> Self {
        Self {
            user: format!("system:controller:{name}"),
            groups: vec![MASTERS.into(), "system:authenticated".into()],
        }
    }
}
