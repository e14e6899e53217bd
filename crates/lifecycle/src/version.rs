//! Versions of an add-on: which exist, which is the default, and which of two is later. A version is a name; versions that
//! look like numbers are ordered by them (`spec/lifecycle.md`, A1, A4, A27).

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bellwether_api::addon::{AddOnTemplate, vocabulary};
use jiff::Timestamp;
use kube::ResourceExt as _;

/// How long the version of a template may be: it becomes the value of a label.
const MAX_LABEL_BYTES: usize = 63;

/// The name of a version; never empty. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(Arc<str>);

impl Version {
    /// A version as a field has it; `None` where the field is empty. A user may request any name.
    pub fn new(field: &str) -> Option<Self> {
        (!field.is_empty()).then(|| Self(field.into()))
    }

    /// The version of a template; `None` where the text cannot be the value of a label.
    pub fn of_template(text: &str) -> Option<Self> {
        let alphanumeric = |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_alphanumeric());
        let inside = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
        let fits = text.len() <= MAX_LABEL_BYTES && text.chars().all(inside);
        (fits && alphanumeric(text.chars().next()) && alphanumeric(text.chars().next_back()))
            .then(|| Self(text.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its numbers, if it has the form of a semantic version: one to three numbers, optionally after a `v`.
    fn numbers(&self) -> Option<semver::Version> {
        numbers(&self.0)
    }

    fn is_prerelease(&self) -> bool {
        self.numbers().is_none_or(|numbers| !numbers.pre.is_empty())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn numbers(text: &str) -> Option<semver::Version> {
    let text = text.strip_prefix(['v', 'V']).unwrap_or(text);
    let end = text.find(['-', '+']).unwrap_or(text.len());
    let (core, rest) = text.split_at(end);
    let missing = match core.split('.').count() {
        1 => ".0.0",
        2 => ".0",
        _ => "",
    };
    semver::Version::parse(&format!("{core}{missing}{rest}")).ok()
}

/// Orders by numbers; versions without numbers come last, by name.
fn in_order(one: &Version, other: &Version) -> Ordering {
    match (one.numbers(), other.numbers()) {
        (Some(one_numbers), Some(other_numbers)) => {
            one_numbers.cmp_precedence(&other_numbers).then_with(|| one.0.cmp(&other.0))
        }
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => one.0.cmp(&other.0),
    }
}

/// The versions of an add-on, from its templates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalogue {
    /// In ascending order.
    supported: Vec<Version>,
    default: Option<Version>,
    /// The name of the template of each version.
    templates: BTreeMap<Version, String>,
    conflicts: Vec<Conflict>,
}

/// Several templates for one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The version.
    pub version: Version,
    /// The template that is used: the oldest one.
    pub used: String,
    /// The others.
    pub ignored: Vec<String>,
}

impl Catalogue {
    /// The versions of an add-on, from the templates of all add-ons. A requested default is used if such a version exists.
    pub fn of<'a>(
        addon: &str,
        templates: impl IntoIterator<Item = &'a AddOnTemplate>,
        requested_default: Option<&str>,
    ) -> Self {
        let mut by_version: BTreeMap<Version, Vec<(Option<Timestamp>, String)>> = BTreeMap::new();
        for template in templates.into_iter().filter(|template| template.spec.addon_name == addon) {
            let Some(version) = version_of(template) else { continue };
            let created = template.metadata.creation_timestamp.as_ref().map(|time| time.0);
            by_version.entry(version).or_default().push((created, template.name_any()));
        }
        let mut catalogue = Self::default();
        for (version, mut candidates) in by_version {
            candidates.sort();
            let mut names = candidates.into_iter().map(|(_, name)| name);
            let Some(used) = names.next() else { continue };
            let ignored: Vec<String> = names.collect();
            if !ignored.is_empty() {
                let used = used.clone();
                catalogue.conflicts.push(Conflict { version: version.clone(), used, ignored });
            }
            catalogue.templates.insert(version.clone(), used);
            catalogue.supported.push(version);
        }
        catalogue.supported.sort_by(in_order);
        catalogue.default = catalogue.choose_default(requested_default);
        catalogue
    }

    /// The requested version, otherwise the highest release, otherwise the highest pre-release.
    fn choose_default(&self, requested: Option<&str>) -> Option<Version> {
        let requested =
            requested.and_then(|name| self.supported.iter().find(|version| version.as_str() == name));
        let released = || self.supported.iter().rev().find(|version| !version.is_prerelease());
        requested.or_else(released).or_else(|| self.supported.last()).cloned()
    }

    /// The versions in ascending order.
    pub fn supported(&self) -> &[Version] {
        &self.supported
    }

    /// The version where none is requested.
    pub fn default_version(&self) -> Option<&Version> {
        self.default.as_ref()
    }

    /// The template of a version.
    pub fn template(&self, version: &Version) -> Option<&str> {
        self.templates.get(version).map(String::as_str)
    }

    /// Whether such a version exists.
    pub fn supports(&self, version: &Version) -> bool {
        self.templates.contains_key(version)
    }

    /// The versions of several templates.
    pub fn conflicts(&self) -> &[Conflict] {
        &self.conflicts
    }

    /// Which of two versions is later, also of versions that do not exist (any more); `None` where they cannot be compared.
    pub fn compare(&self, one: &Version, other: &Version) -> Option<Ordering> {
        compare(self.supported.iter().map(Version::as_str), one.as_str(), other.as_str())
    }
}

/// Which of two versions is later, by a list in ascending order, otherwise by their numbers; `None` where they cannot be
/// compared.
pub fn compare<'a>(supported: impl IntoIterator<Item = &'a str>, one: &str, other: &str) -> Option<Ordering> {
    let (mut first, mut second) = (None, None);
    for (place, name) in supported.into_iter().enumerate() {
        first = first.or_else(|| (name == one).then_some(place));
        second = second.or_else(|| (name == other).then_some(place));
    }
    match (first, second) {
        (Some(first), Some(second)) => Some(first.cmp(&second)),
        _ => Some(numbers(one)?.cmp_precedence(&numbers(other)?)),
    }
}

