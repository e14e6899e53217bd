//! The roles and bindings of a logical cluster, read from its store and indexed by whom they are for. Read anew when
//! one of them changes; asked on every request.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bellwether_store::{Revision, Snapshot, Space, Store};
use parking_lot::Mutex;
use serde::Deserialize;

use super::rule::Rule;
use super::wish::Wish;
use crate::identity::{Identity, MASTERS};
use crate::object::Head;

/// What was decided about a wish.
pub(crate) struct Verdict {
    pub(crate) allowed: bool,
    /// By what it is allowed, or what kept the answer from being complete.
    pub(crate) reason: String,
}

/// A role, of the cluster or of a namespace.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Role {
    rules: Option<Vec<Rule>>,
}

/// Who has a role.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Binding {
    role_ref: RoleRef,
    subjects: Option<Vec<Subject>>,
}

/// The role that a binding is for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RoleRef {
    pub(crate) api_group: String,
    pub(crate) kind: String,
    pub(crate) name: String,
}

/// Whom a binding is for.
#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct Subject {
    kind: String,
    name: String,
    namespace: String,
}

/// A role that somebody has, and why.
struct Grant {
    /// Nothing, if there is no such role.
    rules: Option<Arc<[Rule]>>,
    binding: Arc<str>,
    /// The namespace of the binding; empty for one of the cluster.
    namespace: Arc<str>,
    role: RoleRef,
    subject: Subject,
}

impl Grant {
    fn allows(&self, wish: &Wish<'_>) -> bool {
        self.rules.iter().flat_map(|rules| rules.iter()).any(|rule| rule.allows(wish))
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (role, subject) = (&self.role, &self.subject);
        match &*self.namespace {
            "" => write!(f, "ClusterRoleBinding {:?}", self.binding)?,
            namespace => write!(f, "RoleBinding {:?}", format!("{}/{namespace}", self.binding))?,
        }
        write!(f, " of {} {:?} to {} ", role.kind, role.name, subject.kind)?;
        if subject.kind != "ServiceAccount" {
            return write!(f, "{:?}", subject.name);
        }
        let home = if subject.namespace.is_empty() { &*self.namespace } else { &subject.namespace };
        write!(f, "{:?}", format!("{}/{home}", subject.name))
    }
}

/// The grants of one scope, by whom they are for.
#[derive(Default)]
struct Grants {
    users: HashMap<String, Vec<Arc<Grant>>>,
    groups: HashMap<String, Vec<Arc<Grant>>>,
}

impl Grants {
    fn add(&mut self, grant: Grant) {
        let subject = &grant.subject;
        let home = if subject.namespace.is_empty() { &*grant.namespace } else { &subject.namespace };
        let (map, key) = match subject.kind.as_str() {
            "User" => (&mut self.users, subject.name.clone()),
            "Group" => (&mut self.groups, subject.name.clone()),
            "ServiceAccount" if !home.is_empty() => {
                (&mut self.users, crate::identity::service_account(home, &subject.name))
            }
            _ => return,
        };
        map.entry(key).or_default().push(Arc::new(grant));
    }

    fn of<'a>(&'a self, identity: &'a Identity) -> impl Iterator<Item = &'a Arc<Grant>> {
        let user = self.users.get(&identity.user).into_iter().flatten();
        let groups = identity.groups.iter().filter_map(|group| self.groups.get(group)).flatten();
        user.chain(groups)
    }
}

/// All roles and bindings of a logical cluster.
#[derive(Default)]
pub(crate) struct Policy {
    at: Revision,
    roles: Roles,
    cluster: Grants,
    namespaces: HashMap<String, Grants>,
}

/// Rules by the path of their role.
#[derive(Default)]
struct Roles {
    cluster: HashMap<Arc<str>, Arc<[Rule]>>,
    namespaced: HashMap<Arc<str>, Arc<[Rule]>>,
}

