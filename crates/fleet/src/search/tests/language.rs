//! What is understood, in its canonical form, and what is wrong, with its column.

use proptest::prelude::*;
use rstest::rstest;

use crate::search::Filter;

#[rstest]
#[case::a_comparison("name='a'", "name = 'a'")]
#[case::every_comparison(
    "name='a' and name!='b' and name<'c' and name<='d' and name>'e' and name>='f'",
    "name = 'a' and name != 'b' and name < 'c' and name <= 'd' and name > 'e' and name >= 'f'"
)]
#[case::keywords_in_any_case("NOT name LIKE 'a' Or name In ['b']", "name not like 'a' or name in ['b']")]
#[case::quotes(
    r#"name = "it's" or name = `"` or name = 'it''s'"#,
    "name = 'it''s' or name = '\"' or name = 'it''s'"
)]
#[case::not_before_and("not name='a' and name='b'", "not name = 'a' and name = 'b'")]
#[case::and_before_or("name='a' or name='b' and name='c'", "name = 'a' or name = 'b' and name = 'c'")]
#[case::parentheses("(name='a' or name='b') and name='c'", "(name = 'a' or name = 'b') and name = 'c'")]
#[case::needless_parentheses(
    "((name='a') or ((name='b' or (name='c'))))",
    "name = 'a' or name = 'b' or name = 'c'"
)]
#[case::not_around_parentheses("not(name='a' and name='b')", "not (name = 'a' and name = 'b')")]
#[case::not_twice("not not name='a'", "not not name = 'a'")]
#[case::not_and_not_in("not name not in ['a']", "not name not in ['a']")]
#[case::between("name between 'a' and 'b' and name='c'", "name between 'a' and 'b' and name = 'c'")]
#[case::not_between("name not between 'a' and 'b'", "name not between 'a' and 'b'")]
#[case::null(
    "deleted_time is null or deleted_by is not null",
    "deleted_time is null or deleted_by is not null"
)]
#[case::an_integer("generation = -0012", "generation = -12")]
#[case::an_integer_with_a_unit("generation = 2Ki", "generation = 2048")]
#[case::an_integer_with_a_point("generation = 2.0", "generation = 2")]
#[case::a_minus_apart("generation > - 1", "generation > -1")]
#[case::the_smallest_integer("generation > -9223372036854775808", "generation > -9223372036854775808")]
#[case::a_date("created_time > 2026-01-31", "created_time > '2026-01-31T00:00:00Z'")]
#[case::a_time("created_time > '2026-01-31T12:00:00.5+02:00'", "created_time > '2026-01-31T10:00:00.5Z'")]
#[case::a_label("labels.app.kubernetes.io/name-x_1 = 'a'", "labels.app.kubernetes.io/name-x_1 = 'a'")]
#[case::a_label_called_like_a_keyword("labels.and = 'a'", "labels.and = 'a'")]
#[case::a_path("spec.camelCase.snake_case.with-dash.0 = 'a'", "spec.camelCase.snake_case.with-dash.0 = 'a'")]
#[case::a_number("spec.a in [1, -2.50, 4Gi]", "spec.a in [1, -2.5, 4294967296]")]
#[case::a_boolean("spec.a = TRUE", "spec.a = true")]
#[case::a_condition("status.conditions.Ready='True'", "status.conditions.Ready = 'True'")]
#[case::a_generation_of_a_condition(
    "status.conditions.Ready.observed_generation<2",
    "status.conditions.Ready.observed_generation < 2"
)]
#[case::a_time_of_a_condition(
    "status.conditions.Ready.last_updated_time<2026-01-31",
    "status.conditions.Ready.last_updated_time < '2026-01-31T00:00:00Z'"
)]
#[case::a_condition_beside_a_not(
    "not name='a' and status.conditions.Ready='True'",
    "not name = 'a' and status.conditions.Ready = 'True'"
)]
#[case::constants_that_are_equal("'1'='1'", "1 = 1")]
#[case::constants_that_are_not("1>2", "1 = 0")]
fn a_search_is_understood(#[case] search: &str, #[case] canonical: &str) {
    assert_eq!(Filter::parse(search).unwrap().to_string(), canonical);
}

