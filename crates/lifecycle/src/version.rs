//! Versions of an add-on: which there are, which is the default, and which of two comes later. A version is a name first;
//! that most are numbers is what orders them (`spec/lifecycle.md`, A1, A4, A27).

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use bellwether_api::addon::{AddOnTemplate, vocabulary};
use jiff::Timestamp;
use kube::ResourceExt as _;

/// How long a version may be: it becomes the value of a label.
const LONGEST: usize = 63;

/// The name of a version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version(String);

impl Version {
    /// Reads a name; nothing, if it could be no version.
    pub fn read(text: &str) -> Option<Self> {
        let alphanumeric = |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_alphanumeric());
        let inside = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
        let fits = text.len() <= LONGEST && text.chars().all(inside);
        (fits && alphanumeric(text.chars().next()) && alphanumeric(text.chars().next_back()))
            .then(|| Self(text.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The numbers in it, if it has the form of a semantic version: one to three numbers, perhaps after a `v`.
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

/// By their numbers; versions without any come after all that have them, by name.
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

/// The versions of an add-on, as its templates make them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalogue {
    /// The lowest first.
    supported: Vec<Version>,
    default: Option<Version>,
    /// The names of the templates, by version.
    templates: BTreeMap<String, String>,
    conflicts: Vec<Conflict>,
}

/// Several templates for one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The version.
    pub version: Version,
    /// The template that counts: the oldest.
    pub counts: String,
    /// Those that do not.
    pub ignored: Vec<String>,
}

impl Catalogue {
    /// Of an add-on, from all templates that there are. A default that somebody asks for counts if there is such a version.
    pub fn of<'a>(
        addon: &str,
        templates: impl IntoIterator<Item = &'a AddOnTemplate>,
        asked_default: Option<&str>,
    ) -> Self {
        let mut by_version: BTreeMap<String, Vec<(Option<Timestamp>, String)>> = BTreeMap::new();
        for template in templates.into_iter().filter(|template| template.spec.addon_name == addon) {
            let Some(version) = version_of(template) else { continue };
            let created = template.metadata.creation_timestamp.as_ref().map(|time| time.0);
            by_version.entry(version.0).or_default().push((created, template.name_any()));
        }
        let mut catalogue = Self::default();
        for (version, mut candidates) in by_version {
            candidates.sort();
            let mut names = candidates.into_iter().map(|(_, name)| name);
            let Some(counts) = names.next() else { continue };
            let ignored: Vec<String> = names.collect();
            let version = Version(version);
            if !ignored.is_empty() {
                let counts = counts.clone();
                catalogue.conflicts.push(Conflict { version: version.clone(), counts, ignored });
            }
            catalogue.templates.insert(version.0.clone(), counts);
            catalogue.supported.push(version);
        }
        catalogue.supported.sort_by(in_order);
        catalogue.default = catalogue.choose_default(asked_default);
        catalogue
    }

    /// What is asked for, else the highest that is no pre-release, else the highest of all.
    fn choose_default(&self, asked: Option<&str>) -> Option<Version> {
        let asked = asked.and_then(|asked| self.supported.iter().find(|version| version.0 == asked));
        let released = || self.supported.iter().rev().find(|version| !version.is_prerelease());
        asked.or_else(released).or_else(|| self.supported.last()).cloned()
    }

    /// The versions, the lowest first.
    pub fn supported(&self) -> &[Version] {
        &self.supported
    }

    /// The version where nobody asks for one.
    pub fn default_version(&self) -> Option<&Version> {
        self.default.as_ref()
    }

    /// The template of a version.
    pub fn template(&self, version: &str) -> Option<&str> {
        self.templates.get(version).map(String::as_str)
    }

    /// Whether there is such a version.
    pub fn supports(&self, version: &str) -> bool {
        self.templates.contains_key(version)
    }

    /// Versions that several templates claim.
    pub fn conflicts(&self) -> &[Conflict] {
        &self.conflicts
    }

    /// Which of two versions comes first, also where there is no such version (any more); nothing, where that cannot be
    /// told.
    pub fn compare(&self, one: &str, other: &str) -> Option<Ordering> {
        compare(self.supported.iter().map(Version::as_str), one, other)
    }
}

/// Which of two versions comes first, by a list that has the lowest first, or else by their numbers; nothing, where that
/// cannot be told.
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

/// What a template says, or its label.
fn version_of(template: &AddOnTemplate) -> Option<Version> {
    let label = || template.labels().get(vocabulary::VERSION_LABEL).map(String::as_str);
    Version::read(template.spec.version.as_deref().or_else(label)?)
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

    fn names(catalogue: &Catalogue) -> Vec<&str> {
        catalogue.supported().iter().map(Version::as_str).collect()
    }

    #[test]
    fn a_version_is_what_a_label_can_hold() {
        for good in ["v1", "1.2.3", "v1.0.0-rc.1", "2024-05", "a_b.c", "x"] {
            assert_eq!(Version::read(good).map(|version| version.0), Some(good.to_owned()));
        }
        for bad in ["", "-v1", "v1-", "v 1", "v1/2", "größer", "1+2", &"x".repeat(64)] {
            assert_eq!(Version::read(bad), None, "{bad}");
        }
    }

    #[test]
    fn versions_are_published_in_the_order_of_their_numbers_and_names_without_numbers_last() {
        let found = catalogue(&["stable", "v10", "v9", "1.0.0-rc.1", "v1", "1.0.1", "edge", "v2.3"], None);
        assert_eq!(names(&found), ["1.0.0-rc.1", "v1", "1.0.1", "v2.3", "v9", "v10", "edge", "stable"]);
    }

    #[test]
    fn the_default_is_the_highest_release_unless_somebody_asks_for_another() {
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
    fn of_two_versions_the_numbers_decide_also_where_there_is_no_such_version() {
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
            assert_eq!(known.compare(one, other), wanted, "{one} {other}");
        }
    }

    #[test]
    fn of_several_templates_for_one_version_the_oldest_counts_and_then_the_first_by_name() {
        let templates = [
            template("late", "hello", Some("v1"), "2024-05-02T10:00:00Z"),
            template("b", "hello", Some("v1"), "2024-05-01T10:00:00Z"),
            template("a", "hello", Some("v1"), "2024-05-01T10:00:00Z"),
            template("other", "another", Some("v9"), "2024-05-01T10:00:00Z"),
        ];
        let found = Catalogue::of("hello", &templates, None);
        assert_eq!(found.template("v1"), Some("a"));
        assert!(!found.supports("v9"), "it is another add-on's");
        let [conflict] = found.conflicts() else { panic!("{:?}", found.conflicts()) };
        assert_eq!((conflict.counts.as_str(), conflict.ignored.len()), ("a", 2));
    }

    #[test]
    fn a_template_says_its_version_or_has_it_as_a_label() {
        let mut labelled = template("labelled", "hello", None, "2024-05-01T10:00:00Z");
        labelled.labels_mut().insert(vocabulary::VERSION_LABEL.to_owned(), "v3".to_owned());
        let silent = template("silent", "hello", None, "2024-05-01T10:00:00Z");
        let found = Catalogue::of("hello", [&labelled, &silent], None);
        assert_eq!(names(&found), ["v3"]);
    }

    proptest! {
        #[test]
        fn the_order_of_the_list_and_that_of_the_numbers_agree(
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
        fn no_text_is_too_odd_to_be_read(text in any::<String>()) {
            let _ = Version::read(&text);
            let _ = numbers(&text);
        }
    }
}
