//! The JSONPath of Kubernetes, as far as printer columns, selectable fields, scale paths and the feedback of works need it:
//! `.spec.x`, `.a['b.c']`, `.list[0]`, `.list[-1]`, `.list[*].x`, `.list[?(@.type=="Ready")].status`.
//! Read once, asked of many objects.

use serde_json::Value;

/// A path that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    All,
    /// Items in which the value at a path compares to another as said.
    Where {
        path: Vec<Step>,
        test: Option<(Comparison, Value)>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    /// Reads a path; the error says what is wrong and where.
    pub fn read(text: &str) -> Result<Self, String> {
        let bare = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text);
        let mut reader = Reader { text: bare, at: 0 };
        let steps = reader.steps(|_| false)?;
        if steps.is_empty() {
            return Err(format!("{text:?} names nothing"));
        }
        Ok(Self(steps))
    }

    /// All values that the path leads to.
    pub fn find<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        follow(&self.0, value)
    }

    /// The names along the path, if it consists of nothing else: `.spec.replicas`.
    pub fn fields(&self) -> Option<Vec<&str>> {
        self.0
            .iter()
            .map(|step| match step {
                Step::Field(name) => Some(name.as_str()),
                _ => None,
            })
            .collect()
    }
}

fn follow<'v>(steps: &[Step], value: &'v Value) -> Vec<&'v Value> {
    let Some((step, rest)) = steps.split_first() else { return vec![value] };
    let next: Vec<&Value> = match (step, value) {
        (Step::Field(name), Value::Object(map)) => map.get(name).into_iter().collect(),
        (Step::Index(at), Value::Array(items)) => {
            let at = if *at < 0 { i64::try_from(items.len()).unwrap_or(i64::MAX) + at } else { *at };
            usize::try_from(at).ok().and_then(|at| items.get(at)).into_iter().collect()
        }
        (Step::All, Value::Array(items)) => items.iter().collect(),
        (Step::All, Value::Object(map)) => map.values().collect(),
        (Step::Where { path, test }, Value::Array(items)) => {
            items.iter().filter(|item| passes(path, test.as_ref(), item)).collect()
        }
        _ => Vec::new(),
    };
    next.into_iter().flat_map(|value| follow(rest, value)).collect()
}

fn passes(path: &[Step], test: Option<&(Comparison, Value)>, item: &Value) -> bool {
    let found = follow(path, item);
    match (found.first(), test) {
        (Some(_), None) => true,
        (Some(found), Some((comparison, wanted))) => compares(found, *comparison, wanted),
        (None, _) => false,
    }
}

