//! Where our answers differ from Kubernetes' on purpose. Each has a row with its reason in `docs/apiserver.md`.

use serde_json::Value;

/// A rule for answers that may differ.
pub(crate) struct Exception {
    /// The row in the table of differences.
    pub(crate) name: &'static str,
    covers: fn(about: &str, theirs: &Value, ours: &Value) -> bool,
}

impl Exception {
    /// All of them.
    pub(crate) const ALL: [Self; 10] = [
        Self { name: "ParserWords", covers: patterns_have_other_words },
        Self { name: "ParserWords", covers: odd_characters_are_quoted_otherwise },
        Self { name: "MistakenIdentity", covers: other_kinds_are_looked_at_no_further },
        Self { name: "UnknownTypes", covers: unknown_types_end_the_matter },
        Self { name: "NoConversionWebhooks", covers: webhooks_are_refused },
        Self { name: "ClientMistakes", covers: strategic_patches_that_make_no_sense },
        Self { name: "ClientMistakes", covers: applied_objects_that_are_not_of_their_type },
        Self { name: "ScaleOfCustomKinds", covers: scales_of_custom_kinds_can_be_applied },
        Self { name: "NoClusterIps", covers: services_get_no_addresses },
        Self { name: "ContentWarnings", covers: pods_are_not_warned_of },
    ];

    /// The rule for a pair of answers, if there is one.
    pub(crate) fn covering(about: &str, theirs: &Value, ours: &Value) -> Option<Self> {
        Self::ALL.into_iter().find(|exception| (exception.covers)(about, theirs, ours))
    }
}

fn causes(answer: &Value) -> &[Value] {
    answer["causes"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Both refuse the same patterns, each in the words of its engine.
fn patterns_have_other_words(_: &str, theirs: &Value, ours: &Value) -> bool {
    let said = |answer: &Value| -> Vec<String> {
        let words = |cause: &Value| {
            let text = cause.to_string();
            let cut = text.find("but isn't: ").unwrap_or(text.len());
            format!("{} {}", cause["reason"], &text[..cut])
        };
        let mut said: Vec<String> = causes(answer).iter().map(words).collect();
        said.sort();
        said
    };
    let about_patterns = causes(theirs).iter().any(|cause| cause.to_string().contains("but isn't: "));
    about_patterns && theirs["code"] == ours["code"] && said(theirs) == said(ours)
}

/// Characters that cannot be seen are escaped by Kubernetes where it quotes them.
fn odd_characters_are_quoted_otherwise(_: &str, theirs: &Value, ours: &Value) -> bool {
    let plain = |answer: &Value| {
        let mut causes: Vec<String> =
            causes(answer).iter().map(|cause| cause.to_string().replace(r"\\u00a0", "\u{a0}")).collect();
        causes.sort();
        causes
    };
    theirs["code"] == ours["code"] && !causes(theirs).is_empty() && plain(theirs) == plain(ours)
}

/// An object that claims to be of another kind or version is refused by both; Kubernetes may rather name its fields.
fn other_kinds_are_looked_at_no_further(_: &str, theirs: &Value, ours: &Value) -> bool {
    let refused = |answer: &Value| answer["code"] == 400 || answer["code"] == 422;
    let message = ours["body"]["message"].as_str().unwrap_or_default();
    let of_another_kind = matches!(causes(ours), [only] if only["field"] == "kind");
    refused(theirs)
        && refused(ours)
        && (of_another_kind || message.contains("does not match the expected API version"))
}

/// A type that is none is refused by both; Kubernetes goes on to validate defaults as if it were one.
fn unknown_types_end_the_matter(_: &str, theirs: &Value, ours: &Value) -> bool {
    let named = |answer: &Value| {
        let is_type = |cause: &&Value| {
            cause["reason"] == "FieldValueNotSupported"
                && cause["field"].as_str().is_some_and(|field| field.ends_with(".type"))
        };
        causes(answer).iter().filter(is_type).cloned().collect::<Vec<Value>>()
    };
    theirs["code"] == ours["code"] && !named(theirs).is_empty() && named(theirs) == named(ours)
}

/// Conversion by webhook is not served.
fn webhooks_are_refused(_: &str, theirs: &Value, ours: &Value) -> bool {
    theirs["code"] == 201 && matches!(causes(ours), [only] if only["field"] == "spec.conversion.strategy")
}

/// A patch that makes no sense is the client's mistake.
fn strategic_patches_that_make_no_sense(about: &str, theirs: &Value, ours: &Value) -> bool {
    about.starts_with("strategic") && theirs["code"] == 500 && ours["code"] == 400
}

/// What is applied and is not of its type is the client's mistake; the words are the same.
fn applied_objects_that_are_not_of_their_type(about: &str, theirs: &Value, ours: &Value) -> bool {
    about.starts_with("applies")
        && theirs["code"] == 500
        && ours["code"] == 400
        && theirs["body"]["message"] == ours["body"]["message"]
}

/// Kubernetes tries to convert the Scale as if it were an object of the custom kind.
fn scales_of_custom_kinds_can_be_applied(_: &str, theirs: &Value, _: &Value) -> bool {
    let message = theirs["body"]["message"].as_str().unwrap_or_default();
    theirs["code"] == 500
        && message.contains("request to convert CR to an invalid group/version: autoscaling/v1")
}

/// But for the addresses of a Service, and what is warned of, the answer is the same.
fn services_get_no_addresses(about: &str, theirs: &Value, ours: &Value) -> bool {
    let without = |answer: &Value| {
        let mut answer = answer.clone();
        answer["warnings"] = Value::Null;
        if let Some(Value::Object(spec)) = answer.pointer_mut("/body/spec") {
            spec.retain(|key, _| {
                !["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"].contains(&key.as_str())
            });
        }
        answer
    };
    about.starts_with("applies") && theirs["body"]["kind"] == "Service" && without(theirs) == without(ours)
}

/// But for its warnings the answer is the same.
fn pods_are_not_warned_of(about: &str, theirs: &Value, ours: &Value) -> bool {
    let unwarned = |answer: &Value| {
        let mut answer = answer.clone();
        answer["warnings"] = Value::Null;
        answer
    };
    (about.starts_with("strategic") || about.starts_with("applies")) && unwarned(theirs) == unwarned(ours)
}

#[test]
fn every_exception_is_documented() {
    let page = include_str!("../../../../docs/apiserver.md");
    for exception in Exception::ALL {
        let row = format!("| `{}` |", exception.name);
        assert!(page.contains(&row), "docs/apiserver.md has no row {row}");
    }
}
