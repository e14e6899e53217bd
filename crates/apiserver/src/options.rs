//! The options of a request, read from its query (and, for deletes, its body) and checked as Kubernetes checks
//! them: contradictions are a 422 on the options' own kind, unreadable values a 400.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::field::FieldError;
use crate::request::Query;
use crate::shape::BUILTINS;
use crate::status::{Answer, Refusal};

/// How long a request that is no watch may take, when it does not ask for less.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The longest time that a watch can ask for.
const LONGEST_WATCH: Duration = Duration::from_secs(24 * 3600);

/// Whether a write is kept or only tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Keep,
    DryRun,
}

/// The options of create, update and patch.
#[derive(Clone, Debug)]
pub(crate) struct WriteOptions {
    pub(crate) effect: Effect,
    pub(crate) validation: FieldValidation,
    /// Who writes, if the client says so.
    pub(crate) field_manager: Option<String>,
    /// An apply takes what others own.
    pub(crate) force: bool,
}

/// What happens to fields that the schema does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// The write that the options belong to; each has its own kind of options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteVerb {
    Create,
    Update,
    Patch,
    Apply,
}

impl WriteOptions {
    /// Reads and checks the options of a write.
    pub(crate) fn read(query: &Query, verb: WriteVerb) -> Answer<Self> {
        let mut errors = Vec::new();
        if verb == WriteVerb::Patch && query.get("force").is_some() {
            errors.push(FieldError::forbidden("force", "may not be specified for non-apply patch"));
        }
        let field_manager = query.filled("fieldManager").map(str::to_owned);
        match &field_manager {
            Some(manager) => check_field_manager(manager, "fieldManager", &mut errors),
            None if verb == WriteVerb::Apply => {
                errors.push(FieldError::required("fieldManager", "is required for apply patch"));
            }
            None => {}
        }
        let effect = read_dry_run(query.all("dryRun"), &mut errors);
        let validation = match query.filled("fieldValidation") {
            None | Some("Warn") => FieldValidation::Warn,
            Some("Ignore") => FieldValidation::Ignore,
            Some("Strict") => FieldValidation::Strict,
            Some(other) => {
                let supported = ["", "Ignore", "Strict", "Warn"];
                errors.push(FieldError::not_supported("fieldValidation", other, &supported));
                FieldValidation::Strict
            }
        };
        if errors.is_empty() {
            let force = query.switch("force").unwrap_or(false);
            return Ok(Self { effect, validation, field_manager, force });
        }
        let kind = match verb {
            WriteVerb::Create => "CreateOptions",
            WriteVerb::Update => "UpdateOptions",
            WriteVerb::Patch | WriteVerb::Apply => "PatchOptions",
        };
        Err(Refusal::invalid_options(kind, &errors))
    }
}

impl WriteOptions {
    /// Who writes: whom the client names, else what it calls itself, up to the first slash.
    pub(crate) fn manager(&self, user_agent: &str) -> String {
        if let Some(manager) = &self.field_manager {
            return manager.clone();
        }
        let mut manager = String::new();
        for c in user_agent.chars().take_while(|c| *c != '/').filter(|c| !c.is_control()) {
            if manager.len() + c.len_utf8() > LONGEST_MANAGER {
                break;
            }
            manager.push(c);
        }
        manager
    }
}

/// The longest name of a manager.
pub(crate) const LONGEST_MANAGER: usize = 128;

/// What is wrong with the name of a manager.
pub(crate) fn check_field_manager(manager: &str, field: &str, errors: &mut Vec<FieldError>) {
    if manager.len() > LONGEST_MANAGER {
        errors.push(FieldError::too_long(field, LONGEST_MANAGER));
    }
    if let Some((at, odd)) = manager.char_indices().find(|(_, c)| c.is_control()) {
        let detail = format!("invalid character U+{:04X} (at position {at})", odd as u32);
        errors.push(FieldError::invalid(field, manager, detail));
    }
}

