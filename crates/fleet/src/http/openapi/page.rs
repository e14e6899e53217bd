//! Renders the OpenAPI document as an HTML page without scripts.

use std::fmt::Write as _;

use serde_json::{Map, Value};

const STYLE: &str = include_str!("page.css");

/// Renders a document.
pub(super) fn render(document: &Value) -> String {
    let title = text(document, "/info/title");
    let groups = groups(document);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{title}</title><style>{STYLE}</style></head>\n<body>\n\
         <header><h1>{title} <span class=\"quiet\">{}</span></h1><p>{}</p></header>\n{}",
        text(document, "/info/version"),
        text(document, "/info/description"),
        navigation(&groups),
    );
    for (tag, operations) in &groups {
        let _ = writeln!(page, "<section id=\"tag-{0}\"><h2>{0}</h2>", anchor(tag));
        operations.iter().for_each(|operation| page.push_str(&operation.html()));
        page.push_str("</section>\n");
    }
    page.push_str("<section id=\"schemas\"><h2>Schemas</h2>\n");
    for (name, schema) in members(document, "/components/schemas") {
        let _ = writeln!(
            page,
            "<details id=\"schema-{0}\"><summary><code>{0}</code></summary>{1}</details>",
            escape(name),
            schema_html(schema)
        );
    }
    page.push_str("</section>\n</body>\n</html>\n");
    page
}

/// One operation of the document.
struct Operation<'d> {
    path: &'d str,
    method: &'d str,
    content: &'d Value,
}