#[rstest]
#[case::nothing("", "column 1: expected a field, a value, 'not' or '(', found the end")]
#[case::blanks("   ", "column 4: expected a field, a value, 'not' or '(', found the end")]
#[case::no_value("generation = and", "column 14: expected a value after '=', found 'and'")]
#[case::the_end_instead_of_a_value("name =", "column 7: expected a value after '=', found the end")]
#[case::no_quotes(
    "name = abc",
    "column 8: expected a value after '=', found 'abc'; text is written in quotes"
)]
#[case::two_fields(
    "name = created_by",
    "column 8: expected a value after '=', found 'created_by'; text is written in quotes"
)]
#[case::equals_null(
    "name = NULL",
    "column 8: expected a value after '=', found 'NULL'; write 'is null' or 'is not null'"
)]
#[case::no_comparison("name", "column 5: expected a comparison after 'name', found the end")]
#[case::no_comparison_but_text(
    "name 'a'",
    "column 6: expected a comparison after 'name', found the text 'a'"
)]
#[case::two_values("name = 'a' 'b'", "column 12: expected 'and', 'or' or the end, found the text 'b'")]
#[case::two_comparisons("name = 'a' = 'b'", "column 12: expected 'and', 'or' or the end, found '='")]
#[case::and_first("and name='a'", "column 1: expected a field, a value, 'not' or '(', found 'and'")]
#[case::and_last("name='a' and", "column 13: expected a field, a value, 'not' or '(', found the end")]
#[case::and_twice(
    "name='a' and and name='b'",
    "column 14: expected a field, a value, 'not' or '(', found 'and'"
)]
#[case::never_closed("(name='a'", "column 10: expected 'and', 'or' or ')', found the end")]
#[case::never_opened("name='a')", "column 9: expected 'and', 'or' or the end, found ')'")]
#[case::empty_parentheses("()", "column 2: expected a field, a value, 'not' or '(', found ')'")]
#[case::no_closing_quote("name = 'a", "column 8: the text that starts here has no closing '")]
#[case::no_closing_quote_after_letters(
    "name = 'é' and kind = \"a",
    "column 23: the text that starts here has no closing \""
)]
#[case::a_nul("name = 'a\0b'", "column 10: text cannot hold a NUL character")]
#[case::in_without_a_list("name in 'a'", "column 9: expected '[' after 'in', found the text 'a'")]
#[case::in_parentheses("name in ('a')", "column 9: expected '[' after 'in', found '('")]
#[case::an_empty_list("name in []", "column 10: expected a value after '[', found ']'")]
#[case::a_comma_too_many("name in ['a',]", "column 14: expected a value after ',', found ']'")]
#[case::a_comma_too_few("name in ['a' 'b']", "column 14: expected ',' or ']', found the text 'b'")]
#[case::a_list_never_closed("name in ['a'", "column 13: expected ',' or ']', found the end")]
#[case::between_without_and(
    "name between 'a' or 'b'",
    "column 18: expected 'and' between the two bounds, found 'or'"
)]
#[case::between_without_an_end(
    "name between 'a' and",
    "column 21: expected a value after 'and', found the end"
)]
#[case::is_what("name is 'a'", "column 9: expected 'null' or 'not null' after 'is', found the text 'a'")]
#[case::is_not_what("name is not 'a'", "column 13: expected 'null' after 'not', found the text 'a'")]
#[case::not_what(
    "name not = 'a'",
    "column 10: expected 'in', 'between', 'like' or 'ilike' after 'not', found '='"
)]
#[case::a_lone_constant("true", "column 5: expected a comparison after 'true', found the end")]
#[case::a_semicolon("name = 'a'; drop table resources", "column 11: unexpected character ';'")]
#[case::a_comment("name = 'a' --", "column 12: unsupported arithmetic '-'")]
#[case::minus_what("generation = -'1'", "column 15: expected a number after '-', found the text '1'")]
#[case::not_a_number("generation = 12abc", "column 14: '12abc' is not a number")]
#[case::too_large("generation = 9223372036854775808", "column 14: '9223372036854775808' is out of range")]
#[case::far_too_small(
    "generation = -9223372036854775809",
    "column 15: '9223372036854775809' is out of range"
)]
#[case::not_a_time(
    "created_time > 2026-13-01",
    "column 16: '2026-13-01' is not a time; a time looks like '2026-01-31T12:00:00Z' or '2026-01-31'"
)]
fn syntax_errors_have_a_column(#[case] search: &str, #[case] expected: &str) {
    let error = Filter::parse(search).unwrap_err().to_string();
    let error = error.strip_prefix("failed to parse search query: ").unwrap_or(&error);
    let expected = match expected.split_once(": unsupported ") {
        Some((column, what)) => format!("unsupported {what} at {column}"),
        None => expected.to_owned(),
    };
    assert_eq!(error, expected);
}

