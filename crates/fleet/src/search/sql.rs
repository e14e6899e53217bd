//! Compiles searches to SQL. All text of a caller becomes a parameter, also the keys of labels and of paths below `spec`. Both databases
//! return the same results.
//!
//! The rows are those of `resources r`. On SQLite the functions of [`functions`](super::functions) are needed.

use jiff::Timestamp;

use super::decimal;
use super::filter::{ConditionPart, ConditionTest, Filter, Node, Subject, Test, Value};
use super::keys::{Key, condition_field, label_field};
use super::lexer::Comparison;
use super::pattern::Case;
use crate::store::Column;

/// The SQL dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    #[cfg_attr(not(feature = "postgres"), allow(dead_code))]
    Postgres,
}

/// A parameter. The SQL casts it, so that PostgreSQL knows its type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Parameter {
    /// `text`.
    Text(String),
    /// `bigint`.
    Integer(i64),
    /// A decimal number, sent as `text`.
    Number(String),
    /// `timestamptz`, and on SQLite microseconds since 1970.
    Time(Timestamp),
    /// `boolean`, and on SQLite 0 or 1.
    Boolean(bool),
}

impl rusqlite::ToSql for Parameter {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        match self {
            Self::Text(text) | Self::Number(text) => text.to_sql(),
            Self::Integer(number) => number.to_sql(),
            Self::Time(time) => Ok(time.as_microsecond().into()),
            Self::Boolean(value) => value.to_sql(),
        }
    }
}

#[cfg(feature = "postgres")]
impl Parameter {
    /// The value for the PostgreSQL driver.
    pub(crate) fn as_postgres(&self) -> &(dyn tokio_postgres::types::ToSql + Sync) {
        match self {
            Self::Text(text) | Self::Number(text) => text,
            Self::Integer(number) => number,
            Self::Time(time) => time,
            Self::Boolean(value) => value,
        }
    }
}

/// The maximum number of subqueries for values of specs, as for labels and conditions.
const MAX_SPEC_KEYS: usize = 16;

/// Builds SQL: the dialect, and the parameters so far.
#[derive(Debug)]
pub(crate) struct Builder {
    pub(crate) dialect: Dialect,
    pub(crate) parameters: Vec<Parameter>,
    /// How many values of specs may still be found by their keys. Each is a subquery, and PostgreSQL plans many of them slowly.
    spec_keys: usize,
}

impl Builder {
    pub(crate) fn new(dialect: Dialect) -> Self {
        Self { dialect, parameters: Vec::new(), spec_keys: MAX_SPEC_KEYS }
    }

    /// Adds a parameter, and returns its placeholder.
    pub(crate) fn push(&mut self, parameter: Parameter) -> String {
        let cast = match parameter {
            Parameter::Text(_) => "text",
            Parameter::Integer(_) => "bigint",
            Parameter::Number(_) => "text::numeric",
            Parameter::Time(_) => "timestamptz",
            Parameter::Boolean(_) => "boolean",
        };
        self.parameters.push(parameter);
        let number = self.parameters.len();
        match self.dialect {
            Dialect::Sqlite => format!("?{number}"),
            Dialect::Postgres => format!("${number}::{cast}"),
        }
    }

    pub(crate) fn text(&mut self, text: impl Into<String>) -> String {
        self.push(Parameter::Text(text.into()))
    }

    fn value(&mut self, value: &Value) -> String {
        self.push(match value {
            Value::Text(text) => Parameter::Text(text.clone()),
            Value::Integer(number) => Parameter::Integer(*number),
            Value::Number(number) => Parameter::Number(number.to_string()),
            Value::Time(time) => Parameter::Time(*time),
            Value::Boolean(value) => Parameter::Boolean(*value),
        })
    }

    fn values(&mut self, values: &[Value]) -> Vec<String> {
        values.iter().map(|value| self.value(value)).collect()
    }
}

impl Filter {
    /// Whether the search names the resources that it finds, so that it matches a few at most.
    pub(crate) fn matches_few(&self) -> bool {
        fn names(node: &Node) -> bool {
            match node {
                Node::All(nodes) => nodes.iter().any(names),
                Node::Field(
                    Subject::Column(Column::Id | Column::Name),
                    Test::Compare(Comparison::Equal, _) | Test::In(_),
                ) => true,
                _ => false,
            }
        }
        names(&self.0)
    }

