//! docs/adapters.md lists every operator and function, and no others.

use std::collections::BTreeSet;

use crate::decide::Operator;
use crate::{expression, template};

const DOCS: &str = include_str!("../../../docs/adapters.md");

/// The names in the rows of the table that begin with a word. Arguments are left out.
fn documented(place: &str) -> BTreeSet<&'static str> {
    let rows = DOCS.lines().filter_map(|line| line.strip_prefix(&format!("| {place} | ")));
    let names = rows.filter_map(|row| row.split(" | ").next());
    // The text between each second pair of backticks.
    let quoted = names.flat_map(|names| names.split('`').skip(1).step_by(2));
    quoted.filter_map(|name| name.split(['(', ' ']).next()).collect()
}

#[test]
fn docs_list_every_operator_and_function() {
    for (place, names) in [
        ("operator", Operator::names()),
        ("expression", expression::function_names()),
        ("template", template::function_names()),
    ] {
        assert_eq!(documented(place), names.into_iter().collect(), "{place}");
    }
}
