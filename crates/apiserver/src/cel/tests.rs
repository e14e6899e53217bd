//! What rules do on objects, without a server; and what hostile rules and objects cost.

use std::time::{Duration, Instant};

use bellwether_cel::ObjectKind;
use serde_json::{Value as Json, json};

use super::examine;
use super::rules::{Draft, Rules};
use crate::schema::Schema;

/// A schema whose `spec` is this.
fn schema(spec: Json) -> Schema {
    Schema::read(&json!({"type": "object", "properties": {"spec": spec}}), "").unwrap()
}

/// What the rules of a spec say of one.
fn judge(spec: Json, object: Json) -> Vec<String> {
    let schema = schema(spec);
    let object = json!({"spec": object});
    let errors = Rules::default().judge(&schema, object.as_object().unwrap(), None);
    errors.iter().map(ToString::to_string).collect()
}

fn ruled(mut schema: Json, rule: &str) -> Json {
    schema["x-kubernetes-validations"] = json!([{"rule": rule}]);
    schema
}

/// Whether a rule on any object is accepted, and why not.
fn examined(spec: Json, rule: &str) -> Result<u64, String> {
    let schema = schema(spec);
    let draft = json!({"rule": rule});
    examine(&Draft::read(&draft), schema.properties.get("spec").unwrap(), ObjectKind::Plain).rule
}

/// Does something that must not take long. Debug builds are given time.
fn soon<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let done = work();
    let took = start.elapsed();
    println!("{what}: {took:?}");
    assert!(took < Duration::from_secs(10), "{what} took {took:?}");
    done
}

#[test]
fn what_the_limits_allow_fits_a_small_stack() {
    let cases = [
        ("fields", format!("self{} == 1", ".a".repeat(500))),
        ("indices", format!("self{} == 1", "[0]".repeat(330))),
        ("calls", format!("self{} == 1", ".a(1)".repeat(200))),
        ("short sums", "1+".repeat(511) + "1"),
        ("short memberships", "1 in ".repeat(200) + "[1]"),
        ("brackets", format!("{}1{} == 1", "(".repeat(45), ")".repeat(45))),
        ("sums", format!("{}1 > 0", "1 + ".repeat(90))),
        ("or", format!("{}true", "self.a == 'x' || ".repeat(300))),
        ("and", format!("{}true", "true && ".repeat(1_500))),
        ("loops", format!("{}true{}", "[1].all(x, ".repeat(40), ")".repeat(40))),
        ("conditions", format!("{}true", "true ? true : ".repeat(80))),
    ];
    let run = move || {
        for (what, rule) in cases {
            let spec = ruled(json!({"type": "object", "properties": {"a": {"type": "string"}}}), &rule);
            let errors = soon(what, || judge(spec, json!({"a": "b"})));
            println!("{what}: {errors:?}");
        }
    };
    // Half of what the threads of the server have.
    std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap().join().unwrap();
}

#[test]
fn patterns_cannot_blow_up() {
    let text = json!({"type": "string"});
    for pattern in ["(a+)+$", "(a|a)*b", "(.*)*x", "a{1,1000}b"] {
        let rule = format!("self.matches('{pattern}')");
        let errors = soon(pattern, || judge(ruled(text.clone(), &rule), json!("a".repeat(100_000))));
        assert!(errors.len() <= 1, "{errors:?}");
    }
    for pattern in ["((a{1000}){1000}){1000}", "[[:alpha:]]{50000}", "("] {
        let rule = format!("self.matches('{pattern}')");
        assert!(soon(pattern, || examined(text.clone(), &rule)).is_err(), "{pattern}");
    }
    // A pattern that comes with the object is limited as well, and paid for.
    let spec = ruled(json!({"type": "string", "maxLength": 100}), "'a'.matches(self)");
    let errors = soon("a pattern of the object", || judge(spec, json!("((a{1000}){1000}){1000}")));
    assert_eq!(errors.len(), 1, "{errors:?}");
}