fn read_dry_run<'a>(values: impl Iterator<Item = &'a str>, errors: &mut Vec<FieldError>) -> Effect {
    let values: Vec<&str> = values.filter(|value| !value.is_empty()).collect();
    if values.iter().any(|value| *value != "All") {
        let value = Value::from(values.iter().map(|value| Value::from(*value)).collect::<Vec<_>>());
        errors.push(FieldError::not_supported("dryRun", value, &["All"]));
    }
    if values.is_empty() { Effect::Keep } else { Effect::DryRun }
}

/// What becomes of the objects that a deleted one owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// What must hold for a delete to go ahead.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Preconditions {
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
}

/// The options of delete and deletecollection.
#[derive(Clone, Debug)]
pub(crate) struct DeleteOptions {
    pub(crate) effect: Effect,
    /// `None`: what the object's own finalizers say, else in the background.
    pub(crate) propagation: Option<Propagation>,
    pub(crate) preconditions: Preconditions,
    /// The legacy way to ask for `Background` answers 202 while the object is still there.
    pub(crate) legacy_cascade: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeleteBody {
    #[serde(default)]
    dry_run: Vec<String>,
    propagation_policy: Option<String>,
    orphan_dependents: Option<bool>,
    preconditions: Option<Preconditions>,
    #[serde(rename = "gracePeriodSeconds")]
    _grace_period_seconds: Option<i64>,
}

impl DeleteOptions {
    /// Deletes at once, with everything below it.
    pub(crate) fn plain() -> Self {
        Self {
            effect: Effect::Keep,
            propagation: Some(Propagation::Background),
            preconditions: Preconditions::default(),
            legacy_cascade: false,
        }
    }

    /// Reads the options from the body when there is one, else from the query.
    pub(crate) fn read(query: &Query, body: Option<Value>) -> Answer<Self> {
        let asked = match body {
            Some(body) => Self::read_body(body)?,
            None => DeleteBody {
                dry_run: query.all("dryRun").map(str::to_owned).collect(),
                propagation_policy: query.filled("propagationPolicy").map(str::to_owned),
                orphan_dependents: query.switch("orphanDependents"),
                preconditions: None,
                _grace_period_seconds: query.number("gracePeriodSeconds").map_err(Refusal::bad_request)?,
            },
        };
        Self::check(asked)
    }

    fn read_body(body: Value) -> Answer<DeleteBody> {
        let Value::Object(body) = body else {
            return Err(Refusal::bad_request("couldn't get version/kind; the body is no object"));
        };
        let text = |key: &str| body.get(key).and_then(Value::as_str).unwrap_or_default();
        if !matches!(text("kind"), "" | "DeleteOptions") {
            return Err(Refusal::bad_request(format!(
                "no kind {:?} is registered for version {:?}",
                text("kind"),
                text("apiVersion")
            )));
        }
        let conformed = BUILTINS.conform("meta/v1.DeleteOptions", body).map_err(Refusal::bad_request)?;
        serde_json::from_value(conformed.object.into())
            .map_err(|error| Refusal::bad_request(error.to_string()))
    }

    fn check(asked: DeleteBody) -> Answer<Self> {
        let mut errors = Vec::new();
        if let (Some(_), Some(policy)) = (asked.orphan_dependents, &asked.propagation_policy) {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(FieldError::invalid("propagationPolicy", policy.as_str(), detail));
        }
        let propagation = match (asked.propagation_policy.as_deref(), asked.orphan_dependents) {
            (Some("Background"), _) => Some(Propagation::Background),
            (Some("Foreground"), _) => Some(Propagation::Foreground),
            (Some("Orphan"), _) => Some(Propagation::Orphan),
            (Some(other), _) => {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                errors.push(FieldError::not_supported("propagationPolicy", other, &supported));
                None
            }
            (None, Some(true)) => Some(Propagation::Orphan),
            (None, Some(false)) => Some(Propagation::Background),
            (None, None) => None,
        };
        let effect = read_dry_run(asked.dry_run.iter().map(String::as_str), &mut errors);
        if !errors.is_empty() {
            return Err(Refusal::invalid_options("DeleteOptions", &errors));
        }
        Ok(Self {
            effect,
            propagation,
            preconditions: asked.preconditions.unwrap_or_default(),
            legacy_cascade: asked.orphan_dependents == Some(false),
        })
    }
}

/// Which revision a list, get or watch is to reflect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// The newest.
    Newest,
    /// Anything that is at hand.
    Any,
    /// At least this one.
    NotOlderThan(u64),
    /// Exactly this one.
    Exactly(u64),
}

