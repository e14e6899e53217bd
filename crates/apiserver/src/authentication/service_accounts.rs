//! Tokens of ServiceAccounts: what they claim, and whether it still holds. A token is good in the logical cluster that
//! gave it out, for the audiences it names, until it ends, and for as long as its account and whatever it is bound to
//! are there.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::identity::Identity;
use crate::server::{Cluster, Server};

/// How far clocks may be apart.
const LEEWAY: i64 = 10;
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// Whoever shows a token, and for whom it is meant.
#[derive(Debug)]
pub(crate) struct Bearer {
    pub(crate) identity: Identity,
    /// Those of the wanted audiences that the token is for.
    pub(crate) audiences: Vec<String>,
}

/// The issuer of the tokens of a logical cluster; also the audience of its API.
pub(crate) fn issuer(cluster: &str) -> String {
    match cluster {
        crate::server::HUB => ISSUER.to_owned(),
        name => format!("{ISSUER}/clusters/{name}"),
    }
}

/// What others are told who verify tokens themselves.
pub(crate) fn configuration(cluster: &str) -> Value {
    let issuer = issuer(cluster);
    json!({
        "issuer": issuer,
        "jwks_uri": format!("{issuer}/openid/v1/jwks"),
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": [super::tokens::ALGORITHM],
    })
}

/// Something that a token names, by what it was when the token was made.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub(crate) struct Reference {
    pub(crate) name: String,
    pub(crate) uid: String,
}

impl Reference {
    fn claim(&self) -> Value {
        json!({"name": self.name, "uid": self.uid})
    }
}

/// What a token is bound to, beside its account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    Secret(Reference),
    /// A pod, and the node that it is on.
    Pod(Reference, Option<Reference>),
    Node(Reference),
}

/// A token to be made.
pub(crate) struct Grant<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) account: Reference,
    pub(crate) audiences: &'a [String],
    pub(crate) bound: Option<Bound>,
    /// For how long, in seconds.
    pub(crate) lives: i64,
}

impl Grant<'_> {
    /// The claims of the token, made now.
    pub(crate) fn claims(&self, cluster: &str, now: i64) -> Value {
        let mut kubernetes = json!({"namespace": self.namespace, "serviceaccount": self.account.claim()});
        let mut bind = |key: &str, to: &Reference| crate::object::set(&mut kubernetes, key, to.claim());
        match &self.bound {
            None => {}
            Some(Bound::Secret(secret)) => bind("secret", secret),
            Some(Bound::Node(node)) => bind("node", node),
            Some(Bound::Pod(pod, node)) => {
                bind("pod", pod);
                if let Some(node) = node {
                    bind("node", node);
                }
            }
        }
        json!({
            "aud": self.audiences,
            "exp": now.saturating_add(self.lives),
            "iat": now,
            "iss": issuer(cluster),
            "jti": uuid::Uuid::new_v4().to_string(),
            "kubernetes.io": kubernetes,
            "nbf": now,
            "sub": crate::identity::service_account(self.namespace, &self.account.name),
        })
    }
}