impl Roles {
    fn rules(&self, role: &RoleRef, namespace: &str) -> Option<Arc<[Rule]>> {
        match role.kind.as_str() {
            "ClusterRole" => self.cluster.get(role.name.as_str()).cloned(),
            "Role" => self.namespaced.get(format!("{namespace}/{}", role.name).as_str()).cloned(),
            _ => None,
        }
    }
}

impl Policy {
    /// Whether somebody may do something.
    pub(crate) fn judge(&self, identity: &Identity, wish: &Wish<'_>) -> Verdict {
        if identity.groups.iter().any(|group| group == MASTERS) {
            return Verdict { allowed: true, reason: String::new() };
        }
        if let Some(grant) = self.grants(identity, wish.namespace()).find(|grant| grant.allows(wish)) {
            return Verdict { allowed: true, reason: format!("RBAC: allowed by {grant}") };
        }
        Verdict { allowed: false, reason: self.gaps(identity, wish.namespace()) }
    }

    /// Whether somebody may do something, for those who do not ask why.
    pub(crate) fn allows(&self, identity: &Identity, wish: &Wish<'_>) -> bool {
        identity.groups.iter().any(|group| group == MASTERS)
            || self.grants(identity, wish.namespace()).any(|grant| grant.allows(wish))
    }

    /// The rules that somebody has in a namespace, or in the cluster alone.
    pub(crate) fn rules_of<'a>(
        &'a self,
        identity: &'a Identity,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a Rule> {
        self.grants(identity, namespace).filter_map(|grant| grant.rules.as_deref()).flatten()
    }

    /// The rules of a role that a binding in a namespace (or of the cluster) is for.
    pub(crate) fn rules_behind(&self, role: &RoleRef, namespace: &str) -> Option<Arc<[Rule]>> {
        self.roles.rules(role, namespace)
    }

    /// Which roles are missing that somebody is bound to, in words; empty if none is.
    pub(crate) fn gaps(&self, identity: &Identity, namespace: &str) -> String {
        let missing = |grant: &Arc<Grant>| {
            let kind = grant.role.kind.to_lowercase();
            grant.rules.is_none().then(|| format!("{kind}.{} {:?} not found", super::GROUP, grant.role.name))
        };
        let mut words: Vec<String> = self.grants(identity, namespace).filter_map(missing).collect();
        words.dedup();
        match words.as_slice() {
            [] => String::new(),
            [one] => format!("RBAC: {one}"),
            many => format!("RBAC: [{}]", many.join(", ")),
        }
    }

    fn grants<'a>(&'a self, identity: &'a Identity, namespace: &str) -> impl Iterator<Item = &'a Arc<Grant>> {
        let local = self.namespaces.get(namespace).filter(|_| !namespace.is_empty());
        self.cluster.of(identity).chain(local.into_iter().flat_map(|grants| grants.of(identity)))
    }
}

/// The policy of a logical cluster, kept up to date.
pub(crate) struct Policies {
    cluster_roles: Space,
    roles: Space,
    cluster_bindings: Space,
    bindings: Space,
    current: ArcSwap<Policy>,
    /// Held by whoever reads the policy anew.
    read: Mutex<Read>,
}

/// What was read last, so that a change costs the reading of what changed.
#[derive(Default)]
struct Read {
    cluster_roles: Known<[Rule]>,
    roles: Known<[Rule]>,
    cluster_bindings: Known<Binding>,
    bindings: Known<Binding>,
}

/// The objects of a kind by their paths, as of the revisions they had.
type Known<T> = HashMap<Arc<str>, (Revision, Arc<T>)>;

impl Policies {
    /// The policy of a logical cluster, by its name.
    pub(crate) fn new(cluster: &str) -> Self {
        let space = |plural: &str| Space::new(format!("{cluster}/{plural}.{}", super::GROUP));
        Self {
            cluster_roles: space("clusterroles"),
            roles: space("roles"),
            cluster_bindings: space("clusterrolebindings"),
            bindings: space("rolebindings"),
            current: ArcSwap::default(),
            read: Mutex::default(),
        }
    }

