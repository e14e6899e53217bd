//! The template language, as tables.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Template, TemplateErrorKind, format_time};

fn now() -> Timestamp {
    "2026-03-04T05:06:07.089Z".parse().unwrap()
}

fn variables() -> Value {
    json!({
        "clusterId": "Abc-1", "count": 3, "ratio": 2.5, "float": 4.0, "none": null, "empty": "", "yes": true,
        "list": ["a", "b"], "map": {"x": 1, "y": "two"}, "nested": {"deep": {"name": "n"}},
        "created": "2026-01-02T03:04:05Z",
    })
}

fn render(text: &str) -> String {
    let template = Template::compile(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    template.render(&variables(), now()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn templates_render_as_go_does() {
    for (text, expected) in [
        ("plain", "plain"),
        ("{{ .clusterId }}", "Abc-1"),
        ("{{.count}}/{{ .ratio }}/{{ .float }}/{{ .yes }}", "3/2.5/4/true"),
        ("{{ .nested.deep.name }}", "n"),
        ("{{ .map }}{{ .list }}", r#"{"x":1,"y":"two"}["a","b"]"#),
        ("{{ .clusterId | lower }}", "abc-1"),
        ("{{ upper .clusterId }}", "ABC-1"),
        ("{{ title \"hello tHERE\" }}", "Hello There"),
        ("{{ trim \"  x \" }}|", "x|"),
        ("{{ trimPrefix .clusterId \"Abc-\" }}{{ trimSuffix .clusterId \"-1\" }}", "1Abc"),
        ("{{ replace .clusterId \"-\" \"_\" }}", "Abc_1"),
        (
            "{{ contains .clusterId \"bc\" }} {{ hasPrefix .clusterId \"x\" }} {{ hasSuffix .clusterId \"1\" }}",
            "true false true",
        ),
        ("{{ quote .clusterId }}", "\"Abc-1\""),
        ("{{ .none | default \"d\" }}{{ .empty | default \"e\" }}{{ .count | default 9 }}", "de3"),
        (
            "{{ int \"7\" }}{{ int64 2.9 }}{{ float \"1.5\" }}{{ float64 2 }}{{ string 5 }}{{ int \"x\" }}",
            "721.5250",
        ),
        ("{{ now | date \"2006-01-02T15:04:05Z07:00\" }}", "2026-03-04T05:06:07Z"),
        ("{{ .created | dateFormat \"Jan _2, 2006\" }}", "Jan  2, 2026"),
        ("{{ if .yes }}a{{ else }}b{{ end }}", "a"),
        ("{{ if .empty }}a{{ else if eq .count 3 }}b{{ else }}c{{ end }}", "b"),
        ("{{ if and .yes (gt .count 2) }}in{{ end }}", "in"),
        ("{{ if or .empty .none }}in{{ else }}out{{ end }}", "out"),
        ("{{ if not .empty }}in{{ end }}", "in"),
        (
            "{{ eq .clusterId \"x\" \"Abc-1\" }} {{ ne 1 1.0 }} {{ lt 1 2 }} {{ le 2 2 }} {{ ge \"a\" \"b\" }}",
            "true false true true false",
        ),
        ("{{ range .list }}[{{ . }}]{{ end }}", "[a][b]"),
        ("{{ range $i, $v := .list }}{{ $i }}={{ $v }};{{ end }}", "0=a;1=b;"),
        ("{{ range $v := .list }}{{ $v }}{{ $.count }}{{ end }}", "a3b3"),
        ("{{ range $k, $v := .map }}{{ $k }}:{{ $v }} {{ end }}", "x:1 y:two "),
        ("{{ with .nested.deep }}{{ .name }}{{ end }}{{ with .empty }}x{{ else }}-{{ end }}", "n-"),
        ("{{ with $d := .nested }}{{ $d.deep.name }}{{ end }}", "n"),
        ("{{ $x := .count }}{{ if .yes }}{{ $x = 4 }}{{ end }}{{ $x }}", "4"),
        ("{{/* a comment }} */}}x", "x"),
        ("a  {{- .count -}}  b", "a3b"),
        ("a {{ -1 }} b", "a -1 b"),
        ("{{ len .list }}{{ len .clusterId }}{{ index .list 1 }}{{ index .map \"y\" }}", "25btwo"),
        (
            "{{ printf \"%s-%03d %.1f %q %v%%\" .clusterId .count .ratio \"q\" .yes }}",
            "Abc-1-003 2.5 \"q\" true%",
        ),
        ("{{ print .clusterId .count }}", "Abc-13"),
        ("{{ (index .list 0) | upper }}{{ (.nested).deep.name }}", "An"),
        ("{{ `raw \"}}\"` }}{{ \"}}\\n\" }}", "raw \"}}\"}}\n"),
    ] {
        assert_eq!(render(text), expected, "{text}");
    }
}

#[test]
fn invalid_templates_are_rejected_with_their_place() {
    use TemplateErrorKind::{Syntax, Undefined};
    for (text, kind, offset, message) in [
        ("a {{ .x ", Syntax, 2, "has no end"),
        ("{{ if .x }}a", Syntax, 0, "has no {{ end }}"),
        ("a{{ end }}", Syntax, 1, "no matching"),
        ("{{ else }}", Syntax, 0, "no matching"),
        ("{{ shout .x }}", Undefined, 3, "function \"shout\" is not defined"),
        ("{{ clusterId }}", Undefined, 3, "such as .clusterId"),
        ("{{ lower }}", Syntax, 3, "lower takes 1 arguments, and gets 0"),
        ("{{ .a .b }}", Syntax, 3, "only functions take arguments"),
        ("{{ $x }}", Undefined, 3, "variable $x is not defined"),
        ("{{ (lower .x }}", Syntax, 3, "not closed"),
        ("{{ \"abc }}", Syntax, 0, "has no end"),
        ("{{ define \"x\" }}", Syntax, 0, "not supported"),
        ("{{ }}{{ | lower }}", Syntax, 5, "empty"),
        ("{{ .x ? 1 }}", Syntax, 6, "unexpected '?'"),
    ] {
        let error = Template::compile(text).expect_err(text);
        assert_eq!((error.kind, error.offset), (kind, offset), "{text}: {error}");
        assert!(error.message.contains(message), "{text}: {error}");
    }
}

#[test]
fn missing_values_and_wrong_types_are_errors_at_rendering() {
    for (text, offset, message) in [
        ("{{ .nope }}", 3, ".nope has no value; known here: clusterId"),
        ("{{ .nested.nope.name }}", 3, ".nested.nope has no value"),
        ("{{ .clusterId.x }}", 3, "its parent is a string"),
        ("{{ .none }}", 3, "the value is null"),
        ("{{ range .count }}x{{ end }}", 9, "range takes a list or a map"),
        ("{{ lt .count \"a\" }}", 3, "a number and a string"),
        ("{{ lower .list }}", 3, "must be a string, and it is a list"),
        ("{{ index .list 7 }}", 3, "index \"7\" does not exist"),
        ("{{ \"soon\" | date \"2006\" }}", 12, "date takes a time"),
    ] {
        let error = Template::compile(text).unwrap().render(&variables(), now()).expect_err(text);
        assert_eq!(error.offset, offset, "{text}: {error}");
        assert!(error.message.contains(message), "{text}: {error}");
    }
}

#[test]
fn output_and_steps_are_limited() {
    let long = json!({"list": vec![0; 2000], "text": "x".repeat(600_000)});
    for (text, message) in [
        ("{{ .text }}{{ .text }}", "more than 1048576 bytes"),
        ("{{ range .list }}{{ range $.list }}.{{ end }}{{ end }}", "more than 100000 steps"),
    ] {
        let error = Template::compile(text).unwrap().render(&long, now()).expect_err(text);
        assert!(error.kind == TemplateErrorKind::Limit && error.message.contains(message), "{error}");
    }
    let deep = format!("{}{}", "{{ if .x }}".repeat(40), "{{ end }}".repeat(40));
    assert_eq!(Template::compile(&deep).unwrap_err().kind, TemplateErrorKind::Limit);
}

#[test]
fn variables_are_those_of_the_outermost_dot() {
    let template = Template::compile(
        "{{ .a.b }}{{ range .list }}{{ .inner }}{{ $.c }}{{ else }}{{ .d }}{{ end }}{{ lower (print .e) }}{{ with .f }}{{ . }}{{ end }}",
    );
    let names: Vec<String> = template.unwrap().variables().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["a", "list", "c", "d", "e", "f"]);
}

#[test]
fn times_are_formatted_by_go_layouts() {
    for (layout, expected) in [
        ("2006-01-02T15:04:05Z07:00", "2026-03-04T05:06:07Z"),
        ("2006-01-02T15:04:05.000Z07:00", "2026-03-04T05:06:07.089Z"),
        ("2006-01-02T15:04:05.999999999Z07:00", "2026-03-04T05:06:07.089Z"),
        ("Mon, 02 Jan 2006 15:04:05 MST", "Wed, 04 Mar 2026 05:06:07 UTC"),
        ("Monday January 2 03:04PM -0700", "Wednesday March 4 05:06AM +0000"),
        ("20060102", "20260304"),
        ("06/1/2", "26/3/4"),
    ] {
        assert_eq!(format_time(now(), layout), expected, "{layout}");
    }
}

proptest::proptest! {
    #[test]
    fn any_text_compiles_or_is_rejected_without_a_panic(text in ".{0,80}|(\\{\\{|\\}\\}|-|if|end|range|else|\\$x|:=|\\.a|\\(|\\)|\"|\\|| ){0,20}") {
        if let Ok(template) = Template::compile(&text) {
            let _ = template.render(&variables(), now());
        }
    }
}