/// The options of list, watch and deletecollection.
#[derive(Clone, Debug)]
pub(crate) struct ListOptions {
    pub(crate) watch: bool,
    pub(crate) at: At,
    pub(crate) limit: usize,
    pub(crate) continue_token: Option<String>,
    pub(crate) label_selector: Option<String>,
    pub(crate) field_selector: Option<String>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) bookmarks: bool,
    pub(crate) send_initial_events: Option<bool>,
}

impl ListOptions {
    /// Reads and checks the options of a list or watch.
    pub(crate) fn read(query: &Query) -> Answer<Self> {
        let watch = query.switch("watch").unwrap_or(false);
        let send_initial_events = query.switch("sendInitialEvents");
        let matching = query.filled("resourceVersionMatch");
        let continue_token = query.filled("continue").map(str::to_owned);
        let asked_revision = query.filled("resourceVersion");
        check_match(watch, matching, asked_revision, continue_token.is_some(), send_initial_events)?;

        let revision = asked_revision.map(parse_revision).transpose().map_err(|refusal| match watch {
            true => refusal,
            false => Refusal::bad_request(format!("invalid resource version: {}", refusal.message())),
        })?;
        let limit = query.number("limit").map_err(Refusal::bad_request)?.unwrap_or(0);
        let limit = usize::try_from(limit).unwrap_or(0);
        let at = match (revision, matching) {
            (None, _) => At::Newest,
            (Some(0), _) => At::Any,
            (Some(exact), Some("Exact")) => At::Exactly(exact),
            // Without a match, a limit pins the page to the revision: the rule from before matches existed.
            (Some(exact), None) if limit > 0 && !watch => At::Exactly(exact),
            (Some(least), _) => At::NotOlderThan(least),
        };
        let timeout = query.number("timeoutSeconds").map_err(Refusal::bad_request)?;
        Ok(Self {
            watch,
            at,
            limit,
            continue_token,
            label_selector: query.filled("labelSelector").map(str::to_owned),
            field_selector: query.filled("fieldSelector").map(str::to_owned),
            timeout: timeout
                .and_then(|seconds| u64::try_from(seconds).ok())
                .filter(|seconds| *seconds > 0)
                .map(|seconds| Duration::from_secs(seconds).min(LONGEST_WATCH)),
            bookmarks: query.switch("allowWatchBookmarks").unwrap_or(false),
            send_initial_events,
        })
    }
}

/// Reads a resourceVersion that a client sent.
pub(crate) fn parse_revision(text: &str) -> Answer<u64> {
    text.parse().map_err(|_| {
        Refusal::bad_request(format!(
            "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
        ))
    })
}