    /// The policy as of the newest committed change.
    pub(crate) fn current(&self, store: &Store<Head>) -> Arc<Policy> {
        let current = self.current.load_full();
        if current.at >= self.last_change(store) {
            return current;
        }
        let mut read = self.read.lock();
        if self.current.load().at < self.last_change(store) {
            self.current.store(Arc::new(self.read(store, &mut read)));
        }
        self.current.load_full()
    }

    fn last_change(&self, store: &Store<Head>) -> Revision {
        [&self.cluster_roles, &self.roles, &self.cluster_bindings, &self.bindings]
            .into_iter()
            .map(|space| store.last_change(space))
            .max()
            .unwrap_or_default()
    }

    fn read(&self, store: &Store<Head>, read: &mut Read) -> Policy {
        // All four as of one moment: an old role under a new binding would be a grant that there never was.
        let (at, [cluster_roles, roles, cluster_bindings, bindings]) = loop {
            let at = self.last_change(store);
            let snapshots = [&self.cluster_roles, &self.roles, &self.cluster_bindings, &self.bindings]
                .map(|space| store.snapshot(space));
            if self.last_change(store) == at {
                break (at, snapshots);
            }
        };
        refresh(&mut read.cluster_roles, &cluster_roles, rules);
        refresh(&mut read.roles, &roles, rules);
        refresh(&mut read.cluster_bindings, &cluster_bindings, binding);
        refresh(&mut read.bindings, &bindings, binding);

        let roles = Roles { cluster: objects(&read.cluster_roles), namespaced: objects(&read.roles) };
        let mut policy = Policy { at, roles, ..Policy::default() };
        for entry in cluster_bindings.iter() {
            let Some((_, binding)) = read.cluster_bindings.get(entry.path()) else { continue };
            add(&policy.roles, &mut policy.cluster, "", entry.path(), binding);
        }
        for entry in bindings.iter() {
            let Some((namespace, name)) = entry.path().split_once('/') else { continue };
            let Some((_, binding)) = read.bindings.get(entry.path()) else { continue };
            let grants = policy.namespaces.entry(namespace.to_owned()).or_default();
            add(&policy.roles, grants, namespace, name, binding);
        }
        policy
    }
}

/// Reads what changed, and forgets what is gone.
fn refresh<T: ?Sized>(known: &mut Known<T>, snapshot: &Snapshot<Head>, parse: fn(&[u8]) -> Arc<T>) {
    let mut last = std::mem::take(known);
    *known = snapshot
        .iter()
        .map(|entry| {
            let revision = entry.revision();
            let object = last.remove(entry.path()).filter(|(seen, _)| *seen == revision);
            (entry.path().clone(), object.unwrap_or_else(|| (revision, parse(entry.value()))))
        })
        .collect();
}

fn rules(role: &[u8]) -> Arc<[Rule]> {
    serde_json::from_slice::<Role>(role).unwrap_or_default().rules.unwrap_or_default().into()
}

fn binding(binding: &[u8]) -> Arc<Binding> {
    serde_json::from_slice::<Binding>(binding).unwrap_or_default().into()
}

fn objects<T: ?Sized>(known: &Known<T>) -> HashMap<Arc<str>, Arc<T>> {
    known.iter().map(|(path, (_, object))| (path.clone(), object.clone())).collect()
}

fn add(roles: &Roles, grants: &mut Grants, namespace: &str, name: &str, binding: &Binding) {
    let rules = roles.rules(&binding.role_ref, namespace);
    let (name, namespace): (Arc<str>, Arc<str>) = (name.into(), namespace.into());
    for subject in binding.subjects.iter().flatten() {
        grants.add(Grant {
            rules: rules.clone(),
            binding: name.clone(),
            namespace: namespace.clone(),
            role: binding.role_ref.clone(),
            subject: subject.clone(),
        });
    }
}
