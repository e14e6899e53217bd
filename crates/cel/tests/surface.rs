//! What users of the crate rely on: types of JSON, errors and their positions, and the cost limit.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::time::{Duration, Instant};

use bellwether_cel::{CompileErrorKind, Environment, EvaluationError, Expression, Position, VariableType};
use serde_json::{Value, json};

fn environment() -> Environment {
    Environment::new()
        .with_variable("resource", VariableType::Json)
        .with_variable("now", VariableType::Timestamp)
        .with_json_functions()
}

fn compile(text: &str) -> Expression {
    environment().compile(text).unwrap()
}

fn resource() -> Value {
    json!({
        "name": "prod", "generation": 3, "ratio": 0.5, "big": 18_446_744_073_709_551_615_u64, "none": null,
        "created": "2026-01-01T00:00:00Z", "labels": {"tier": "gold"},
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "Health", "status": "False"}],
    })
}

fn evaluate(text: &str) -> Result<Value, EvaluationError> {
    compile(text).evaluate(&[("resource", &resource()), ("now", &json!("2026-01-01T01:00:00Z"))])
}

#[test]
fn json_has_the_types_of_its_values() {
    for (text, expected) in [
        ("resource.generation + 1", json!(4)),
        ("resource.ratio * 2.0", json!(1.0)),
        ("type(resource.big) == uint", json!(true)),
        ("resource.none == null", json!(true)),
        ("has(resource.none) && !has(resource.missing)", json!(true)),
        ("resource.labels['tier'] + '!'", json!("gold!")),
        ("resource.conditions.filter(c, c.status == 'True').map(c, c.type)", json!(["Ready"])),
        ("resource.conditions[1]", json!({"type": "Health", "status": "False"})),
        ("resource.?spec.?region.orValue('none')", json!("none")),
        ("{'a': 1, 'b': 'two', 'c': [1, 'x', null]}", json!({"a": 1, "b": "two", "c": [1, "x", null]})),
        ("resource.labels.transformMap(k, v, k + v)", json!({"tier": "tiergold"})),
        ("resource.conditions.sortBy(c, c.type).map(c, c.type)", json!(["Health", "Ready"])),
        ("resource.name.matches('^p.*d$')", json!(true)),
        ("quantity('1Gi').isGreaterThan(quantity('1M'))", json!(true)),
        ("now - timestamp(resource.created) == duration('1h')", json!(true)),
        ("now", json!("2026-01-01T01:00:00Z")),
        ("duration('90s')", json!("90s")),
        ("b'hi'", json!("aGk=")),
        ("optional.none()", json!(null)),
        ("toJson({'n': resource.generation})", json!("{\"n\":3}")),
        ("dig(resource, 'conditions.0.type')", json!("Ready")),
        ("dig(resource, 'conditions.9.type')", json!(null)),
        ("dig(resource, 'name.first')", json!(null)),
    ] {
        assert_eq!(evaluate(text), Ok(expected), "{text}");
    }
}

#[test]
fn one_expression_is_evaluated_many_times() {
    let expression = compile("resource.size()");
    for count in 0..5 {
        let list = json!(vec![0; count]);
        assert_eq!(expression.evaluate(&[("resource", &list)]), Ok(json!(count)));
    }
    assert_eq!(expression.text(), "resource.size()");
}

#[test]
fn errors_of_compilation_name_their_place() {
    let undeclared = |name: &str| CompileErrorKind::Undeclared { name: name.to_owned() };
    for (text, kind, position) in [
        ("1 +", CompileErrorKind::Syntax, Some((1, 4))),
        ("resouce.name == 'x'", undeclared("resouce"), Some((1, 1))),
        ("resource.name == 'ü' && nmae == 'x'", undeclared("nmae"), Some((1, 25))),
        ("true &&\n  resource.name ==\n  other", undeclared("other"), Some((3, 3))),
        ("resource.all(c, d.type == 'x')", undeclared("d"), Some((1, 17))),
        ("shout('x')", undeclared("shout"), Some((1, 6))),
        ("'a' * 2 == 3", CompileErrorKind::Type, Some((1, 5))),
        ("resource.name.matches('(')", CompileErrorKind::Type, None),
        ("timestamp('yesterday') < now", CompileErrorKind::Type, Some((1, 10))),
    ] {
        let error = environment().compile(text).unwrap_err();
        let position = position.map(|(line, column)| Position { line, column });
        assert_eq!((error.kind(), error.position()), (&kind, position), "{text}: {error}");
    }
    let error = environment().compile("resource.name == nmae").unwrap_err();
    assert_eq!(error.to_string(), "line 1, column 18: undeclared reference to 'nmae' (in container '')");
    assert_eq!(
        error.kubernetes_report(),
        "ERROR: <input>:1:18: undeclared reference to 'nmae' (in container '')\n | resource.name == nmae\n | .................^"
    );
}

