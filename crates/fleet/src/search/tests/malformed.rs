//! Searches that are wrong, hundreds of them: each is refused, and none panics.

use crate::search::Filter;

/// What people try.
const FRAGMENTS: &[&str] = &[
    "'; DROP TABLE resources; --",
    "1; DROP TABLE resources",
    "name = 'a'; DELETE FROM resources",
    "name = 'a' UNION SELECT * FROM resources",
    "name = 'a' UNION ALL SELECT NULL, NULL",
    "name = (SELECT 1)",
    "name = 'a' -- comment",
    "name = 'a' /* comment */",
    "/* */ name = 'a'",
    "name = 'a' # comment",
    "name = 'a' || 'b'",
    "name || 'x' = 'ax'",
    "name = 'a' && kind = 'b'",
    "!name = 'a'",
    "name = $1",
    "name = ?1",
    "name = :name",
    "name = @name",
    "name = E'\\x00'",
    "name = U&'\\0061'",
    "name = x'00'",
    "name = $$a$$",
    "name::text = 'a'",
    "name = 'a'::text",
    "name COLLATE \"C\" = 'a'",
    "name similar to 'a'",
    "name glob 'a*'",
    "name regexp 'a'",
    "name match 'a'",
    "name like 'a' escape 'b'",
    "name = any(array['a'])",
    "exists (select 1)",
    "case when 1 = 1 then 1 end = 1",
    "pg_sleep(10) = 1",
    "sleep(10)",
    "load_extension('x') = 1",
    "randomblob(1000000000) = 1",
    "name = 'a' limit 1",
    "name = 'a' order by name",
    "name = 'a' group by name",
    "select * from resources",
    "resources.name = 'a'",
    "r.name = 'a'",
    "\"name\" = 'a' or r.id = 'x'",
    "spec = '{}'",
    "labels = '{}'",
    "spec->>'a' = 'b'",
    "spec['a'] = 'b'",
    "spec. = 'a'",
    "spec..a = 'a'",
    "spec.a. = 'a'",
    "status = 'x'",
    "status.conditions = 'True'",
    "status.conditions. = 'True'",
    "status.conditions.Ready. = 'True'",
    "status.conditions.Ready.status = 'True'",
    "status.conditions.Ready.last_updated_time.x = '2026-01-01'",
    "status.conditions.Re-ady = 'True'",
    "status.conditions.Ready is null",
    "status.conditions.Ready like 'T%'",
    "status.conditions.Ready = True",
    "status.conditions.Ready = 1",
    "status.conditions.Ready = 'True' = 'True'",
    "status.conditions.Ready.observed_generation between 1 and 2",
    "status.conditions.Ready.observed_generation in [1]",
    "status.conditions.Ready.observed_generation = 1.5",
    "status.conditions.Ready.last_updated_time = 'yesterday'",
    "status.conditions.Ready.last_updated_time = 1",
    "not status.conditions.Ready.last_updated_time < '2026-01-01'",
    "not (not status.conditions.Ready = 'True')",
    "created_time > '2026-01-01 00:00:00'",
    "created_time > '2026-02-30'",
    "created_time > '10000-01-01'",
    "created_time > '-0001-01-01'",
    "created_time > '0000-01-01'",
    "created_time > 'infinity'",
    "created_time > 'now'",
    "created_time > 20260101",
    "created_time > 2026-01",
    "created_time > 2026-01-01T",
    "created_time like '2026%'",
    "created_time between '2026-01-01' and 'x'",
    "generation = 1e3",
    "generation = 0x10",
    "generation = 1_000",
    "generation = .5",
    "generation = 5.",
    "generation = 1.5",
    "generation = NaN",
    "generation = Infinity",
    "generation = true",
    "generation = 99999999999999999999",
    "generation = -99999999999999999999",
    "generation = 9999P",
    "generation = 9999999Pi",
    "generation = 1 Ki",
    "generation = --1",
    "generation = +1",
    "spec.a = 99999999999999999999999999999999999999999999999999",
    "spec.a = 0.0000000000000000001",
    "spec.a = [1]",
    "spec.a in [[1]]",
    "spec.a in [1, true]",
    "spec.a between 1 and 'b'",
    "spec.a like 1",
    "spec.a like '\\'",
    "labels.a like 'x\\\\\\'",
    "labels.a ilike '%\\'",
    "labels.a = 1",
    "labels.a = true",
    "labels.é = 'a'",
    "labels.a b = 'c'",
    "ｎame = 'a'",
    "name ＝ 'a'",
    "name = ‘a’",
    "name = 'a' and",
    "name = 'a' or or name = 'b'",
    "not",
    "not not",
    "(",
    ")",
    "((name = 'a')",
    "(name = 'a'))",
    "(name) = 'a'",
    "name = ('a')",
    "[",
    "]",
    ",",
    "'",
    "\"",
    "`",
    "''",
    "'a'",
    "1",
    "null = null",
    "null is null",
    "'a' is null",
    "'a' in ['a']",
    "'a' like 'a'",
    "1 = name",
    "1 = 'a'",
    "true = 1",
    "name = 'a\0'",
    "name\0 = 'a'",
    "\0",
    "\u{feff}name = 'a'",
    "name = 'a' \u{200b}",
    "\u{1F600}",
    "name is",
    "name is not",
    "name is not not null",
    "name is true",
    "name not",
    "name not null",
    "name not is null",
    "name not not in ['a']",
    "name in",
    "name in [",
    "name in ['a'",
    "name in ['a',",
    "name in ['a',,'b']",
    "name in [name]",
    "name in [null]",
    "name between",
    "name between 'a'",
    "name between 'a' 'b'",
    "name between ('a' and 'b')",
    "name like",
    "name like name",
    "name like null",
    "name = and",
    "name = = 'a'",
    "name =! 'a'",
    "name => 'a'",
    "name =< 'a'",
    "name === 'a'",
    "name ! 'a'",
    "name not = 'a'",
    "Name = 'a'",
    "NAME = 'a'",
    "-name = 'a'",
    "name- = 'a'",
    "name. = 'a'",
    ".name = 'a'",
    "name.x = 'a'",
    "tenancy.org = 'a'",
    "owner_href = 'a'",
    "password = 'a'",
];

/// A search that is right, in words; without any one of them, or with any one of them twice, it is wrong or another one.
const RIGHT: &[&str] =
    &["(", "name", "=", "'a'", "and", "generation", ">=", "2", ")", "or", "kind", "in", "[", "'b'", "]"];

#[test]
fn everything_that_people_try_is_refused() {
    assert!(FRAGMENTS.len() >= 170, "{}", FRAGMENTS.len());
    let understood: Vec<&&str> = FRAGMENTS.iter().filter(|search| Filter::parse(search).is_ok()).collect();
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