    /// The key of exactly the resources that match, if the search compares one field with one value. A resource with
    /// [`Key::long_spec`] may match without the key.
    pub(crate) fn key(&self) -> Option<Key> {
        match &self.0 {
            Node::Field(Subject::Label(key), Test::Compare(Comparison::Equal, Value::Text(value))) => {
                Some(Key::label(key, value))
            }
            Node::Field(Subject::Spec(path), Test::Compare(Comparison::Equal, value)) => {
                spec_key(path, value)
            }
            Node::Condition(test) => status_key(test),
            _ => None,
        }
    }

    /// The search as a condition of SQL on `resources r`.
    pub(crate) fn sql(&self, builder: &mut Builder) -> String {
        node(&self.0, Around::Nothing, builder)
    }
}

/// Whether a condition is below a `not`. If it is not, unknown equals false, which helps the query planner.
#[derive(Clone, Copy)]
enum Around {
    Nothing,
    Not,
}

fn node(node_: &Node, around: Around, builder: &mut Builder) -> String {
    match node_ {
        Node::Constant(true) => "TRUE".to_owned(),
        Node::Constant(false) => "FALSE".to_owned(),
        Node::Not(inner) => format!("(NOT {})", node(inner, Around::Not, builder)),
        Node::All(nodes) => balanced(&nodes_of(nodes, around, builder), "AND"),
        Node::Any(nodes) => balanced(&nodes_of(nodes, around, builder), "OR"),
        Node::Field(Subject::Column(column), test) => {
            scalar_test(&format!("r.{}", column.name()), test, builder)
        }
        Node::Field(Subject::Label(key), test) => label_test(key, test, around, builder),
        Node::Field(Subject::Spec(path), test) => spec_test(path, test, around, builder),
        Node::Condition(test) => condition_test(test, builder),
    }
}

fn nodes_of(nodes: &[Node], around: Around, builder: &mut Builder) -> Vec<String> {
    nodes.iter().map(|part| node(part, around, builder)).collect()
}

/// Joins conditions as a balanced tree, because a chain of a thousand would be too deep for SQLite.
fn balanced(conditions: &[String], operator: &str) -> String {
    match conditions {
        [] => "TRUE".to_owned(),
        [only] => only.clone(),
        several => {
            let (left, right) = several.split_at(several.len() / 2);
            format!("({} {operator} {})", balanced(left, operator), balanced(right, operator))
        }
    }
}

/// A test of a text, integer or time expression.
fn scalar_test(expression: &str, test: &Test<Value>, builder: &mut Builder) -> String {
    // An index supports `=` with any collation, but byte order only with "C".
    let ordered = |value: &Value, builder: &Builder| match (value, builder.dialect) {
        (Value::Text(_), Dialect::Postgres) => format!("{expression} COLLATE \"C\""),
        _ => expression.to_owned(),
    };
    match test {
        Test::Null => format!("({expression} IS NULL)"),
        Test::NotNull => format!("({expression} IS NOT NULL)"),
        Test::Compare(comparison @ (Comparison::Equal | Comparison::NotEqual), value) => {
            format!("({expression} {} {})", comparison.symbol(), builder.value(value))
        }
        Test::Compare(comparison, value) => {
            format!("({} {} {})", ordered(value, builder), comparison.symbol(), builder.value(value))
        }
        Test::In(values) => format!("({expression} IN ({}))", builder.values(values).join(", ")),
        Test::Between(low, high) => {
            let expression = ordered(low, builder);
            format!("({expression} BETWEEN {} AND {})", builder.value(low), builder.value(high))
        }
        Test::Like(case, pattern) => {
            let pattern = builder.value(pattern);
            match (builder.dialect, case) {
                (Dialect::Sqlite, Case::Sensitive) => format!("bw_like({expression}, {pattern})"),
                (Dialect::Sqlite, Case::Insensitive) => format!("bw_ilike({expression}, {pattern})"),
                (Dialect::Postgres, Case::Sensitive) => {
                    format!("({expression} COLLATE \"C\" LIKE {pattern})")
                }
                (Dialect::Postgres, Case::Insensitive) => {
                    format!("({expression} COLLATE \"C\" ILIKE {pattern})")
                }
            }
        }
    }
}

fn label_test(key: &str, test: &Test<Value>, around: Around, builder: &mut Builder) -> String {
    match (test, around) {
        (Test::Null, _) | (_, Around::Not) => {
            let label = match builder.dialect {
                Dialect::Sqlite => format!("(r.labels ->> {})", builder.text(json_path([key]))),
                Dialect::Postgres => format!("(r.labels ->> {})", builder.text(key)),
            };
            scalar_test(&label, test, builder)
        }
        (test, Around::Nothing) => {
            let mut condition = format!("k.field = {}", builder.text(label_field(key)));
            if *test != Test::NotNull {
                condition = format!("{condition} AND {}", scalar_test("k.value", test, builder));
            }
            member_of("resource_keys k", &condition, builder.dialect)
        }
    }
}