#[rstest]
#[case::a_regular_expression("name ~= 'a'", "operator '~=' at column 6")]
#[case::no_regular_expression("name ~! 'a'", "operator '~!' at column 6")]
#[case::two_equal_signs("name == 'a'", "operator '==' at column 6")]
#[case::a_diamond("name <> 'a'", "operator '<>' at column 6")]
#[case::a_sum("generation + 1 = 2", "arithmetic '+' at column 12")]
#[case::a_difference("generation - 1 = 2", "arithmetic '-' at column 12")]
#[case::a_product("generation = 2 * 3", "arithmetic '*' at column 16")]
#[case::a_difference_of_values("generation = 5 -3", "arithmetic '-' at column 16")]
#[case::a_remainder("1 % 2 = 1", "arithmetic '%' at column 3")]
#[case::len("len name > 3", "function 'len' at column 1")]
#[case::len_with_parentheses("LEN(name) > 3", "function 'LEN' at column 1")]
#[case::any("ANY spec.a = 1", "function 'ANY' at column 1")]
#[case::all("all spec.a = 1", "function 'all' at column 1")]
#[case::sum("generation > Sum spec.a", "function 'Sum' at column 14")]
#[case::another_function("lower(name) = 'a'", "function 'lower' at column 1")]
fn unsupported_parts_are_errors(#[case] search: &str, #[case] expected: &str) {
    assert_eq!(Filter::parse(search).unwrap_err().to_string(), format!("unsupported {expected}"));
}

