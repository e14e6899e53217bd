//! Bodies in protobuf: right, wrong, and not at all.

use super::{Step, inside, post};
use crate::behaviour::difference::Difference;
use crate::behaviour::protobuf::{PROTOBUF, body, config_map_message, field, number};
use serde_json::Value;

pub(super) fn steps() -> Vec<Step> {
    [bodies(), messages(), objects(), options()].into_iter().flatten().collect()
}

fn sent(to: &str, bytes: Vec<u8>) -> Step {
    post(inside(to), Value::Null).replaced_bytes(PROTOBUF, bytes)
}

/// What stands in place of an envelope.
fn bodies() -> Vec<Step> {
    let typed = |claim: Vec<u8>| [b"k8s\0".to_vec(), claim, field(2, config_map_message("claimed"))].concat();
    [
        Vec::new(),
        b"hello".to_vec(),
        b"{\"kind\":\"ConfigMap\"}".to_vec(),
        b"k8s".to_vec(),
        b"k8s\0".to_vec(),
        b"k8s\0\x0a\x05".to_vec(),
        b"k8s\0\x08\x05".to_vec(),
        b"k8s\0\x0c".to_vec(),
        b"k8s\0\x02\x01".to_vec(),
        b"k8s\0\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01".to_vec(),
        typed(Vec::new()),
        typed(field(1, number(1, 5))),
        typed(number(3, 5)),
        typed([field(1, field(2, "Odd")), field(1, field(2, "ConfigMap"))].concat()),
    ]
    .into_iter()
    .map(|bytes| sent("configmaps", bytes))
    .collect()
}

/// What stands in place of a ConfigMap.
fn messages() -> Vec<Step> {
    let mut steps: Vec<Step> = [
        b"\x08\x01".to_vec(),
        b"\x0a\x02\x08\x01".to_vec(),
        b"\x0a\x05".to_vec(),
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff".to_vec(),
        b"\x02\x01".to_vec(),
        b"\x0c".to_vec(),
        b"\xfe\x06".to_vec(),
        b"\xfb\x06".to_vec(),
        [config_map_message("group"), b"\xfb\x06\xfc\x06".to_vec()].concat(),
        [config_map_message("unknown"), field(99, "x"), number(98, 7)].concat(),
        [field(1, field(1, "merged")), field(1, field(11, [field(1, "a"), field(2, "b")].concat()))].concat(),
        [field(1, field(1, "first")), field(1, field(1, "last"))].concat(),
        [field(1, field(1, "entries")), field(2, ""), field(2, field(1, "k"))].concat(),
        [field(1, field(1, "binary")), field(3, [field(1, "k"), field(2, b"\x00\xff")].concat())].concat(),
        [field(1, field(1, "frozen")), number(4, 0)].concat(),
        [field(1, field(1, "utf8")), field(2, [field(1, "k"), field(2, b"\xff\xfea\xe2\x82")].concat())]
            .concat(),
        Vec::new(),
    ]
    .into_iter()
    .map(|message| sent("configmaps", body("v1", "ConfigMap", message)))
    .collect();
    for (api_version, kind) in
        [("v1", "Secret"), ("v1", "DeleteOptions"), ("v1", "Odd"), ("apps/v1", "ConfigMap"), ("a/b/c", "")]
    {
        steps.push(sent("configmaps", body(api_version, kind, field(1, field(1, "claims")))));
    }
    steps.push(sent("configmaps", body("v1", "Secret", b"\x08\x01")));
    steps.push(sent(
        "configmaps?fieldValidation=Strict",
        body("v1", "ConfigMap", [config_map_message("strict"), field(99, "x")].concat()),
    ));
    steps
}

/// Objects with something special in them.
fn objects() -> Vec<Step> {
    let quota = |quantity: &[u8]| {
        let entry = [field(1, "cpu"), field(2, quantity)].concat();
        body("v1", "ResourceQuota", [field(1, field(1, "q")), field(2, field(1, entry))].concat())
    };
    let lease = |name: &str, spec: Vec<u8>| {
        let message = [field(1, field(1, name)), field(2, spec)].concat();
        let bytes = body("coordination.k8s.io/v1", "Lease", message);
        let path = "/apis/coordination.k8s.io/v1/namespaces/probe/leases";
        post(path, Value::Null).replaced_bytes(PROTOBUF, bytes)
    };
    vec![
        sent("resourcequotas?dryRun=All", quota(&field(1, "0.5"))),
        sent("resourcequotas?dryRun=All", quota(&field(1, "abc"))),
        sent("resourcequotas?dryRun=All", quota(b"")),
        lease("nanos", field(4, [number(1, 5), number(2, 1999)].concat())),
        lease("wide", number(2, (1 << 33) + 5)),
        lease("negative", number(2, usize::MAX - 4)),
        lease("far", field(4, number(1, 1 << 62))).unlike(Difference::ParserWords),
    ]
}

/// DELETE with a body.
fn options() -> Vec<Step> {
    let delete = |api_version: &str, kind: &str, message: Vec<u8>| {
        super::delete(inside("configmaps/absent")).replaced_bytes(PROTOBUF, body(api_version, kind, message))
    };
    vec![
        delete("v1", "DeleteOptions", Vec::new()),
        delete("v1", "DeleteOptions", field(4, "Odd")),
        delete("v1", "DeleteOptions", field(5, "Odd")),
        delete("v1", "DeleteOptions", [number(3, 1), field(4, "Orphan")].concat()),
        delete("v1", "DeleteOptions", b"\x12\x05".to_vec()),
        delete("v1", "DeleteOptions", b"\x10\x05".to_vec()),
        delete("odd/v1", "DeleteOptions", Vec::new()),
        delete("v1", "ConfigMap", Vec::new()),
        delete("v1", "Odd", b"\x12\x05".to_vec()),
        delete("", "", Vec::new()),
        super::delete(inside("configmaps/absent")).replaced_bytes(PROTOBUF, b"k8s\0".to_vec()),
        super::delete(inside("configmaps/absent")).replaced_bytes(PROTOBUF, b"hello".to_vec()),
    ]
}

impl Step {
    /// The same request with other bytes.
    fn replaced_bytes(mut self, media: &str, bytes: Vec<u8>) -> Self {
        self.call = bellwether_testkit::Call::new(self.call.method.clone(), self.call.path.clone());
        self.raw(media, bytes)
    }
}
