//! The names of conditions. The two combined conditions of a resource have two pairs of names; both are accepted in searches.

use serde::Serialize;

/// The names of the two combined conditions of a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Vocabulary {
    /// `Ready` and `Available`.
    #[default]
    Ready,
    /// `Reconciled` and `LastKnownReconciled`.
    Upstream,
    /// Both pairs, so that clients of either share an API.
    Both,
}

/// All adapters report the current generation as available: both names.
static CURRENT: [&str; 2] = ["Ready", "Reconciled"];
/// The last known good generation is still available: both names.
static LAST_KNOWN: [&str; 2] = ["Available", "LastKnownReconciled"];

/// The conditions of a report.
pub mod reported {
    /// Whether what the adapter manages is available.
    pub const AVAILABLE: &str = "Available";
    /// Whether the adapter has done its work.
    pub const APPLIED: &str = "Applied";
    /// Whether the adapter itself is healthy.
    pub const HEALTH: &str = "Health";
    /// Whether the adapter has cleaned up after a resource that is being deleted.
    pub const FINALIZED: &str = "Finalized";
}

impl Vocabulary {
    /// The names of the condition for the current generation.
    pub fn current(self) -> &'static [&'static str] {
        self.choose(&CURRENT)
    }

    /// The names of the condition for the last known good generation.
    pub fn last_known(self) -> &'static [&'static str] {
        self.choose(&LAST_KNOWN)
    }

    /// The name by which resources are counted whose current generation is not ready.
    pub fn counted(self) -> &'static str {
        match self {
            Self::Ready | Self::Both => "Ready",
            Self::Upstream => "Reconciled",
        }
    }

    fn choose(self, both: &'static [&'static str; 2]) -> &'static [&'static str] {
        let [ready, upstream] = both;
        match self {
            Self::Ready => std::slice::from_ref(ready),
            Self::Upstream => std::slice::from_ref(upstream),
            Self::Both => both,
        }
    }

    /// Whether this is a name of a combined condition.
    pub fn is_root(self, type_: &str) -> bool {
        is_current(type_) || is_last_known(type_)
    }
}

/// Whether this is a name of the condition for the current generation.
pub fn is_current(type_: &str) -> bool {
    CURRENT.contains(&type_)
}

/// Whether this is a name of the condition for the last known good generation.
pub fn is_last_known(type_: &str) -> bool {
    LAST_KNOWN.contains(&type_)
}

/// The condition type of an adapter: `my-adapter` becomes `MyAdapterSuccessful`.
pub fn adapter_condition(adapter: &str) -> String {
    let mut type_ = String::with_capacity(adapter.len() + 10);
    for word in adapter.split('-') {
        let mut letters = word.chars();
        type_.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        type_.push_str(letters.as_str());
    }
    type_.push_str("Successful");
    type_
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn condition_type_is_derived_from_the_adapter() {
        let rows =
            [("my-adapter", "MyAdapterSuccessful"), ("dns", "DnsSuccessful"), ("a--b", "ABSuccessful")];
        for (adapter, type_) in rows {
            assert_eq!(adapter_condition(adapter), type_);
        }
    }
}