#[rstest]
#[case::text_for_an_integer(
    "generation = 'abc'",
    "field 'generation' expects an integer, found 'abc' (column 14)"
)]
#[case::quoted_digits_for_an_integer(
    "generation = '1'",
    "field 'generation' expects an integer, found '1' (column 14)"
)]
#[case::a_fraction_for_an_integer(
    "generation in [1, 1.5]",
    "field 'generation' expects an integer, found '1.5' (column 19)"
)]
#[case::a_number_for_text("name = 1", "field 'name' expects text in quotes, found '1' (column 8)")]
#[case::a_number_for_a_label(
    "labels.a = -1",
    "field 'labels.a' expects text in quotes, found '-1' (column 12)"
)]
#[case::text_for_a_time(
    "created_time > 'now'",
    "field 'created_time' expects a time such as '2026-01-31T12:00:00Z' or '2026-01-31', found 'now' (column 16)"
)]
#[case::a_time_in_a_spec(
    "spec.a > 2026-01-01",
    "field 'spec.a' expects text in quotes, a number, 'true' or 'false', found '2026-01-01' (column 10)"
)]
#[case::like_an_integer(
    "generation like '1%'",
    "field 'generation' cannot be compared by 'like' (column 12)"
)]
#[case::like_a_number("name like 1", "field 'name' expects a pattern in quotes, found '1' (column 11)")]
#[case::a_lone_backslash(r"name like `a\`", r"a pattern cannot end in a single '\' (column 11)")]
#[case::an_order_of_booleans("spec.a < true", "'true' and 'false' cannot be compared by '<' (column 8)")]
#[case::a_list_of_booleans("spec.a in [true]", "'true' and 'false' cannot be compared by 'in' (column 8)")]
#[case::a_mixed_list("spec.a in [1, 'b']", "'1' and 'b' are of different kinds (column 15)")]
#[case::mixed_bounds("spec.a between 'a' and 2", "'a' and '2' are of different kinds (column 24)")]
#[case::mixed_constants("'1' = 1", "'1' and '1' are of different kinds (column 7)")]
#[case::no_label("labels. = 'a'", "expected the key of a label after 'labels.' (column 1)")]
#[case::a_slash_in_a_path(
    "spec.a/b = 'a'",
    "field 'spec.a/b' is not a path: keys of letters, digits, '_' and '-', with dots between them (column 1)"
)]
#[case::an_unknown_field(
    "name='a' and nonexistent_column='foo'",
    "unknown field 'nonexistent_column'; there are id, kind, name, href, generation, created_time, created_by, \
     updated_time, updated_by, deleted_time, deleted_by, owner_id, owner_kind, labels.<key>, spec.<key> and \
     status.conditions.<Type> (column 14)"
)]
#[case::a_lower_case_condition(
    "status.conditions.ready='True'",
    "'ready' is not the type of a condition: an upper-case letter, then letters and digits (column 1)"
)]
#[case::another_status(
    "status.conditions.Ready='true'",
    "field 'status.conditions.Ready' expects the text 'True', 'False' or 'Unknown', found 'true' (column 25)"
)]
#[case::another_comparison(
    "status.conditions.Ready != 'True'",
    "field 'status.conditions.Ready' can only be compared by '=', found '!=' (column 25)"
)]
#[case::a_list_of_statuses(
    "status.conditions.Ready in ['True']",
    "field 'status.conditions.Ready' cannot be compared by 'in' (column 25)"
)]
#[case::a_condition_below_not(
    "not status.conditions.Ready='True'",
    "field 'status.conditions.Ready' cannot be negated with 'not' (column 5)"
)]
#[case::a_condition_deep_below_not(
    "not (name='a' or (status.conditions.Ready.observed_generation=1))",
    "field 'status.conditions.Ready.observed_generation' cannot be negated with 'not' (column 19)"
)]
#[case::another_part(
    "status.conditions.Ready.reason='x'",
    "unknown field 'status.conditions.Ready.reason'; below a condition there are last_updated_time, \
     last_transition_time and observed_generation (column 1)"
)]
#[case::text_for_a_generation_of_a_condition(
    "status.conditions.Ready.observed_generation='1'",
    "field 'status.conditions.Ready.observed_generation' expects an integer, found '1' (column 45)"
)]
fn type_errors_have_a_column(#[case] search: &str, #[case] expected: &str) {
    assert_eq!(Filter::parse(search).unwrap_err().to_string(), expected);
}

#[test]
fn length_joins_and_nesting_are_limited() {
    let longest = format!("name = '{}'", "é".repeat(4096 - 9));
    assert!(Filter::parse(&longest).is_ok());
    let error = Filter::parse(&format!("{longest} ")).unwrap_err().to_string();
    assert_eq!(error, "failed to parse search query: column 4097: a search has at most 4096 characters");

    let labels = |count: usize| vec!["labels.a is null"; count].join(" or ");
    assert!(Filter::parse(&labels(16)).is_ok());
    let error = Filter::parse(&labels(17)).unwrap_err().to_string();
    assert_eq!(error, "a search asks for at most 16 labels and conditions (column 321)");

    let nested = |depth: usize| format!("{}name='a'{}", "(".repeat(depth), ")".repeat(depth));
    assert!(Filter::parse(&nested(64)).is_ok());
    let error = Filter::parse(&nested(65)).unwrap_err().to_string();
    assert_eq!(error, "failed to parse search query: column 65: parentheses and 'not' nest deeper than 64");
}