#[test]
fn big_objects_end_with_the_budget() {
    let many: Vec<String> = (0..50_000).map(|at| format!("item-{at}")).collect();
    let list = json!({"type": "array", "items": {"type": "string"}});
    let long = "x".repeat(1_000_000);
    let text = json!({"type": "string"});
    let cases = [
        ("a loop in a loop", list.clone(), "self.all(x, self.all(y, x != y || x == y))", json!(many)),
        ("all with all", list.clone(), "self.distinct().size() > 0", json!(many)),
        ("a list in each step", list.clone(), "self.map(x, self + self).size() > 0", json!(many)),
        ("sets", list.clone(), "sets.equivalent(self, self)", json!(many)),
        ("searching", list.clone(), "self.all(x, x in self)", json!(many)),
        ("sorting in each step", list.clone(), "self.all(x, self.sort().size() > 0)", json!(many)),
        (
            "text that doubles",
            text.clone(),
            "[self].map(a, a + a).map(a, a + a).map(a, a + a).map(a, a + a).map(a, a + a).map(a, a + a).size() > 0",
            json!(long),
        ),
        ("text for nothing", text.clone(), "self.replace('', self).size() > 0", json!(long)),
        ("letters", text.clone(), "self.split('').map(x, self.split('')).size() > 0", json!(long)),
        ("searching text", text.clone(), "self.indexOf(self + 'y') > 0", json!(long)),
        ("numbers", text.clone(), "lists.range(1000000000).size() > 0", json!("")),
        (
            "numbers in numbers",
            text.clone(),
            "lists.range(1000).all(x, lists.range(1000).all(y, lists.range(1000).size() > 0))",
            json!(""),
        ),
        ("joining", list.clone(), "self.all(x, self.join(',') != '')", json!(many)),
        ("formatting", list.clone(), "self.all(x, '%s'.format([self]) != '')", json!(many)),
        ("wide formats", text.clone(), "'%.1000000000f'.format([1.0]) != ''", json!("")),
        ("quoting", text.clone(), "lists.range(1000).all(x, strings.quote(self) != '')", json!(long)),
        ("cases", text.clone(), "lists.range(1000).all(x, self.upperAscii() != '')", json!(long)),
        (
            "equality of sets",
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}),
            "self == self.map(x, x).reverse()",
            json!(many),
        ),
        (
            "shared parts in a set",
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}),
            "(self + dyn([1].map(a, [a, a]).map(a, [a, a]).map(a, [a, a]).map(a, [a, a]).map(a, [a, a]).map(a, [a, a]).map(a, [a, a]).map(a, [a, a]).map(a, [a, a]).map(a, [a, a]).map(a, [a, a]).map(a, [a, a]).map(a, [a, a]).map(a, [a, a]).map(a, [a, a]).map(a, [a, a]).map(a, [a, a]).map(a, [a, a]).map(a, [a, a]).map(a, [a, a]).map(a, [a, a]).map(a, [a, a]).map(a, [a, a]).map(a, [a, a]).map(a, [a, a]).map(a, [a, a]).map(a, [a, a]).map(a, [a, a]).map(a, [a, a]).map(a, [a, a]).map(a, [a, a]).map(a, [a, a]))).size() > 0",
            json!(["a"]),
        ),
        ("converting", list.clone(), "self.all(x, self.sum() == self.sum())", json!(many)),
        (
            "flattening",
            list.clone(),
            "self.map(x, [x, x]).flatten().map(x, [x, x]).flatten().map(x, [x, x]).flatten().map(x, [x, x]).flatten().map(x, [x, x]).flatten().size() > 0",
            json!(many),
        ),
        (
            "numbers from text",
            text,
            "lists.range(1000).all(x, !isQuantity(self) || true)",
            json!("1".repeat(1_000_000)),
        ),
    ];
    for (what, spec, rule, object) in cases {
        let errors = soon(what, || judge(ruled(spec, rule), object));
        println!(
            "{what}: {}",
            errors.first().map(|error| error.chars().take(150).collect::<String>()).unwrap_or_default()
        );
    }
}

#[test]
fn the_budget_is_for_the_whole_object() {
    let items: Vec<Vec<u32>> = (0..200).map(|_| (0..300).collect()).collect();
    let spec = json!({"type": "array", "items": ruled(
        json!({"type": "array", "items": {"type": "integer"}}),
        "self.all(x, self.all(y, x >= 0 || y >= 0))",
    )});
    let errors = soon("many evaluations", || judge(spec, json!(items)));
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains("validation failed due to running out of cost budget"), "{errors:?}");
}

#[test]
fn thousands_of_rules_are_read_in_time() {
    let rules: Vec<Json> = (0..2_000)
        .map(|at| json!({"rule": format!("!has(self.a) || self.a.startsWith('x{at}') || self.a.size() > {at} && self.a != 'y'")}))
        .collect();
    let schema = schema(
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "x-kubernetes-validations": rules}),
    );
    let object = json!({"spec": {"a": "z"}});
    let rules = Rules::default();
    soon("reading 2000 rules", || rules.any(&schema));
    let errors = soon("2000 rules", || rules.judge(&schema, object.as_object().unwrap(), None));
    assert!(!errors.is_empty());
}