fn condition_test(test: &ConditionTest, builder: &mut Builder) -> String {
    if test.part == ConditionPart::Status {
        let (field, value) = (builder.text(condition_field(&test.type_)), builder.value(&test.value));
        let condition = format!("k.field = {field} AND k.value {} {value}", test.comparison.symbol());
        return member_of("resource_keys k", &condition, builder.dialect);
    }
    let types: Vec<String> = names_of(&test.type_).into_iter().map(|name| builder.text(name)).collect();
    let value = match &test.value {
        Value::Time(time) => builder.push(Parameter::Integer(time.as_microsecond())),
        value => builder.value(value),
    };
    let (types, comparison) = (types.join(", "), test.comparison.symbol());
    let position = test.part.position();
    let (each, type_, part) = match builder.dialect {
        Dialect::Sqlite => {
            ("json_each(s.conditions)", "(c.value ->> 0)", format!("(c.value ->> {position})"))
        }
        Dialect::Postgres => (
            "json_array_elements(s.conditions::json)",
            "(c.value ->> 0)",
            format!("(c.value ->> {position})::bigint"),
        ),
    };
    // Correlated on both databases: an index cannot help, and most searches have also a status, which leaves few resources.
    format!(
        "(EXISTS (SELECT 1 FROM resource_states s, {each} c WHERE s.resource_id = r.id AND {type_} IN ({types}) \
         AND {part} {comparison} {value}))"
    )
}

fn status_key(test: &ConditionTest) -> Option<Key> {
    match (test.part, test.comparison, &test.value) {
        (ConditionPart::Status, Comparison::Equal, Value::Text(status)) => {
            Some(Key::condition(&test.type_, status))
        }
        _ => None,
    }
}

fn spec_key(path: &[String], value: &Value) -> Option<Key> {
    match value {
        Value::Text(text) => Some(Key::spec_text(path, text)),
        Value::Number(number) => Some(Key::spec_number(path, number)),
        Value::Boolean(value) => Some(Key::spec_boolean(path, *value)),
        Value::Integer(_) | Value::Time(_) => None,
    }
}

/// The names of a condition: the two combined conditions have two names each.
fn names_of(type_: &str) -> Vec<&str> {
    match type_ {
        "Ready" | "Reconciled" => vec!["Ready", "Reconciled"],
        "Available" | "LastKnownReconciled" => vec!["Available", "LastKnownReconciled"],
        other => vec![other],
    }
}

/// Whether a resource is in a table. SQLite evaluates `IN` once by index, but `EXISTS` for each row. PostgreSQL uses a join for `EXISTS`;
/// with `IN` below `OR` it would scan the result for each row if that exceeds its working memory.
fn member_of(table: &str, condition: &str, dialect: Dialect) -> String {
    let alias = table.rsplit(' ').next().unwrap_or(table);
    match dialect {
        Dialect::Sqlite => format!("(r.id IN (SELECT {alias}.resource_id FROM {table} WHERE {condition}))"),
        Dialect::Postgres => {
            format!("(EXISTS (SELECT 1 FROM {table} WHERE {alias}.resource_id = r.id AND {condition}))")
        }
    }
}

fn spec_test(path: &[String], test: &Test<Value>, around: Around, builder: &mut Builder) -> String {
    let key = match (test, around) {
        (Test::Compare(Comparison::Equal, value), Around::Nothing) if builder.spec_keys > 0 => {
            spec_key(path, value)
        }
        _ => None,
    };
    let Some(key) = key else { return stored_spec_test(path, test, builder) };
    builder.spec_keys -= 1;
    let (field, value) = (builder.text(key.field), builder.text(key.value));
    let has_key = format!("k.field = {field} AND k.value = {value}");
    // Resources with a long spec do not have all keys.
    let long = format!("k.field = {}", builder.text(Key::long_spec().field));
    let stored = stored_spec_test(path, test, builder);
    match builder.dialect {
        Dialect::Sqlite => format!(
            "(r.id IN (SELECT k.resource_id FROM resource_keys k WHERE {has_key} UNION ALL \
             SELECT r.id FROM resource_keys k CROSS JOIN resources r ON r.id = k.resource_id WHERE {long} AND {stored}))"
        ),
        Dialect::Postgres => {
            let [has_key, long] =
                [has_key, long].map(|condition| member_of("resource_keys k", &condition, Dialect::Postgres));
            format!("({has_key} OR ({long} AND {stored}))")
        }
    }
}