proptest! {
    #[test]
    fn parsing_any_text_does_not_panic(text in any::<String>()) {
        let _ = Filter::parse(&text);
    }

    #[test]
    fn parsing_any_tokens_does_not_panic_and_formatting_round_trips(
        tokens in prop::collection::vec(word(), 0..12)
    ) {
        check_round_trip(&tokens.join(" "))?;
        check_round_trip(&tokens.concat())?;
    }

    #[test]
    fn formatting_a_search_round_trips(search in search()) {
        prop_assert!(Filter::parse(&search).is_ok(), "{search}: {:?}", Filter::parse(&search));
        check_round_trip(&search)?;
    }
}

fn check_round_trip(search: &str) -> Result<(), TestCaseError> {
    if let Ok(filter) = Filter::parse(search) {
        prop_assert_eq!(Filter::parse(&filter.to_string()), Ok(filter));
    }
    Ok(())
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "name",
            "generation",
            "created_time",
            "labels.a",
            "spec.a.b",
            "status.conditions.Ready",
            "and",
            "or",
            "not",
            "in",
            "between",
            "like",
            "is",
            "null",
            "true",
            "=",
            "!=",
            "<",
            ">=",
            "(",
            ")",
            "[",
            "]",
            ",",
            "-",
            "~=",
            "+",
            "1",
            "2.5",
            "4Gi",
            "'a'",
            "'",
            "\"",
            "2026-01-31",
            "'True'",
            "\0",
            "é",
            "\\",
        ])
        .prop_map(str::to_owned),
        ".{0,3}",
    ]
}

/// Searches that are right, of any structure.
fn search() -> impl Strategy<Value = String> {
    let text = prop_oneof![
        "[^\0\\\\]{0,6}".prop_map(|text| format!("'{}'", text.replace('\'', "''"))),
        "[^\0\\\\]{0,6}".prop_map(|text| format!("'{}'", text.replace('\'', r"\'"))),
        "[^\0]{0,6}".prop_map(|text| format!("`{}`", text.replace('`', "``"))),
    ];
    let text = text.boxed();
    let number = prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        (any::<i32>(), 0..1_000_000_u32).prop_map(|(whole, fraction)| format!("{whole}.{fraction:06}")),
        "[0-9]{1,3}(Ki|Mi|Gi|Ti|k|M|G|T)",
    ];
    let time =
        (0..4_000_000_000_i64).prop_map(|second| jiff::Timestamp::from_second(second).unwrap().to_string());
    let comparison = prop::sample::select(vec!["=", "!=", "<", "<=", ">", ">="]);
    let subject = prop::sample::select(vec!["name", "owner_id", "labels.a/b.c", "spec.x.y"]);
    let term = prop_oneof![
        (subject.clone(), comparison.clone(), text.clone()).prop_map(|(a, b, c)| format!("{a} {b} {c}")),
        (comparison.clone(), number).prop_map(|(a, b)| format!("spec.x {a} {b}")),
        (comparison.clone(), any::<i64>()).prop_map(|(a, b)| format!("generation{a}{b}")),
        (comparison, time).prop_map(|(a, b)| format!("created_time {a} {b}")),
        (subject.clone(), prop::collection::vec(text.clone(), 1..4))
            .prop_map(|(a, b)| format!("{a} IN [{}]", b.join(","))),
        (subject.clone(), text.clone(), text).prop_map(|(a, b, c)| format!("{a} not between {b} AND {c}")),
        subject.prop_map(|subject| format!("{subject} is not null")),
    ];
    term.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|a| format!("not ({a})")),
            prop::collection::vec(inner.clone(), 1..4).prop_map(|all| format!("({})", all.join(" and "))),
            prop::collection::vec(inner, 1..4).prop_map(|any| format!("({})", any.join(" or "))),
        ]
    })
}