#[test]
fn errors_of_evaluation_name_their_place() {
    for (text, expected) in [
        ("resource.name == 'x' || resource.spec.x", "line 1, column 33: no such key: spec"),
        ("resource.conditions[7].type", "line 1, column 20: index out of bounds: 7"),
        ("resource.name > 3", "line 1, column 15: no such overload"),
        ("ip('1.2.3.4')", "net.IP cannot be converted to JSON"),
        ("1 / (resource.generation - 3)", "line 1, column 3: division by zero"),
    ] {
        assert_eq!(evaluate(text).unwrap_err().to_string(), expected, "{text}");
    }
    let error = compile("now").evaluate(&[("now", &json!("today"))]).unwrap_err();
    assert_eq!(error.to_string(), "variable \"now\" is not a timestamp in RFC 3339");
}

#[test]
fn texts_beyond_their_limits_are_rejected() {
    let environment = environment().with_max_length(50).with_max_loop_depth(1);
    let kind = |text: &str| environment.compile(text).unwrap_err().kind().clone();
    assert_eq!(kind(&"1+".repeat(50)), CompileErrorKind::TooLong);
    assert_eq!(kind("resource.all(a, resource.all(b, a == b))"), CompileErrorKind::LoopsTooDeep);
    assert_eq!(kind("resource.all(i, a, resource.all(b, a == b))"), CompileErrorKind::LoopsTooDeep);
    environment.compile("resource.filter(a, a > 1).all(a, a < 3)").unwrap();
}

/// Text that doubles with every step.
fn doubling(start: &str, steps: usize) -> String {
    format!("[{start}]{}.size() > 0", ".map(a, a + a)".repeat(steps))
}

#[test]
fn an_expression_that_costs_too_much_on_the_smallest_values_does_not_compile() {
    for text in [
        doubling("'x'", 40),
        doubling("resource.name", 40),
        doubling("toJson(resource)", 40),
        format!("{}true{}", "lists.range(1000).all(x, ".repeat(3), ")".repeat(3)),
    ] {
        let error = environment().compile(&text).unwrap_err();
        let is_cost = matches!(error.kind(), CompileErrorKind::CostLimitExceeded { limit: 1_000_000, .. });
        assert!(is_cost, "{text}: {error}");
        assert!(error.to_string().contains("exceeds the cost limit of 1000000"), "{error}");
    }
}

#[test]
fn an_evaluation_beyond_the_cost_limit_is_cut_off_in_time() {
    let numbers = json!((0..2_000).collect::<Vec<_>>());
    let long = json!("x".repeat(1_000_000));
    let nested = |levels: usize| ".map(a, [a, a])".repeat(levels);
    for (what, text, value) in [
        ("a loop in a loop", "resource.all(x, resource.all(y, x != y || x == y))".to_owned(), &numbers),
        ("maps in maps", "resource.map(x, resource.map(y, resource)).size() > 0".to_owned(), &numbers),
        ("text that doubles", doubling("resource", 15), &long),
        ("shared parts as JSON", format!("[resource]{}", nested(30)), &numbers),
        ("shared parts as text", format!("toJson([resource]{})", nested(30)), &numbers),
        ("shared parts compared", format!("[1]{0} == [1]{0}", nested(30)), &numbers),
        ("shared parts in the library", format!("[1]{}.indexOf(2) == 0", nested(30)), &numbers),
        ("copies for the library", "resource.all(x, '%s'.format([resource]) != '')".to_owned(), &numbers),
    ] {
        let expression = compile(&text);
        let start = Instant::now();
        let outcome = expression.evaluate(&[("resource", value)]).map(|_| "a value");
        let took = start.elapsed();
        assert_eq!(outcome, Err(EvaluationError::CostLimitExceeded { limit: 1_000_000 }), "{what}");
        assert!(took < Duration::from_secs(10), "{what} took {took:?}");
    }
    let error = compile("resource.all(x, x >= 0)").evaluate(&[("resource", &numbers)]);
    assert_eq!(error, Ok(json!(true)));
}

#[test]
fn functions_of_an_environment_are_checked_and_fail_with_their_message() {
    let environment = environment().with_function("age", 1, |call| {
        let name = call.arguments()[0].as_str().ok_or("age() takes a string")?;
        Ok(json!(name.len()))
    });
    let evaluate = |text: &str| environment.compile(text).unwrap().evaluate(&[("resource", &resource())]);
    assert_eq!(evaluate("age(resource.name) + 1"), Ok(json!(5)));
    assert_eq!(evaluate("age(1)").unwrap_err().to_string(), "line 1, column 4: age() takes a string");
    assert!(environment.compile("age()").is_err());
    assert!(environment.compile("'a'.age()").is_err());
}