fn stored_spec_test(path: &[String], test: &Test<Value>, builder: &mut Builder) -> String {
    match builder.dialect {
        Dialect::Sqlite => sqlite_spec_test(path, test, builder),
        Dialect::Postgres => postgres_spec_test(path, test, builder),
    }
}

/// A JSON path of SQLite.
fn json_path<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: String = names.into_iter().map(|name| format!(".\"{name}\"")).collect();
    format!("${names}")
}

fn sqlite_spec_test(path: &[String], test: &Test<Value>, builder: &mut Builder) -> String {
    let path = builder.text(json_path(path.iter().map(String::as_str)));
    match kind_of(test) {
        Compared::Presence(symbol) => {
            format!("(coalesce(json_type(r.spec, {path}), 'null') {symbol} 'null')")
        }
        Compared::Text => scalar_test(&format!("bw_text(r.spec -> {path})"), test, builder),
        Compared::Number => number_test(&format!("r.spec -> {path}"), test, builder),
        Compared::Boolean => {
            let value =
                format!("(CASE json_type(r.spec, {path}) WHEN 'true' THEN 1 WHEN 'false' THEN 0 END)");
            scalar_test(&value, test, builder)
        }
    }
}

/// A test of JSON with exact numbers, which SQLite does not support.
fn number_test(json: &str, test: &Test<Value>, builder: &mut Builder) -> String {
    let mut compare =
        |symbol: &str, value: &Value| format!("(bw_compare({json}, {}) {symbol} 0)", builder.value(value));
    match test {
        Test::Compare(comparison, value) => compare(comparison.symbol(), value),
        Test::In(values) => {
            let each: Vec<String> = values.iter().map(|value| compare("=", value)).collect();
            balanced(&each, "OR")
        }
        Test::Between(low, high) => format!("({} AND {})", compare(">=", low), compare("<=", high)),
        test @ (Test::Null | Test::NotNull | Test::Like(..)) => scalar_test(json, test, builder),
    }
}

fn postgres_spec_test(path: &[String], test: &Test<Value>, builder: &mut Builder) -> String {
    // `->` with text follows only keys of objects; `#>` would also follow indexes of lists.
    let keys: String = path.iter().map(|key| format!(" -> {}", builder.text(key.as_str()))).collect();
    let json = format!("(r.spec{keys})");
    let text = format!("({json} #>> '{{}}')");
    match kind_of(test) {
        Compared::Presence(symbol) => format!("(coalesce(jsonb_typeof({json}), 'null') {symbol} 'null')"),
        Compared::Text => {
            let value =
                format!("(CASE WHEN jsonb_typeof({json}) NOT IN ('object', 'array') THEN {text} END)");
            scalar_test(&value, test, builder)
        }
        Compared::Number => {
            let longest = decimal::LONGEST;
            let plain = format!("^-?[0-9]{{1,{longest}}}([.][0-9]{{1,{longest}}})?$");
            let of_text = format!("CASE WHEN {text} ~ '{plain}' THEN {text}::numeric END");
            let value = format!(
                "(CASE jsonb_typeof({json}) WHEN 'number' THEN {text}::numeric WHEN 'string' THEN {of_text} END)"
            );
            scalar_test(&value, test, builder)
        }
        Compared::Boolean => {
            let value = format!("(CASE jsonb_typeof({json}) WHEN 'boolean' THEN {text}::boolean END)");
            scalar_test(&value, test, builder)
        }
    }
}

/// The type as which a JSON value is compared.
enum Compared {
    /// Whether the value is null.
    Presence(&'static str),
    Text,
    Number,
    Boolean,
}

fn kind_of(test: &Test<Value>) -> Compared {
    let value = match test {
        Test::Null => return Compared::Presence("="),
        Test::NotNull => return Compared::Presence("!="),
        Test::Compare(_, value) | Test::Between(value, _) | Test::Like(_, value) => Some(value),
        Test::In(values) => values.first(),
    };
    match value {
        Some(Value::Number(_) | Value::Integer(_)) => Compared::Number,
        Some(Value::Boolean(_)) => Compared::Boolean,
        Some(Value::Text(_) | Value::Time(_)) | None => Compared::Text,
    }
}
