//! A YAML file as a tree in which every value knows its place, so that an error in an expression or template can name the
//! line and column in the file.

use std::fmt;
use std::path::{Path, PathBuf};

use bellwether_runtime::yaml;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value as Json};
use serde_saphyr::{Location, Spanned};

use super::error::{ConfigError, ConfigErrors};

/// The largest configuration file.
pub(super) const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// A line and a column, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) line: u64,
    pub(super) column: u64,
}

impl From<Location> for Place {
    fn from(location: Location) -> Self {
        Self { line: location.line(), column: location.column() }
    }
}

/// A value and its place.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) at: Place,
    pub(super) content: Content,
}

#[derive(Clone, Debug)]
pub(super) enum Content {
    /// Null, a bool, a number or a string.
    Scalar(Json),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

/// The key of a mapping.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) at: Place,
    pub(super) name: String,
}

impl From<Spanned<Content>> for Node {
    fn from(spanned: Spanned<Content>) -> Self {
        Self { at: spanned.referenced.into(), content: spanned.value }
    }
}

impl Node {
    pub(super) fn to_json(&self) -> Json {
        match &self.content {
            Content::Scalar(value) => value.clone(),
            Content::List(items) => Json::Array(items.iter().map(Self::to_json).collect()),
            Content::Map(entries) => {
                let entries = entries.iter().map(|(key, value)| (key.name.clone(), value.to_json()));
                Json::Object(entries.collect::<Map<_, _>>())
            }
        }
    }

    pub(super) fn type_name(&self) -> &'static str {
        match &self.content {
            Content::Scalar(Json::Null) => "nothing",
            Content::Scalar(Json::Bool(_)) => "a bool",
            Content::Scalar(Json::Number(_)) => "a number",
            Content::Scalar(_) => "a string",
            Content::List(_) => "a list",
            Content::Map(_) => "a mapping",
        }
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a YAML value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Content, E> {
        Ok(Content::Scalar(Number::from_f64(value).map_or(Json::Null, Json::Number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Content, E> {
        Ok(Content::Scalar(Json::Null))
    }

    fn visit_none<E>(self) -> Result<Content, E> {
        Ok(Content::Scalar(Json::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Content, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Content, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element::<Spanned<Content>>()? {
            items.push(item.into());
        }
        Ok(Content::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Content, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, value)) = access.next_entry::<Spanned<String>, Spanned<Content>>()? {
            entries.push((Key { at: key.referenced.into(), name: key.value }, value.into()));
        }
        Ok(Content::Map(entries))
    }
}

/// A file: its path in messages, and its text.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) path: String,
    /// The directory that relative paths in the file refer to.
    pub(super) directory: PathBuf,
    pub(super) text: String,
}

impl Source {
    /// Reads a file of limited size.
    pub(super) fn read(path: &Path) -> Result<Self, ConfigErrors> {
        let name = path.display().to_string();
        let text = read_limited(path).map_err(|cause| ConfigErrors::single(&name, cause))?;
        let directory = path.parent().map(Path::to_path_buf).unwrap_or_default();
        Ok(Self { path: name, directory, text })
    }

    /// The tree of the file; an empty mapping if it has no content.
    pub(super) fn parse(&self) -> Result<Node, ConfigErrors> {
        let parsed = yaml::parse::<Spanned<Content>>(&self.text, &self.path);
        let empty = || Node { at: Place { line: 1, column: 1 }, content: Content::Map(Vec::new()) };
        parsed.map(|parsed| parsed.map_or_else(empty, Node::from)).map_err(|error| {
            let yaml::YamlError { path, line, column, cause } = error;
            ConfigErrors(vec![ConfigError { path, line, column, message: cause }])
        })
    }

    pub(super) fn error(&self, at: Place, message: impl Into<String>) -> ConfigError {
        ConfigError { path: self.path.clone(), line: at.line, column: at.column, message: message.into() }
    }

    /// The place in the file of a place in a string, which begins at `at`. In block strings it is exact; in a quoted string
    /// it is exact unless escapes precede it.
    pub(super) fn inside(&self, at: Place, line: usize, column: usize) -> Place {
        let (line, column) = (line as u64, column as u64);
        // The parser places a block string at its first line, after the line with the indicator.
        let is_block = self.line(at.line.saturating_sub(1)).is_some_and(ends_with_block_indicator);
        let line_start = self.line(at.line).unwrap_or_default();
        let before = line_start.chars().take(usize::try_from(at.column).unwrap_or(1).saturating_sub(1));
        if is_block && before.clone().all(|character| character == ' ') {
            let block = (at.line..).map_while(|line| self.line(line)).find(|text| !text.trim().is_empty());
            let indent =
                block.map_or(0, |text| text.chars().take_while(|character| *character == ' ').count());
            return Place { line: at.line + line - 1, column: indent as u64 + column };
        }
        match line_start.chars().nth(before.count()) {
            Some('"' | '\'') if line == 1 => Place { line: at.line, column: at.column + column },
            _ if line == 1 => Place { line: at.line, column: at.column + column - 1 },
            _ => Place { line: at.line + line - 1, column: 1 },
        }
    }

    /// A line, counted from 1.
    fn line(&self, line: u64) -> Option<&str> {
        self.text.lines().nth(usize::try_from(line).ok()?.checked_sub(1)?)
    }
}

/// Whether a line ends with `|` or `>`, perhaps with indicators of indentation and line breaks, and a comment.
fn ends_with_block_indicator(line: &str) -> bool {
    let line = line.split(" #").next().unwrap_or_default().trim_end();
    line.trim_end_matches(|character: char| character.is_ascii_digit() || matches!(character, '+' | '-'))
        .ends_with(['|', '>'])
}

/// Reads a file as text, unless it is too large.
pub(crate) fn read_limited(path: &Path) -> Result<String, String> {
    use std::io::Read as _;
    let file = std::fs::File::open(path).map_err(|error| format!("the file cannot be read: {error}"))?;
    let mut bytes = Vec::new();
    let read = file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("the file cannot be read: {error}"))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("the file has more than {MAX_FILE_BYTES} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "the file is not UTF-8".to_owned())
}

/// Line and column, from 1, of a byte of a text.
pub(super) fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}
