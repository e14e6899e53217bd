//! What searches and orders find on SQLite.

use rusqlite::{Connection, params_from_iter};

use super::fixture::{Case, ask, ask_list, cases, data, searching, sqlite};
use crate::resource::Tenancy;
use crate::search::sql::{Dialect, Parameter};
use crate::store::query::List;
use crate::store::{Page, Query};

#[test]
fn every_row_of_the_table_is_found() {
    let data = data();
    let connection = sqlite(&data.resources);
    let wrong: Vec<String> = cases(&data)
        .into_iter()
        .filter_map(|Case { title, query, names }| {
            let (found, total) = ask(&connection, &query);
            (found != names || total != names.len())
                .then(|| format!("{title}: {found:?} instead of {names:?}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn search_by_key_finds_the_same_resources() {
    let data = data();
    let connection = sqlite(&data.resources);
    let newest = crate::search::parse_order(&["created_time desc"]).unwrap();
    let mut found_any = 0;
    for Case { title, query, .. } in cases(&data) {
        let query = Query { kind: Some("Cluster".to_owned()), order: newest.clone(), ..query };
        let list = List::of(&query);
        if matches!(list, List::ByKey { .. }) {
            let found = ask_list(&connection, &list);
            assert_eq!(found, ask_list(&connection, &List::ByConditions(&query)), "{title}");
            found_any += usize::from(found.1 > 0);
        }
    }
    assert!(found_any >= 10, "{found_any}");
}

#[test]
fn a_list_is_of_a_kind_an_owner_and_a_tenant() {
    let data = data();
    let connection = sqlite(&data.resources);
    let owner = data.resources[0].id;
    let tenancy = |pairs: &[(&str, &str)]| -> Option<Tenancy> {
        Some(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    };
    let names = |query: Query| ask(&connection, &query).0.join(" ");
    assert_eq!(names(Query { kind: Some("NodePool".to_owned()), ..Query::default() }), "pool");
    assert_eq!(names(Query { owner: Some(owner), ..Query::default() }), "pool");
    assert_eq!(
        names(Query { tenancy: tenancy(&[("project", "p"), ("org", "a")]), ..Query::default() }),
        "pool"
    );
    assert_eq!(names(Query { tenancy: tenancy(&[("org", "a")]), ..Query::default() }), "");
    let of_nobody = Query { tenancy: tenancy(&[]), owner: Some(owner), ..Query::default() };
    assert_eq!(names(of_nobody), "");
}

#[test]
fn the_total_counts_all_pages() {
    let connection = sqlite(&data().resources);
    let page = |number| Query { page: Page { number, size: 2 }, ..searching("name like '%eta'") };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(ask(&connection, &page(1)), (names(&["beta", "eta"]), 4));
    assert_eq!(ask(&connection, &page(2)), (names(&["theta", "zeta"]), 4));
    assert_eq!(ask(&connection, &page(3)), (names(&[]), 4));
}

#[test]
fn what_the_caller_wrote_is_never_in_the_sql() {
    let search = "name = 'INJECTED' or labels.INJECTED/a = 'INJECTED' or spec.INJECTED.x = 'INJECTED' or \
                  status.conditions.INJECTED = 'True' or name like 'INJECTED%' or not labels.INJECTED in ['INJECTED']";
    for dialect in [Dialect::Sqlite, Dialect::Postgres] {
        let items = List::of(&searching(search)).items(1, "", dialect).unwrap();
        assert!(!items.sql.contains("INJECTED"), "{}", items.sql);
        assert!(items.parameters.contains(&Parameter::Text("INJECTED".to_owned())));
    }
}

#[test]
fn the_largest_searches_are_answered() {
    let connection = sqlite(&data().resources);
    for search in largest_searches() {
        assert!(search.len() <= 4096);
        ask(&connection, &searching(&search));
    }
}

/// Searches that are as long, as wide and as deep as they can be.
pub(super) fn largest_searches() -> Vec<String> {
    let repeated = |part: &str, between: &str| {
        let count = (4096 + between.len()) / (part.len() + between.len());
        vec![part; count].join(between)
    };
    let joined = |part: &str, between: &str| vec![part; 16].join(between);
    let deep = |open: &str, close: &str| format!("{}name='a'{}", open.repeat(64), close.repeat(64));
    let path = |keys: usize| format!("spec{}", ".a".repeat(keys));
    vec![
        repeated("1=1", " or "),
        repeated("1=1", " and "),
        repeated("name='a'", " or "),
        repeated("id is null", " or "),
        joined("labels.a='a'", " or "),
        joined("not labels.a='a'", " and "),
        joined("labels.a is null", " or "),
        repeated("spec.a=1", " or "),
        repeated("spec.a=true", " and "),
        repeated("spec.a like '%'", " or "),
        joined("status.conditions.A='True'", " or "),
        joined("status.conditions.A='True'", " and "),
        joined("status.conditions.A.observed_generation<1", " or "),
        format!("spec.a in [{}]", vec!["1"; 2000].join(",")),
        format!("spec.a not in [{}]", vec!["''"; 1350].join(",")),
        format!("generation in [{}]", vec!["1"; 2000].join(",")),
        format!("name like '{}'", "%a".repeat(2000)),
        deep("not ", ""),
        deep("(", ")"),
        format!("{}name='a'{}", "not(1=1 or ".repeat(32), ")".repeat(32)),
        format!("{}name='a'{}", "(1=1 and (1=0 or ".repeat(32), "))".repeat(32)),
        format!("{} = 1 or {} like 'x' or {} is null", path(64), path(64), path(64)),
    ]
}

#[test]
fn the_plan_of_sqlite_uses_the_indexes() {
    let connection = sqlite(&data().resources);
    let newest = crate::search::parse_order(&["created_time desc"]).unwrap();
    let clusters = Query { kind: Some("Cluster".to_owned()), order: newest, ..Query::default() };
    // A page far from the first one skips narrow entries of an index, and not rows.
    let planned = plan(&connection, &clusters);
    assert!(planned.contains("SEARCH r USING COVERING INDEX resources_newest (kind=?)"), "{planned}");
    assert!(planned.contains("SEARCH r USING INDEX sqlite_autoindex_resources_1 (id=?)"), "{planned}");

    for search in ["name = 'abc'", "name in ['abc', 'abd'] and labels.env = 'prod'"] {
        let named = Query { search: searching(search).search, ..clusters.clone() };
        let planned = plan(&connection, &named);
        assert!(planned.contains("resources_by_name (kind=? AND name=?"), "{search}: {planned}");
    }

    let not_ready =
        Query { search: searching("status.conditions.Ready = 'False'").search, ..clusters.clone() };
    let planned = plan(&connection, &not_ready);
    assert!(planned.contains("k USING PRIMARY KEY (field=? AND value=? AND kind=?)"), "{planned}");

    let both = "labels.env = 'prod' and status.conditions.Ready = 'False' and spec.region = 'eu'";
    let planned = plan(&connection, &Query { search: searching(both).search, ..clusters });
    assert!(planned.contains("k USING PRIMARY KEY (field=? AND value=?)"), "{planned}");
}

fn plan(connection: &Connection, query: &Query) -> String {
    let items = List::of(query).items(1, "", Dialect::Sqlite).unwrap();
    let mut prepared = connection.prepare(&format!("EXPLAIN QUERY PLAN {}", items.sql)).unwrap();
    let steps =
        prepared.query_map(params_from_iter(&items.parameters), |row| row.get::<_, String>(3)).unwrap();
    steps.collect::<Result<Vec<_>, _>>().unwrap().join("\n")
}
