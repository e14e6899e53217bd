//! Searches that are wrong, hundreds of them: each is refused, and none panics.

use crate::search::Filter;

/// What people try.
fn fragments() -> Vec<String> {
    serde_json::from_str(include_str!("../../../tests/data/malformed_searches.json")).unwrap()
}

/// A search that is right, in words; without any one of them, or with any one of them twice, it is wrong or another one.
const RIGHT: &[&str] =
    &["(", "name", "=", "'a'", "and", "generation", ">=", "2", ")", "or", "kind", "in", "[", "'b'", "]"];

#[test]
fn everything_that_people_try_is_refused() {
    let fragments = fragments();
    assert!(fragments.len() >= 200, "{}", fragments.len());
    let understood: Vec<&String> = fragments.iter().filter(|search| Filter::parse(search).is_ok()).collect();
    assert!(understood.is_empty(), "{understood:?}");
}

#[test]
fn a_search_cut_anywhere_is_refused() {
    let is_whole = |length: usize| length == RIGHT.len() || length == RIGHT.len() - 6;
    for length in (0..RIGHT.len()).filter(|length| !is_whole(*length)) {
        let search = RIGHT[..length].join(" ");
        assert!(Filter::parse(&search).is_err(), "{search}");
    }
}

#[test]
fn a_search_with_a_word_too_few_or_too_many_is_refused() {
    assert!(Filter::parse(&RIGHT.join(" ")).is_ok());
    for index in 0..RIGHT.len() {
        let mut fewer = RIGHT.to_vec();
        fewer.remove(index);
        assert!(Filter::parse(&fewer.join(" ")).is_err(), "{fewer:?}");
        let mut more = RIGHT.to_vec();
        more.insert(index, "=");
        assert!(Filter::parse(&more.join(" ")).is_err(), "{more:?}");
        let mut foreign = RIGHT.to_vec();
        foreign.insert(index, ";");
        assert!(Filter::parse(&foreign.join(" ")).is_err(), "{foreign:?}");
    }
}

#[test]
fn a_field_is_not_compared_with_another_kind() {
    let wrong = [
        ("name", ["1", "true", "2026-01-01"]),
        ("labels.a", ["-1.5", "false", "2026-01-01T00:00:00Z"]),
        ("generation", ["'1'", "true", "2026-01-01"]),
        ("created_time", ["'1'", "true", "20260101"]),
    ];
    for (field, literals) in wrong {
        for literal in literals {
            for search in [
                format!("{field} = {literal}"),
                format!("{field} >= {literal}"),
                format!("{field} in [{literal}]"),
                format!("{field} between {literal} and {literal}"),
                format!("{field} like {literal}"),
                format!("not {field} not ilike {literal}"),
            ] {
                assert!(Filter::parse(&search).is_err(), "{search}");
            }
        }
    }
}
