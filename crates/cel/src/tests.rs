//! The limits on the text of expressions, which hold for every user of the crate.

use std::time::{Duration, Instant};

use crate::Program;

/// Runs what must not take long. Debug builds have time.
fn soon<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    let took = start.elapsed();
    assert!(took < Duration::from_secs(10), "{what} took {took:?}");
    result
}

#[test]
fn deep_and_long_expressions_are_rejected_at_once() {
    let wrap = |open: &str, close: &str, count: usize| {
        format!("{}1{} == 1", open.repeat(count), close.repeat(count))
    };
    let cases = [
        ("brackets", wrap("(", ")", 5_000)),
        ("open brackets", "(".repeat(10_000)),
        ("lists", wrap("[", "]", 5_000)),
        ("maps", wrap("{'a':", "}", 3_000)),
        ("conditions", format!("{}true", "true ? true : ".repeat(1_000))),
        ("conditions within", format!("{}true{}", "true ? ".repeat(1_000), " : true".repeat(1_000))),
        ("sums", format!("{}1 == 1", "1+".repeat(8_000))),
        ("comparisons", format!("{}1", "1==".repeat(5_000))),
        ("memberships", format!("{}[1]", "1 in ".repeat(3_000))),
        ("calls", format!("self{} == 1", "//.\n .a()".repeat(1_500))),
        ("fields", format!("self{} == 1", ".a".repeat(5_000))),
        ("indices", format!("self{} == 1", "[0]".repeat(5_000))),
        ("loops", format!("{}true{}", "[1].all(x, ".repeat(1_000), ")".repeat(1_000))),
        ("a long text", format!("'{}' == ''", "a".repeat(100_000))),
    ];
    for (what, text) in cases {
        assert!(soon(what, || Program::parse(&text)).is_err(), "{what}");
    }
    // Signs in a row are no nesting for the parser; the syntax tree must still be small.
    for (what, text) in [
        ("negations", format!("{}true", "!".repeat(10_000))),
        ("minuses", format!("{}1 == 1", "-".repeat(10_000))),
    ] {
        let _ = soon(what, || Program::parse(&text));
    }
}
