//! Kubernetes' own objects in both encodings, a body as kubectl sends it, and bodies that nobody should send.

use serde_json::{Value, json};

use super::Envelope;
use crate::object::Object;
use crate::shape::BUILTINS;

const VECTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/protobuf");

/// What `kubectl create configmap c1 --from-literal=a=b` sends.
const FROM_KUBECTL: &[u8] = b"k8s\0\
    \x0a\x0f\x0a\x02v1\x12\x09ConfigMap\
    \x12\x1c\x0a\x12\x0a\x02c1\x12\0\x1a\0\x22\0\x2a\0\x32\0\x38\0\x42\0\x12\x06\x0a\x01a\x12\x01b\
    \x1a\0\x22\0";

fn type_of(api_version: &str, kind: &str) -> &'static str {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    BUILTINS.type_of(group, version, kind).unwrap_or_else(|| panic!("{api_version} {kind} is not built in"))
}

fn decode(body: &[u8]) -> Result<Object, String> {
    let envelope = Envelope::open(body)?;
    envelope.object(&BUILTINS, type_of(&envelope.api_version, &envelope.kind))
}

fn varint(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    bytes.push(u8::try_from(value).unwrap());
    bytes
}

/// A field with bytes in it.
fn field(number: usize, bytes: &[u8]) -> Vec<u8> {
    [varint(number << 3 | 2), varint(bytes.len()), bytes.to_vec()].concat()
}

/// A field with a number in it.
fn number(field: usize, value: usize) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

fn body(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let claim = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), field(1, &claim), field(2, message)].concat()
}

fn read(type_name: &str, message: &[u8]) -> Result<Value, String> {
    Envelope { raw: message, ..Envelope::default() }.object(&BUILTINS, type_name).map(Value::Object)
}

#[test]
fn kubernetes_own_objects_are_the_same_in_both_encodings() {
    let mut compared = 0;
    for entry in std::fs::read_dir(VECTORS).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "pb") {
            continue;
        }
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let bytes = std::fs::read(&path).unwrap();
        let text = std::fs::read_to_string(path.with_extension("json")).unwrap();
        let expected: Value = serde_json::from_str(&text).unwrap();

        let envelope = Envelope::open(&bytes).unwrap();
        assert_eq!(envelope.kind, expected["kind"], "{name}");
        assert_eq!(envelope.api_version, expected["apiVersion"], "{name}");
        let type_name = type_of(&envelope.api_version, &envelope.kind);
        let mut object = envelope.object(&BUILTINS, type_name).unwrap();
        object.insert("kind".into(), envelope.kind.into());
        object.insert("apiVersion".into(), envelope.api_version.into());
        assert_eq!(Value::Object(object.clone()), expected, "{name}");

        // And what is stored of it is the same, too.
        let of_protobuf = BUILTINS.conform(type_name, object).unwrap();
        let of_json = BUILTINS.conform(type_name, expected.as_object().unwrap().clone()).unwrap();
        assert_eq!(of_protobuf.object, of_json.object, "{name}");
        assert!(of_protobuf.unknown.is_empty(), "{name}: {:?}", of_protobuf.unknown);
        compared += 1;
    }
    assert_eq!(compared, 40);
}

#[test]
fn what_kubectl_sends_is_read_without_its_empty_fields() {
    let envelope = Envelope::open(FROM_KUBECTL).unwrap();
    assert_eq!((envelope.api_version.as_str(), envelope.kind.as_str()), ("v1", "ConfigMap"));
    let object = decode(FROM_KUBECTL).unwrap();
    assert_eq!(Value::Object(object), json!({"metadata": {"name": "c1"}, "data": {"a": "b"}}));
}

#[test]
fn the_envelope_is_refused_in_kubernetes_words() {
    for (body, why) in [
        (&b""[..], "empty data"),
        (b"hello", "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"),
        (b"k8s", "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"),
        (b"k8s\0", "empty body"),
        (b"k8s\0\x0a\x05", "unexpected EOF"),
        (b"k8s\0\x08\x05", "proto: wrong wireType = 0 for field TypeMeta"),
        (b"k8s\0\x0a\x02\x10\x05", "proto: wrong wireType = 0 for field Kind"),
        (b"k8s\0\x0c", "proto: Unknown: wiretype end group for non-group"),
    ] {
        assert_eq!(Envelope::open(body).unwrap_err(), why, "{body:?}");
    }
}