#[derive(Deserialize)]
struct Claims {
    iss: String,
    #[serde(default)]
    aud: Audiences,
    #[serde(default)]
    jti: String,
    exp: i64,
    #[serde(default)]
    nbf: i64,
    #[serde(default)]
    iat: i64,
    sub: String,
    #[serde(rename = "kubernetes.io")]
    kubernetes: Kubernetes,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audiences {
    Many(Vec<String>),
    One(String),
}

impl Default for Audiences {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl Audiences {
    fn has(&self, audience: &str) -> bool {
        match self {
            Self::Many(all) => all.iter().any(|it| it == audience),
            Self::One(one) => one == audience,
        }
    }
}

#[derive(Deserialize)]
struct Kubernetes {
    namespace: String,
    serviceaccount: Reference,
    secret: Option<Reference>,
    pod: Option<Reference>,
    node: Option<Reference>,
}

/// Whom a token is of; the error says in words why it is of nobody. Without wanted audiences, it must be for the API.
pub(crate) fn authenticate(
    server: &Server,
    cluster: &Cluster,
    token: &str,
    wanted: &[String],
) -> Result<Bearer, String> {
    const INVALID: &str = "invalid bearer token";
    let claims = server.signing_key.verify(token).ok_or(INVALID)?;
    let claims: Claims = serde_json::from_value(claims).map_err(|_| INVALID)?;
    let home = issuer(&cluster.name);
    if claims.iss != home {
        return Err(INVALID.into());
    }
    let wanted = if wanted.is_empty() { std::slice::from_ref(&home) } else { wanted };
    let audiences: Vec<String> = wanted.iter().filter(|it| claims.aud.has(it)).cloned().collect();
    let refused = |why: String| format!("[{INVALID}, {why}]");
    if audiences.is_empty() {
        return Err(refused("token audiences are invalid for the target audiences".into()));
    }
    check_time(&claims, server.clock.now().as_second()).map_err(|why| refused(why.into()))?;
    let identity = alive(server, cluster, &claims).map_err(refused)?;
    Ok(Bearer { identity, audiences })
}

fn check_time(claims: &Claims, now: i64) -> Result<(), &'static str> {
    if now.saturating_sub(LEEWAY) > claims.exp {
        return Err("service account token has expired");
    }
    if now.saturating_add(LEEWAY) < claims.nbf {
        return Err("service account token is not valid yet");
    }
    if now.saturating_add(LEEWAY) < claims.iat {
        return Err("service account token is issued in the future");
    }
    Ok(())
}

/// The account of a token, if everything that the token names is still there.
fn alive(server: &Server, cluster: &Cluster, claims: &Claims) -> Result<Identity, String> {
    let Kubernetes { namespace, serviceaccount, secret, pod, node } = &claims.kubernetes;
    let mut identity = Identity::service_account(namespace, &serviceaccount.name);
    if claims.sub != identity.user {
        return Err("the subject of the token is not its service account".into());
    }
    let found = |plural: &str, path: &str| server.store.get(&cluster.space(plural), path);
    let is_there = |plural: &str, path: String, reference: &Reference| {
        let is_same = |uid: &str| uid == reference.uid;
        found(plural, &path).is_some_and(|entry| is_same(&entry.facts().uid) && !entry.facts().deleting)
    };
    let account = found("serviceaccounts", &format!("{namespace}/{}", serviceaccount.name))
        .ok_or_else(|| format!("serviceaccounts {:?} not found", serviceaccount.name))?;
    if *account.facts().uid != *serviceaccount.uid {
        return Err(format!(
            "service account UID ({}) does not match claim ({})",
            account.facts().uid,
            serviceaccount.uid
        ));
    }
    if account.facts().deleting {
        return Err(format!("service account {namespace}/{} has been deleted", serviceaccount.name));
    }
    const GONE: &str = "service account token has been invalidated";
    let mut extra = |key: &str, value: &str| {
        identity.extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value.to_owned()]);
    };
    if !claims.jti.is_empty() {
        extra("credential-id", &format!("JTI={}", claims.jti));
    }
    if let Some(secret) = secret
        && !is_there("secrets", format!("{namespace}/{}", secret.name), secret)
    {
        return Err(GONE.into());
    }
    if let Some(pod) = pod {
        if !is_there("pods", format!("{namespace}/{}", pod.name), pod) {
            return Err(GONE.into());
        }
        extra("pod-name", &pod.name);
        extra("pod-uid", &pod.uid);
    }
    if let Some(node) = node {
        // The node of a pod is told; a token that is bound to a node ends with it.
        if pod.is_none() && !is_there("nodes", node.name.clone(), node) {
            return Err(GONE.into());
        }
        extra("node-name", &node.name);
        extra("node-uid", &node.uid);
    }
    identity.uid = serviceaccount.uid.clone();
    Ok(identity)
}
