//! Acting as somebody else: the headers say as whom, and rules say who may.

use http::HeaderMap;

use crate::access::{On, Policy, Wish};
use crate::identity::{AUTHENTICATED, Identity, UNAUTHENTICATED, split_service_account};
use crate::request::percent_decode_path;
use crate::status::{Answer, Refusal};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";
const ANONYMOUS: &str = "system:anonymous";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// What a request asks to be seen as.
#[derive(Debug, Default)]
struct Mask {
    user: String,
    uid: String,
    groups: Vec<String>,
    /// Key and value, one pair for each value.
    extra: Vec<(String, String)>,
}

impl Mask {
    /// Reads the headers. One that cannot be read is an error: without it, the request would be somebody else's.
    fn read(headers: &HeaderMap) -> Answer<Self> {
        let unreadable = |name: &str| Refusal::bad_request(format!("the header {name} is no UTF-8"));
        let texts = |name: &str| -> Answer<Vec<String>> {
            let values = headers.get_all(name).iter();
            let texts = values.map(|value| String::from_utf8(value.as_bytes().to_vec()));
            texts.collect::<Result<_, _>>().map_err(|_| unreadable(name))
        };
        let mut mask = Self {
            user: texts(USER)?.into_iter().next().unwrap_or_default(),
            uid: texts(UID)?.into_iter().next().unwrap_or_default(),
            groups: texts(GROUP)?,
            extra: Vec::new(),
        };
        for name in headers.keys().filter_map(|name| name.as_str().strip_prefix(EXTRA)) {
            let key = percent_decode_path(name).to_lowercase();
            let values = texts(&format!("{EXTRA}{name}"))?;
            mask.extra.extend(values.into_iter().map(|value| (key.clone(), value)));
        }
        Ok(mask)
    }

    fn is_empty(&self) -> bool {
        self.user.is_empty() && self.uid.is_empty() && self.groups.is_empty() && self.extra.is_empty()
    }

    /// Everything that somebody must be allowed to impersonate.
    fn wishes(&self) -> Vec<Wish<'_>> {
        let on = |group, resource, subresource, namespace, name| Wish {
            verb: "impersonate",
            on: On::Resource { group, resource, subresource, namespace, name },
        };
        let user = match split_service_account(&self.user) {
            Some((namespace, name)) => on("", "serviceaccounts", "", namespace, name),
            None => on("", "users", "", "", &self.user),
        };
        let mut wishes = vec![user];
        wishes.extend(self.groups.iter().map(|group| on("", "groups", "", "", group)));
        wishes.extend(self.extra.iter().map(|(key, value)| on(AUTHENTICATION, "userextras", key, "", value)));
        if !self.uid.is_empty() {
            wishes.push(on(AUTHENTICATION, "uids", "", "", &self.uid));
        }
        wishes
    }

    fn identity(self) -> Identity {
        let mut identity = match split_service_account(&self.user) {
            Some((namespace, name)) if self.groups.is_empty() => Identity::service_account(namespace, name),
            _ => Identity { user: self.user, groups: self.groups, ..Identity::default() },
        };
        let (always, never) = match identity.user.as_str() {
            ANONYMOUS => (UNAUTHENTICATED, UNAUTHENTICATED),
            _ => (AUTHENTICATED, UNAUTHENTICATED),
        };
        if !identity.groups.iter().any(|group| group == always || group == never) {
            identity.groups.push(always.to_owned());
        }
        identity.uid = self.uid;
        for (key, value) in self.extra {
            identity.extra.entry(key).or_default().push(value);
        }
        identity
    }
}

/// As whom a request of somebody is to be judged: as themselves, or as whom its headers name.
pub(crate) fn impersonated(policy: &Policy, identity: Identity, headers: &HeaderMap) -> Answer<Identity> {
    let mask = Mask::read(headers)?;
    if mask.is_empty() {
        return Ok(identity);
    }
    if mask.user.is_empty() {
        return Err(Refusal::bad_request(
            "groups, a uid or extra information can only be impersonated together with a user",
        ));
    }
    for wish in mask.wishes() {
        let verdict = policy.judge(&identity, &wish);
        if !verdict.allowed {
            return Err(wish.refused(&identity.user, &verdict.reason));
        }
    }
    Ok(mask.identity())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn a_mask_has_the_groups_that_it_names_and_those_that_go_without_saying() {
        for (pairs, user, groups) in [
            (vec![(USER, "eve")], "eve", vec!["system:authenticated"]),
            (vec![(USER, "eve"), (GROUP, "a"), (GROUP, "b")], "eve", vec!["a", "b", "system:authenticated"]),
            (vec![(USER, ANONYMOUS)], ANONYMOUS, vec!["system:unauthenticated"]),
            (vec![(USER, "eve"), (GROUP, "system:unauthenticated")], "eve", vec!["system:unauthenticated"]),
            (
                vec![(USER, "system:serviceaccount:ns:sa")],
                "system:serviceaccount:ns:sa",
                vec!["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"],
            ),
        ] {
            let identity = Mask::read(&headers(&pairs)).unwrap().identity();
            assert_eq!(
                (identity.user.as_str(), identity.groups),
                (user, groups.iter().map(|it| (*it).to_owned()).collect())
            );
        }
    }

    #[test]
    fn whoever_is_allowed_nothing_impersonates_nobody() {
        let policy = Policy::default();
        let eve = || Identity::user("eve");
        let asked = |pairs: &[(&'static str, &str)]| impersonated(&policy, eve(), &headers(pairs));
        assert_eq!(asked(&[]).unwrap(), eve());
        assert_eq!(asked(&[(USER, "admin")]).unwrap_err().code(), 403);
        assert_eq!(asked(&[(GROUP, "system:masters")]).unwrap_err().code(), 400);
        assert_eq!(asked(&[("impersonate-extra-a%2fb", "x")]).unwrap_err().code(), 400);
        // A name that is not ASCII is a name; bytes that are no text are nobody's.
        let mut odd = HeaderMap::new();
        odd.insert(USER, http::HeaderValue::from_bytes("Jörg".as_bytes()).unwrap());
        assert_eq!(impersonated(&policy, Identity::master("root"), &odd).unwrap().user, "Jörg");
        odd.insert(USER, http::HeaderValue::from_bytes(b"J\xf6rg").unwrap());
        assert_eq!(impersonated(&policy, Identity::master("root"), &odd).unwrap_err().code(), 400);
        let master = Identity::master("root");
        let mask = headers(&[(USER, "x"), ("impersonate-extra-a%2fb", "v"), (UID, "u")]);
        let masked = impersonated(&policy, master, &mask).unwrap();
        assert_eq!((masked.user.as_str(), masked.uid.as_str()), ("x", "u"));
        assert_eq!(masked.extra["a/b"], ["v"]);
    }
}