#[test]
fn a_kind_that_is_not_said_is_empty() {
    for claim in [field(1, b""), field(1, b"a/b/c"), Vec::new()] {
        let body = [b"k8s\0".to_vec(), field(1, &claim), field(2, b"")].concat();
        assert_eq!(Envelope::open(&body).unwrap(), Envelope::default());
    }
}

#[test]
fn messages_are_refused_in_kubernetes_words() {
    for (message, why) in [
        (&b"\x08\x01"[..], "proto: wrong wireType = 0 for field ObjectMeta"),
        (b"\x0a\x02\x08\x01", "proto: wrong wireType = 0 for field Name"),
        (b"\x0a\x05", "unexpected EOF"),
        (b"\x02\x01", "proto: ConfigMap: illegal tag 0 (wire type 2)"),
        (b"\x0c", "proto: ConfigMap: wiretype end group for non-group"),
        (b"\xfe\x06", "proto: illegal wireType 6"),
    ] {
        assert_eq!(read("core/v1.ConfigMap", message).unwrap_err(), why, "{message:?}");
    }
}

#[test]
fn each_way_to_write_a_value_is_read() {
    let rows: [(&str, &str, Vec<u8>, Value); 17] = [
        (
            "zero is left out",
            "core/v1.ContainerPort",
            [number(2, 0), number(3, 0)].concat(),
            json!({"containerPort": 0}),
        ),
        ("unless it is said", "apps/v1.DeploymentSpec", number(1, 0), json!({"replicas": 0})),
        ("or means no", "core/v1.ConfigMap", number(4, 0), json!({"immutable": false})),
        (
            "the last one counts",
            "core/v1.LocalObjectReference",
            [field(1, b"a"), field(1, b"b")].concat(),
            json!({"name": "b"}),
        ),
        (
            "also if it is empty",
            "core/v1.LocalObjectReference",
            [field(1, b"a"), field(1, b"")].concat(),
            json!({}),
        ),
        (
            "parts of a message are put together",
            "core/v1.ConfigMap",
            [field(1, &field(1, b"a")), field(1, &field(3, b"b"))].concat(),
            json!({"metadata": {"name": "a", "namespace": "b"}}),
        ),
        (
            "what stands inline has a message of its own",
            "core/v1.Volume",
            [field(1, b"v"), field(2, &field(2, b""))].concat(),
            json!({"name": "v", "emptyDir": {}}),
        ),
        (
            "numbers one by one",
            "core/v1.PodSecurityContext",
            [number(4, 1), number(4, 2)].concat(),
            json!({"supplementalGroups": [1, 2]}),
        ),
        (
            "numbers in one piece",
            "core/v1.PodSecurityContext",
            field(4, &[1, 2]),
            json!({"supplementalGroups": [1, 2]}),
        ),
        (
            "entries without key or value",
            "core/v1.ConfigMap",
            [field(2, b""), field(2, &field(1, b"k")), field(3, &field(1, b"k"))].concat(),
            json!({"data": {"": "", "k": ""}, "binaryData": {"k": ""}}),
        ),
        (
            "a list in a map is wrapped",
            "authorization/v1.SubjectAccessReviewSpec",
            field(5, &[field(1, b"k"), field(2, &[field(1, b"x"), field(1, b"y")].concat())].concat()),
            json!({"extra": {"k": ["x", "y"]}}),
        ),
        ("no time is null", "meta/v1.ObjectMeta", field(9, b""), json!({"deletionTimestamp": null})),
        (
            "times lose what is below a second",
            "meta/v1.ObjectMeta",
            field(9, &[number(1, 5), number(2, 99)].concat()),
            json!({"deletionTimestamp": "1970-01-01T00:00:05Z"}),
        ),
        (
            "a name in place of a number",
            "core/v1.ServicePort",
            [number(3, 80), field(4, &[number(1, 1), field(3, b"http")].concat())].concat(),
            json!({"port": 80, "targetPort": "http"}),
        ),
        (
            "a quantity that is not said",
            "core/v1.ResourceQuotaSpec",
            field(1, &[field(1, b"cpu"), field(2, b"")].concat()),
            json!({"hard": {"cpu": "0"}}),
        ),
        (
            "JSON in a message",
            "apiextensions/v1.JSONSchemaProps",
            [field(8, &field(1, b"{\"a\":[1]}")), field(20, &field(1, b"null"))].concat(),
            json!({"default": {"a": [1]}, "enum": [null]}),
        ),
        (
            "unknown fields are skipped",
            "core/v1.LocalObjectReference",
            [field(15, b"x"), field(1, b"a")].concat(),
            json!({"name": "a"}),
        ),
    ];
    for (row, type_name, message, expected) in rows {
        assert_eq!(read(type_name, &message).unwrap(), expected, "{row}");
    }
}