/// The version of a template, in its spec or its label.
fn version_of(template: &AddOnTemplate) -> Option<Version> {
    let label = || template.labels().get(vocabulary::VERSION_LABEL).map(String::as_str);
    Version::of_template(template.spec.version.as_deref().or_else(label)?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn template(name: &str, addon: &str, version: Option<&str>, created: &str) -> AddOnTemplate {
        serde_json::from_value(json!({
            "metadata": {"name": name, "creationTimestamp": created},
            "spec": {"addonName": addon, "version": version, "agentSpec": {}},
        }))
        .unwrap()
    }

    fn catalogue(versions: &[&str], asked: Option<&str>) -> Catalogue {
        let templates: Vec<AddOnTemplate> = versions
            .iter()
            .map(|version| {
                template(&format!("hello-{version}"), "hello", Some(version), "2024-05-01T10:00:00Z")
            })
            .collect();
        Catalogue::of("hello", &templates, asked)
    }

    fn version(name: &str) -> Version {
        Version::new(name).unwrap()
    }

    fn names(catalogue: &Catalogue) -> Vec<&str> {
        catalogue.supported().iter().map(Version::as_str).collect()
    }

    #[test]
    fn version_of_a_template_is_a_label_value() {
        for good in ["v1", "1.2.3", "v1.0.0-rc.1", "2024-05", "a_b.c", "x"] {
            assert_eq!(Version::of_template(good).as_ref().map(Version::as_str), Some(good));
        }
        for bad in ["", "-v1", "v1-", "v 1", "v1/2", "größer", "1+2", &"x".repeat(64)] {
            assert_eq!(Version::of_template(bad), None, "{bad}");
        }
    }

    #[test]
    fn versions_are_ordered_by_number_and_names_without_numbers_come_last() {
        let found = catalogue(&["stable", "v10", "v9", "1.0.0-rc.1", "v1", "1.0.1", "edge", "v2.3"], None);
        assert_eq!(names(&found), ["1.0.0-rc.1", "v1", "1.0.1", "v2.3", "v9", "v10", "edge", "stable"]);
    }

    #[test]
    fn default_is_the_highest_release_unless_another_is_requested() {
        let rows: [(&[&str], Option<&str>, Option<&str>); 7] = [
            (&["v1", "v2", "v3-rc.1"], None, Some("v2")),
            (&["v1", "v2"], Some("v1"), Some("v1")),
            (&["v1", "v2"], Some("v7"), Some("v2")),
            (&["v1", "v2", "edge"], None, Some("v2")),
            (&["v1-rc.1", "v1-rc.2"], None, Some("v1-rc.2")),
            (&["edge"], None, Some("edge")),
            (&[], Some("v1"), None),
        ];
        for (versions, asked, wanted) in rows {
            let found = catalogue(versions, asked);
            assert_eq!(found.default_version().map(Version::as_str), wanted, "{versions:?} {asked:?}");
        }
    }

    #[test]
    fn versions_are_compared_by_number_also_where_they_do_not_exist() {
        use Ordering::{Equal, Greater, Less};
        let known = catalogue(&["v1", "v2", "edge", "stable"], None);
        let rows = [
            ("v1", "v2", Some(Less)),
            ("v2", "v1", Some(Greater)),
            ("v1", "v3", Some(Less)),
            ("v1", "v0", Some(Greater)),
            ("edge", "stable", Some(Less)),
            ("v2", "edge", Some(Less)),
            ("1.0", "v1.0.0", Some(Equal)),
            ("v1", "1.0.0", Some(Equal)),
            ("v9", "v10", Some(Less)),
            ("v1.0.0-rc.1", "v1", Some(Less)),
            ("edge", "v3", None),
            ("nightly", "v3", None),
        ];
        for (one, other, wanted) in rows {
            assert_eq!(known.compare(&version(one), &version(other)), wanted, "{one} {other}");
        }
    }

    #[test]
    fn oldest_template_of_a_version_is_used_and_then_the_first_by_name() {
        let templates = [
            template("late", "hello", Some("v1"), "2024-05-02T10:00:00Z"),
            template("b", "hello", Some("v1"), "2024-05-01T10:00:00Z"),
            template("a", "hello", Some("v1"), "2024-05-01T10:00:00Z"),
            template("other", "another", Some("v9"), "2024-05-01T10:00:00Z"),
        ];
        let found = Catalogue::of("hello", &templates, None);
        assert_eq!(found.template(&version("v1")), Some("a"));
        assert!(!found.supports(&version("v9")), "it belongs to another add-on");
        let [conflict] = found.conflicts() else { panic!("{:?}", found.conflicts()) };
        assert_eq!((conflict.used.as_str(), conflict.ignored.len()), ("a", 2));
    }

    #[test]
    fn version_of_a_template_is_in_its_spec_or_its_label() {
        let mut labelled = template("labelled", "hello", None, "2024-05-01T10:00:00Z");
        labelled.labels_mut().insert(vocabulary::VERSION_LABEL.to_owned(), "v3".to_owned());
        let silent = template("silent", "hello", None, "2024-05-01T10:00:00Z");
        let found = Catalogue::of("hello", [&labelled, &silent], None);
        assert_eq!(names(&found), ["v3"]);
    }

    proptest! {
        #[test]
        fn order_of_the_list_agrees_with_the_numbers(
            versions in proptest::collection::hash_set("v?[0-9]{1,2}(\\.[0-9]{1,2}){0,2}(-rc\\.[0-9])?|[a-z]{1,4}", 2..8),
        ) {
            let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
            let found = catalogue(&versions, None);
            for pair in found.supported().windows(2) {
                let [one, other] = pair else { continue };
                if let (Some(one), Some(other)) = (one.numbers(), other.numbers()) {
                    prop_assert_ne!(one.cmp_precedence(&other), Ordering::Greater);
                }
            }
        }

        #[test]
        fn any_text_can_be_parsed(text in any::<String>()) {
            let _ = Version::of_template(&text);
            let _ = numbers(&text);
        }
    }
}
