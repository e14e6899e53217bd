//! Hundreds of invalid searches: each is rejected, and none panics.

use crate::search::Filter;

/// Invalid searches that users may write.
fn fragments() -> Vec<String> {
    serde_json::from_str(include_str!("../../../tests/data/malformed_searches.json")).unwrap()
}

/// The tokens of a valid search. Without one of them, or with one of them repeated, it is invalid or a different search.
const VALID: &[&str] =
    &["(", "name", "=", "'a'", "and", "generation", ">=", "2", ")", "or", "kind", "in", "[", "'b'", "]"];

#[test]
fn invalid_searches_are_rejected() {
    let fragments = fragments();
    assert!(fragments.len() >= 200, "{}", fragments.len());
    let accepted: Vec<&String> = fragments.iter().filter(|search| Filter::parse(search).is_ok()).collect();
    assert!(accepted.is_empty(), "{accepted:?}");
}

#[test]
fn truncated_search_is_rejected() {
    let is_whole = |length: usize| length == VALID.len() || length == VALID.len() - 6;
    for length in (0..VALID.len()).filter(|length| !is_whole(*length)) {
        let search = VALID[..length].join(" ");
        assert!(Filter::parse(&search).is_err(), "{search}");
    }
}

#[test]
fn a_search_with_a_word_too_few_or_too_many_is_refused() {
    assert!(Filter::parse(&VALID.join(" ")).is_ok());
    for index in 0..VALID.len() {
        let mut fewer = VALID.to_vec();
        fewer.remove(index);
        assert!(Filter::parse(&fewer.join(" ")).is_err(), "{fewer:?}");
        let mut more = VALID.to_vec();
        more.insert(index, "=");
        assert!(Filter::parse(&more.join(" ")).is_err(), "{more:?}");
        let mut foreign = VALID.to_vec();
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