#[test]
fn a_time_that_cannot_be_written_is_refused() {
    let far = [vec![0x08], vec![0xff; 8], vec![0x7f]].concat();
    let why = read("meta/v1.ObjectMeta", &field(9, &far)).unwrap_err();
    assert!(why.ends_with("is not within the years 1 to 9999"), "{why}");
}

/// Samples of every kind, without and with fields.
fn samples() -> Vec<Vec<u8>> {
    let mut samples = vec![FROM_KUBECTL.to_vec()];
    for entry in std::fs::read_dir(VECTORS).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "pb") {
            samples.push(std::fs::read(path).unwrap());
        }
    }
    samples
}

/// Whatever the bytes are, there is an answer; and what could be read can be stored and read again.
fn survive(body: &[u8]) {
    let Ok(envelope) = Envelope::open(body) else { return };
    let (group, version) = envelope.api_version.split_once('/').unwrap_or(("", &envelope.api_version));
    let Some(type_name) = BUILTINS.type_of(group, version, &envelope.kind) else { return };
    let Ok(object) = envelope.object(&BUILTINS, type_name) else { return };
    if let Ok(conformed) = BUILTINS.conform(type_name, object) {
        let bytes = serde_json::to_vec(&conformed.object).unwrap();
        serde_json::from_slice::<Object>(&bytes).unwrap();
    }
}

#[test]
fn a_body_that_is_cut_off_anywhere_is_survived() {
    for sample in samples() {
        // Every cut of a short one; the long ones take long, and repeat what the short ones have.
        let step = sample.len() / 600 + 1;
        for end in (0..sample.len()).step_by(step) {
            survive(&sample[..end]);
        }
    }
}

#[test]
fn a_wrong_bit_anywhere_is_survived() {
    for sample in samples() {
        let step = sample.len() / 300 + 1;
        for at in (0..sample.len()).step_by(step) {
            let mut flipped = sample.clone();
            flipped[at] ^= 1 << (at % 8);
            survive(&flipped);
        }
    }
}

#[test]
fn depth_has_an_end() {
    let nested = |levels: usize, wrap: &dyn Fn(&[u8]) -> Vec<u8>| {
        let mut message = Vec::new();
        for _ in 0..levels {
            message = wrap(&message);
        }
        read("apiextensions/v1.JSONSchemaProps", &message)
    };
    let not = |schema: &[u8]| field(28, schema);
    let properties = |schema: &[u8]| field(29, &[field(1, b"p"), field(2, schema)].concat());
    let items = |schema: &[u8]| field(24, &field(1, schema));
    let many_items = |schema: &[u8]| field(24, &field(2, schema));
    let all_of = |schema: &[u8]| field(25, schema);
    for (wrap, fits) in [
        (&not as &dyn Fn(&[u8]) -> Vec<u8>, 126),
        (&properties, 63),
        (&items, 126),
        (&many_items, 63),
        (&all_of, 63),
    ] {
        let value = nested(fits, wrap).unwrap();
        serde_json::from_slice::<Value>(&serde_json::to_vec(&value).unwrap()).unwrap();
        for levels in [fits + 1, 5_000] {
            assert_eq!(nested(levels, wrap).unwrap_err(), "exceeded max depth");
        }
    }
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    let deep_default = field(8, &field(1, deep.as_bytes()));
    let mut message = deep_default.clone();
    for _ in 0..26 {
        message = not(&message);
    }
    assert!(read("apiextensions/v1.JSONSchemaProps", &message).is_ok());
    let why = read("apiextensions/v1.JSONSchemaProps", &not(&message)).unwrap_err();
    assert_eq!(why, "exceeded max depth");
}

#[test]
fn the_number_of_values_has_an_end() {
    // Two bytes of a body for an empty container, which takes far more in memory.
    let containers = field(2, &field(2, b"").repeat(400_000));
    let why = decode(&body("v1", "Pod", &containers)).unwrap_err();
    assert_eq!(why, "the object has more than 250000 values");
    let packed = field(14, &field(4, &vec![1; 400_000]));
    let why = decode(&body("v1", "Pod", &field(2, &packed))).unwrap_err();
    assert_eq!(why, "the object has more than 250000 values");
}
