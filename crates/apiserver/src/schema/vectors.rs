//! The public test suite of JSON Schema against our validation; see `tests/vectors/README.md`.

use serde_json::{Value, json};

use super::Schema;

/// Cases that Kubernetes decides otherwise than the suite, and so do we: file, schema, case, reason.
const OTHERWISE: &[(&str, &str, &str, &str)] = &[
    ("multipleOf", "by number", "35 is not multiple of 1.5", "factors of integers lose their fraction"),
    ("optional-bignum", "integer", "a bignum is an integer", "floats beyond 2^53 are no integers"),
    ("optional-bignum", "integer", "a negative bignum is an integer", "floats beyond 2^53 are no integers"),
    (
        "optional-ecmascript-regex",
        "ECMA 262 regex non-compliance",
        r"ECMA 262 has no support for \Z anchor from .NET",
        "there is no format regex",
    ),
    (
        "optional-format",
        "validation of URIs",
        "an invalid protocol-relative URI Reference",
        "the format uri takes what may stand in a request",
    ),
    (
        "optional-format",
        "validation of URIs",
        "an invalid relative URI Reference",
        "the format uri takes what may stand in a request",
    ),
    (
        "optional-zeroTerminatedFloats",
        "some languages do not distinguish between different types of numeric value",
        "a float is not an integer even without fractional part",
        "a float without a fraction is an integer",
    ),
];

#[test]
fn the_json_schema_suite_passes_but_for_what_kubernetes_decides_otherwise() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/json-schema");
    let mut ran = 0;
    let mut wrong = Vec::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let groups: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        for group in groups.as_array().unwrap() {
            let about = group["description"].as_str().unwrap();
            // The schema stands for a field, because only objects are looked at whole.
            let schema = json!({"properties": {"field": group["schema"]}});
            let schema =
                Schema::read(&schema, "").unwrap_or_else(|errors| panic!("{name} {about}: {errors:?}"));
            for case in group["tests"].as_array().unwrap() {
                let what = case["description"].as_str().unwrap();
                let object = json!({"field": case["data"]});
                let errors = schema.validate_part("field", object.as_object().unwrap(), None);
                let otherwise =
                    OTHERWISE.iter().any(|row| (row.0, row.1, row.2) == (name.as_str(), about, what));
                if (case["valid"] == errors.is_empty()) == otherwise {
                    wrong.push(format!("(\"{name}\", \"{about}\", \"{what}\"): {errors:?}"));
                }
                ran += 1;
            }
        }
    }
    wrong.sort();
    assert!(wrong.is_empty(), "{} of {ran} cases:\n{}", wrong.len(), wrong.join("\n"));
    assert!(ran > 150, "only {ran} cases ran");
}