fn check_match(
    watch: bool,
    matching: Option<&str>,
    revision: Option<&str>,
    continues: bool,
    send_initial_events: Option<bool>,
) -> Answer<()> {
    const MATCH: &str = "resourceVersionMatch";
    let mut errors = Vec::new();
    let mut forbid = |field, detail: &str| errors.push(FieldError::forbidden(field, detail));
    if watch {
        if send_initial_events.is_some() && matching != Some("NotOlderThan") {
            forbid(MATCH, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
        }
        if matching.is_some() && send_initial_events.is_none() {
            forbid(MATCH, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
        }
        if matching.is_some() && continues {
            forbid(MATCH, "resourceVersionMatch is forbidden when continue is provided");
        }
        if let Some(other) = matching.filter(|other| *other != "NotOlderThan") {
            errors.push(FieldError::not_supported(MATCH, other, &["NotOlderThan"]));
        }
    } else {
        if matching.is_some() && revision.is_none() {
            forbid(MATCH, "resourceVersionMatch is forbidden unless resourceVersion is provided");
        }
        if matching.is_some() && continues {
            forbid(MATCH, "resourceVersionMatch is forbidden when continue is provided");
        }
        if matching == Some("Exact") && revision == Some("0") {
            forbid(MATCH, "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
        }
        if let Some(other) = matching.filter(|other| !["Exact", "NotOlderThan"].contains(other)) {
            errors.push(FieldError::not_supported(MATCH, other, &["Exact", "NotOlderThan", ""]));
        }
        if send_initial_events.is_some() {
            errors
                .push(FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(Refusal::invalid_options("ListOptions", &errors)) }
}

/// Reads `?timeout=`; a watch has `timeoutSeconds` instead.
pub(crate) fn request_timeout(query: &Query) -> Answer<Duration> {
    let Some(text) = query.filled("timeout") else { return Ok(REQUEST_TIMEOUT) };
    let asked = parse_go_duration(text)
        .ok_or_else(|| Refusal::bad_request("invalid timeout specified in the request URL"))?;
    Ok(if asked.is_zero() || asked > REQUEST_TIMEOUT { REQUEST_TIMEOUT } else { asked })
}

/// Durations as Go writes them: `1h15m30.5s`, `300ms`.
fn parse_go_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut total = 0.0_f64;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let amount: f64 = rest.get(..digits)?.parse().ok()?;
        rest = rest.get(digits..)?;
        let unit = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let seconds = match rest.get(..unit)? {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        total += amount * seconds;
        rest = rest.get(unit..)?;
    }
    Duration::try_from_secs_f64(total).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(query: &str) -> Result<At, (u16, String)> {
        ListOptions::read(&Query::parse(Some(query)))
            .map(|options| options.at)
            .map_err(|refusal| (refusal.code(), refusal.message().to_owned()))
    }

    #[test]
    fn the_revision_a_list_reflects_follows_the_table() {
        for (query, expected) in [
            ("", At::Newest),
            ("resourceVersion=0", At::Any),
            ("resourceVersion=7", At::NotOlderThan(7)),
            ("limit=5", At::Newest),
            ("limit=5&resourceVersion=0", At::Any),
            ("limit=5&resourceVersion=7", At::Exactly(7)),
            ("resourceVersion=7&resourceVersionMatch=Exact", At::Exactly(7)),
            ("limit=5&resourceVersion=7&resourceVersionMatch=NotOlderThan", At::NotOlderThan(7)),
            ("resourceVersion=0&resourceVersionMatch=NotOlderThan", At::Any),
        ] {
            assert_eq!(list(query), Ok(expected), "{query}");
        }
    }

    #[test]
    fn contradictions_are_refused_in_kubernetes_words() {
        for (query, code, words) in [
            ("resourceVersion=abc", 400, "invalid syntax"),
            ("resourceVersionMatch=Exact", 422, "forbidden unless resourceVersion is provided"),
            ("resourceVersion=0&resourceVersionMatch=Exact", 422, "\"exact\" is forbidden"),
            ("resourceVersion=1&resourceVersionMatch=Odd", 422, "Unsupported value: \"Odd\""),
            ("sendInitialEvents=true", 422, "sendInitialEvents is forbidden for list"),
            ("watch=1&sendInitialEvents=true", 422, "requires setting resourceVersionMatch"),
            ("watch=1&resourceVersionMatch=NotOlderThan", 422, "forbidden for watch unless"),
            ("limit=many", 400, "strconv.ParseInt"),
        ] {
            let (found, message) = list(query).unwrap_err();
            assert_eq!(found, code, "{query}");
            assert!(message.contains(words), "{query}: {message}");
        }
    }

    #[test]
    fn go_durations_are_read() {
        assert_eq!(parse_go_duration("1m30s"), Some(Duration::from_secs(90)));
        assert_eq!(parse_go_duration("1.5s"), Some(Duration::from_millis(1500)));
        assert_eq!(parse_go_duration("0"), Some(Duration::ZERO));
        for bad in ["", "5", "s", "-1s", "1x", "1s2"] {
            assert_eq!(parse_go_duration(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_timeout_too_long_or_zero_is_the_servers_own() {
        for (query, expected) in [("timeout=5s", 5), ("timeout=0s", 60), ("timeout=10h", 60), ("", 60)] {
            let timeout = request_timeout(&Query::parse(Some(query))).unwrap();
            assert_eq!(timeout, Duration::from_secs(expected), "{query}");
        }
        assert_eq!(request_timeout(&Query::parse(Some("timeout=bad"))).unwrap_err().code(), 400);
    }
}