fn compares(found: &Value, comparison: Comparison, wanted: &Value) -> bool {
    let order = match (found, wanted) {
        (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        _ => None,
    };
    let Some(order) = order else { return comparison == Comparison::NotEqual };
    match comparison {
        Comparison::Equal => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn take(&mut self, prefix: &str) -> bool {
        let found = self.rest().starts_with(prefix);
        if found {
            self.at += prefix.len();
        }
        found
    }

    fn error(&self, wanted: &str) -> String {
        format!("expected {wanted} at character {} of {:?}", self.at, self.text)
    }

    fn steps(&mut self, ends: impl Fn(&str) -> bool) -> Result<Vec<Step>, String> {
        let mut steps = Vec::new();
        let _ = self.take("$") || self.take("@");
        while !self.rest().is_empty() && !ends(self.rest()) {
            if self.take("[") {
                steps.push(self.bracket()?);
            } else if self.take("..") {
                return Err(self.error("a plain path (descending by \"..\" is not supported)"));
            } else if self.take(".") || steps.is_empty() {
                if self.rest().starts_with('[') {
                    continue;
                }
                steps.push(if self.take("*") { Step::All } else { Step::Field(self.name()?) });
            } else {
                return Err(self.error("\".\" or \"[\""));
            }
        }
        Ok(steps)
    }

    /// A name; a backslash lets a dot be part of it.
    fn name(&mut self) -> Result<String, String> {
        let mut name = String::new();
        let mut escaped = false;
        for c in self.rest().chars() {
            match c {
                _ if escaped => {
                    name.push(c);
                    escaped = false;
                }
                '\\' => escaped = true,
                '.' | '[' | ']' | ' ' | '=' | '!' | '<' | '>' | ')' => break,
                c => name.push(c),
            }
            self.at += c.len_utf8();
        }
        if name.is_empty() { Err(self.error("a name")) } else { Ok(name) }
    }

    fn bracket(&mut self) -> Result<Step, String> {
        let step = if self.take("?(") {
            let step = self.filter()?;
            if !self.take(")") {
                return Err(self.error("\")\""));
            }
            step
        } else if self.take("*") {
            Step::All
        } else if self.rest().starts_with(['\'', '"']) {
            Step::Field(self.quoted()?)
        } else {
            let end = self.rest().find(']').ok_or_else(|| self.error("\"]\""))?;
            let number = self.rest().get(..end).unwrap_or_default().trim();
            let index = number.parse().map_err(|_| self.error("an index, a quoted name, \"*\" or \"?(\""))?;
            self.at += end;
            Step::Index(index)
        };
        if self.take("]") { Ok(step) } else { Err(self.error("\"]\"")) }
    }

    fn filter(&mut self) -> Result<Step, String> {
        let ends = |rest: &str| rest.starts_with([' ', '=', '!', '<', '>', ')']);
        let path = self.steps(ends)?;
        self.skip_blanks();
        let comparison = [
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ]
        .into_iter()
        .find(|(text, _)| self.take(text));
        let Some((_, comparison)) = comparison else { return Ok(Step::Where { path, test: None }) };
        self.skip_blanks();
        let value = self.literal()?;
        self.skip_blanks();
        Ok(Step::Where { path, test: Some((comparison, value)) })
    }

    fn skip_blanks(&mut self) {
        while self.take(" ") {}
    }

    fn literal(&mut self) -> Result<Value, String> {
        if self.rest().starts_with(['\'', '"']) {
            return self.quoted().map(Value::String);
        }
        let end = self.rest().find([')', ' ']).unwrap_or(self.rest().len());
        let text = self.rest().get(..end).unwrap_or_default();
        let value =
            serde_json::from_str(text).map_err(|_| self.error("a number, true, false or a string"))?;
        self.at += end;
        Ok(value)
    }

    fn quoted(&mut self) -> Result<String, String> {
        let quote = self.rest().chars().next().unwrap_or('"');
        self.at += 1;
        let mut text = String::new();
        let mut escaped = false;
        for c in self.rest().chars() {
            self.at += c.len_utf8();
            match c {
                _ if escaped => {
                    text.push(c);
                    escaped = false;
                }
                '\\' => escaped = true,
                c if c == quote => return Ok(text),
                c => text.push(c),
            }
        }
        Err(self.error("the closing quote"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_lead_to_values() {
        let object = json!({
            "spec": {"replicas": 3, "a.b": "dotted", "list": [1, 2, 3]},
            "metadata": {"labels": {"x.io/y": "z"}},
            "status": {"conditions": [
                {"type": "Ready", "status": "True", "n": 1},
                {"type": "Synced", "status": "False", "n": 5},
            ]},
        });
        for (path, expected) in [
            (".spec.replicas", json!([3])),
            ("{.spec.replicas}", json!([3])),
            ("$.spec.replicas", json!([3])),
            (".spec['a.b']", json!(["dotted"])),
            (r".spec.a\.b", json!(["dotted"])),
            (r".metadata.labels.x\.io/y", json!(["z"])),
            (".spec.list[0]", json!([1])),
            (".spec.list[-1]", json!([3])),
            (".spec.list[*]", json!([1, 2, 3])),
            (r#".status.conditions[?(@.type=="Ready")].status"#, json!(["True"])),
            (r#".status.conditions[?(@.type == 'Ready')].status"#, json!(["True"])),
            (".status.conditions[?(@.n>2)].type", json!(["Synced"])),
            (".status.conditions[?(@.n)].type", json!(["Ready", "Synced"])),
            (".status.absent", json!([])),
            (".spec.replicas.deeper", json!([])),
        ] {
            let found: Vec<Value> =
                JsonPath::read(path).unwrap().find(&object).into_iter().cloned().collect();
            assert_eq!(Value::Array(found), expected, "{path}");
        }
    }

    #[test]
    fn paths_that_cannot_be_read_are_refused() {
        for path in ["", ".", ".a[", ".a[x]", ".a[?(@.b==)]", ".a['b", ".a..b", "{}", ".a]"] {
            assert!(JsonPath::read(path).is_err(), "{path}");
        }
    }

    #[test]
    fn plain_paths_tell_their_fields() {
        assert_eq!(JsonPath::read(".spec.replicas").unwrap().fields(), Some(vec!["spec", "replicas"]));
        assert_eq!(JsonPath::read(".spec.list[0]").unwrap().fields(), None);
    }
}