/// The operations by tag, in the order of the first occurrence of tags.
fn groups(document: &Value) -> Vec<(&str, Vec<Operation<'_>>)> {
    let mut groups: Vec<(&str, Vec<Operation<'_>>)> = Vec::new();
    for (path, item) in members(document, "/paths") {
        for (method, content) in members(item, "") {
            let tag = content.pointer("/tags/0").and_then(Value::as_str).unwrap_or_default();
            let operation = Operation { path, method, content };
            match groups.iter_mut().find(|(other, _)| *other == tag) {
                Some((_, operations)) => operations.push(operation),
                None => groups.push((tag, vec![operation])),
            }
        }
    }
    groups
}

fn navigation(groups: &[(&str, Vec<Operation<'_>>)]) -> String {
    let links = groups
        .iter()
        .map(|(tag, _)| format!("<li><a href=\"#tag-{0}\">{1}</a></li>", anchor(tag), escape(tag)));
    let links: String = links.collect();
    format!("<nav><ul>{links}<li><a href=\"#schemas\">Schemas</a></li></ul></nav>\n")
}

impl Operation<'_> {
    fn html(&self) -> String {
        let mut html = format!(
            "<details id=\"{}\"><summary><span class=\"method\">{}</span> <code>{}</code> <span class=\"quiet\">{}</span></summary>\n<p>{}</p>",
            text(self.content, "/operationId"),
            self.method.to_ascii_uppercase(),
            escape(self.path),
            text(self.content, "/summary"),
            text(self.content, "/description"),
        );
        html.push_str(&self.parameters());
        for (media_type, content) in members(self.content, "/requestBody/content") {
            let _ = write!(
                html,
                "<h4>Body, <code>{}</code></h4><p>{}</p>",
                escape(media_type),
                type_of(content.get("schema"))
            );
        }
        html.push_str(&self.responses());
        html.push_str("</details>\n");
        html
    }

    fn parameters(&self) -> String {
        let Some(parameters) = self.content.get("parameters").and_then(Value::as_array) else {
            return String::new();
        };
        let rows: Vec<[String; 4]> = parameters
            .iter()
            .map(|parameter| {
                [
                    format!("<code>{}</code>", text(parameter, "/name")),
                    text(parameter, "/in"),
                    type_of(parameter.get("schema")),
                    text(parameter, "/description"),
                ]
            })
            .collect();
        table("Parameters", ["name", "in", "type", "description"], &rows)
    }

    fn responses(&self) -> String {
        let responses = members(self.content, "/responses");
        let rows: Vec<[String; 4]> = responses
            .map(|(status, response)| {
                let contents = members(response, "/content").map(|(media_type, content)| {
                    format!("<code>{}</code>: {}", escape(media_type), type_of(content.get("schema")))
                });
                let headers =
                    members(response, "/headers").map(|(name, _)| format!("<code>{}</code>", escape(name)));
                [
                    format!("<code>{}</code>", escape(status)),
                    text(response, "/description"),
                    contents.collect::<Vec<_>>().join("<br>"),
                    headers.collect::<Vec<_>>().join(", "),
                ]
            })
            .collect();
        table("Responses", ["status", "description", "content", "headers"], &rows)
    }
}

fn table<const N: usize>(title: &str, heads: [&str; N], rows: &[[String; N]]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let heads: String = heads.iter().map(|head| format!("<th>{head}</th>")).collect();
    let row = |cells: &[String; N]| {
        let cells: String = cells.iter().map(|cell| format!("<td>{cell}</td>")).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let rows: String = rows.iter().map(row).collect();
    format!("<h4>{title}</h4><div class=\"scroll\"><table><tr>{heads}</tr>\n{rows}</table></div>\n")
}

/// Renders the properties of an object, or another schema.
fn schema_html(schema: &Value) -> String {
    let required: Vec<&str> = strings(schema.get("required")).collect();
    let rows: Vec<[String; 3]> = members(schema, "/properties")
        .map(|(name, property)| {
            let mark =
                if required.contains(&name.as_str()) { "" } else { " <span class=\"quiet\">optional</span>" };
            [
                format!("<code>{}</code>{mark}", escape(name)),
                type_of(Some(property)),
                text(property, "/description"),
            ]
        })
        .collect();
    let description = text(schema, "/description");
    if rows.is_empty() {
        return format!("<p>{description}</p><p>{}</p>", type_of(Some(schema)));
    }
    format!("<p>{description}</p>{}", table("Properties", ["name", "type", "description"], &rows))
}

/// Describes a schema in a line.
fn type_of(schema: Option<&Value>) -> String {
    let Some(Value::Object(schema)) = schema else { return "anything".to_owned() };
    if let Some(name) =
        schema.get("$ref").and_then(Value::as_str).and_then(|target| target.rsplit('/').next())
    {
        return format!("<a href=\"#schema-{0}\"><code>{0}</code></a>", escape(name));
    }
    for (keyword, between) in [("oneOf", " or "), ("anyOf", " or "), ("allOf", " and ")] {
        if let (Some(Value::Array(choices)), None) = (schema.get(keyword), schema.get("properties")) {
            let types =
                choices.iter().map(|choice| type_of(Some(choice))).filter(|choice| choice != "anything");
            return types.collect::<Vec<_>>().join(between);
        }
    }
    if let Some(value) = schema.get("const") {
        return format!("<code>{}</code>", escape(&value.to_string()));
    }
    let mut description = match schema.get("type") {
        Some(Value::String(type_)) if type_ == "array" => format!("list of {}", type_of(schema.get("items"))),
        Some(Value::String(type_)) => escape(type_),
        types @ Some(Value::Array(_)) => strings(types).map(escape).collect::<Vec<_>>().join(" or "),
        _ if limits(schema).is_empty() => "anything".to_owned(),
        _ => String::new(),
    };
    if let Some(values @ Value::Object(_)) = schema.get("additionalProperties") {
        let _ = write!(description, " of {}", type_of(Some(values)));
    }
    description.push_str(&limits(schema));
    description
}

/// Describes the constraints of a value besides its type.
fn limits(schema: &Map<String, Value>) -> String {
    let keywords = [
        ("format", ""),
        ("minimum", "from "),
        ("maximum", "to "),
        ("minLength", "minimum length "),
        ("maxLength", "maximum length "),
        ("maxItems", "maximum number of items "),
        ("pattern", "pattern "),
        ("default", "default "),
    ];
    let mut limits: Vec<String> = Vec::new();
    for (keyword, label) in keywords {
        if let Some(value) = schema.get(keyword) {
            let shown = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
            limits.push(format!("{label}<code>{}</code>", escape(&shown)));
        }
    }
    if let Some(Value::Array(values)) = schema.get("enum") {
        let values: Vec<String> =
            values.iter().map(|value| format!("<code>{}</code>", escape(&value.to_string()))).collect();
        limits.push(format!("one of {}", values.join(" ")));
    }
    if limits.is_empty() {
        String::new()
    } else {
        format!(" <span class=\"quiet\">({})</span>", limits.join(", "))
    }
}

fn members<'v>(value: &'v Value, pointer: &str) -> impl Iterator<Item = (&'v String, &'v Value)> {
    value.pointer(pointer).and_then(Value::as_object).into_iter().flatten()
}

fn strings(value: Option<&Value>) -> impl Iterator<Item = &str> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn text(value: &Value, pointer: &str) -> String {
    escape(value.pointer(pointer).and_then(Value::as_str).unwrap_or_default())
}

fn anchor(tag: &str) -> String {
    escape(&tag.replace(' ', "-"))
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}
