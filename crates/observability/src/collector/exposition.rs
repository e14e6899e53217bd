//! Parses the text format of Prometheus as `/federate` sends it, chunk by chunk, and keeps no more than one line in memory.
//! Which samples are forwarded is left to [`transform`](super::transform).

use std::fmt;
use std::ops::Range;

use bytes::{Buf as _, Bytes};

/// The longest line that is accepted.
pub(crate) const MAX_LINE_BYTES: usize = 1024 * 1024;
/// The longest excerpt of an invalid line in an error, in characters.
const MAX_EXCERPT_CHARS: usize = 80;

/// A line that is not in the text format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} is not in the Prometheus text format: {problem}: {excerpt:?}")]
pub(crate) struct ParseError {
    line: u64,
    problem: Problem,
    excerpt: String,
}

/// What is wrong with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Problem {
    TooLong,
    NotUtf8,
    NoMetricName,
    NoLabelName,
    NoEqualsSign,
    NoOpeningQuote,
    NoClosingQuote,
    NoSeparator,
    NoValue,
    InvalidValue,
    InvalidTimestamp,
    TextAfterTimestamp,
    Unfinished,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "it is longer than 1 MiB",
            Self::NotUtf8 => "it is not UTF-8",
            Self::NoMetricName => "it does not begin with the name of a metric",
            Self::NoLabelName => "a label has no name",
            Self::NoEqualsSign => "the name of a label is not followed by =",
            Self::NoOpeningQuote => "the value of a label does not begin with a quote",
            Self::NoClosingQuote => "the value of a label does not end with a quote",
            Self::NoSeparator => "a label is not followed by a comma or a closing brace",
            Self::NoValue => "it has no value",
            Self::InvalidValue => "its value is not a number",
            Self::InvalidTimestamp => "its timestamp is not a number of milliseconds",
            Self::TextAfterTimestamp => "there is text after the timestamp",
            Self::Unfinished => "the response ends before the end of the line",
        })
    }
}

/// The value of a label, as it stands in the text or already plain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LabelValue<'a> {
    text: &'a str,
    escaped: bool,
}

impl<'a> LabelValue<'a> {
    /// A value without escapes.
    pub(crate) fn plain(text: &'a str) -> Self {
        Self { text, escaped: false }
    }

    /// Whether the value is empty.
    pub(crate) fn is_empty(self) -> bool {
        self.text.is_empty()
    }

    /// Appends the value, with its escapes resolved.
    pub(crate) fn append_to(self, value: &mut String) {
        if !self.escaped {
            value.push_str(self.text);
            return;
        }
        let mut characters = self.text.chars();
        while let Some(character) = characters.next() {
            match character {
                '\\' => match characters.next() {
                    Some('n') => value.push('\n'),
                    Some(escaped @ ('\\' | '"')) => value.push(escaped),
                    // Prometheus keeps the backslash of an escape that it does not know.
                    Some(other) => value.extend(['\\', other]),
                    None => value.push('\\'),
                },
                other => value.push(other),
            }
        }
    }
}

/// One sample of the text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample<'a> {
    line: &'a str,
    name: &'a str,
    labels: &'a [LabelSpan],
    /// The value.
    pub(crate) value: f64,
    /// The time in milliseconds since 1970, if the line has one.
    pub(crate) timestamp: Option<i64>,
}

impl<'a> Sample<'a> {
    /// The name of the metric.
    pub(crate) fn name(&self) -> &'a str {
        self.name
    }

    /// The labels without the name of the metric, in the order of the text.
    pub(crate) fn labels(&self) -> impl Iterator<Item = (&'a str, LabelValue<'a>)> + use<'a> {
        let line = self.line;
        self.labels.iter().map(move |span| {
            let part = |range: &Range<usize>| line.get(range.clone()).unwrap_or_default();
            (part(&span.name), LabelValue { text: part(&span.value), escaped: span.escaped })
        })
    }
}

/// Where a label stands in its line.
#[derive(Debug, Clone)]
struct LabelSpan {
    name: Range<usize>,
    value: Range<usize>,
    escaped: bool,
}

/// A parser of one response. [`feed`](Self::feed) it a chunk, then take samples until there is none.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    /// What is left of the last chunk.
    chunk: Bytes,
    /// The beginning of a line whose end is in the next chunk.
    partial: Vec<u8>,
    line: Bytes,
    line_number: u64,
    labels: Vec<LabelSpan>,
}

impl Parser {
    /// Adds a chunk. All samples of the chunk before it must have been taken.
    pub(crate) fn feed(&mut self, chunk: Bytes) {
        self.chunk = chunk;
    }

    /// The next sample, or nothing if it needs another chunk.
    pub(crate) fn next_sample(&mut self) -> Result<Option<Sample<'_>>, ParseError> {
        let parsed = loop {
            if !self.next_line()? {
                return Ok(None);
            }
            match parse_line(&self.line, &mut self.labels) {
                Ok(None) => {}
                Ok(Some(parsed)) => break parsed,
                Err(problem) => return Err(self.error(problem, &self.line)),
            }
        };
        // The line was checked when it was parsed.
        let line = std::str::from_utf8(&self.line).unwrap_or_default();
        let ParsedLine { name, value, timestamp } = parsed;
        let name = line.get(name).unwrap_or_default();
        Ok(Some(Sample { line, name, labels: &self.labels, value, timestamp }))
    }

    /// Checks that the response ended with a whole line.
    pub(crate) fn finish(&mut self) -> Result<(), ParseError> {
        if self.partial.is_empty() {
            return Ok(());
        }
        self.line_number += 1;
        Err(self.error(Problem::Unfinished, &self.partial))
    }

    /// Moves to the next line; false if its end is not here yet.
    fn next_line(&mut self) -> Result<bool, ParseError> {
        let Some(end) = memchr::memchr(b'\n', &self.chunk) else {
            self.partial.extend_from_slice(&self.chunk);
            self.chunk = Bytes::new();
            if self.partial.len() > MAX_LINE_BYTES {
                self.line_number += 1;
                return Err(self.error(Problem::TooLong, &self.partial));
            }
            return Ok(false);
        };
        self.line_number += 1;
        let rest = self.chunk.split_to(end);
        self.chunk.advance(1);
        self.line = if self.partial.is_empty() {
            rest
        } else {
            self.partial.extend_from_slice(&rest);
            Bytes::from(std::mem::take(&mut self.partial))
        };
        if self.line.len() > MAX_LINE_BYTES {
            return Err(self.error(Problem::TooLong, &self.line));
        }
        Ok(true)
    }

    fn error(&self, problem: Problem, line: &[u8]) -> ParseError {
        let beginning = line.get(..line.len().min(4 * MAX_EXCERPT_CHARS)).unwrap_or_default();
        let text = String::from_utf8_lossy(beginning);
        let mut excerpt: String = text.chars().take(MAX_EXCERPT_CHARS).collect();
        if excerpt.len() < line.len() {
            excerpt.push('…');
        }
        ParseError { line: self.line_number, problem, excerpt }
    }
}

struct ParsedLine {
    name: Range<usize>,
    value: f64,
    timestamp: Option<i64>,
}

/// Parses one line; nothing if it has no sample, because it is empty or a comment.
fn parse_line(line: &[u8], labels: &mut Vec<LabelSpan>) -> Result<Option<ParsedLine>, Problem> {
    labels.clear();
    let text = std::str::from_utf8(line).map_err(|_| Problem::NotUtf8)?;
    let mut cursor = Cursor { text, at: 0 };
    cursor.skip_blanks();
    if matches!(cursor.peek(), None | Some(b'#')) {
        return Ok(None);
    }
    let name = cursor.take_name(|byte| byte == b':').ok_or(Problem::NoMetricName)?;
    cursor.skip_blanks();
    if cursor.take(b'{') {
        cursor.take_labels(labels)?;
    }
    let value = cursor.take_word().ok_or(Problem::NoValue)?;
    let value = value.parse().map_err(|_| Problem::InvalidValue)?;
    let timestamp = match cursor.take_word() {
        None => None,
        Some(word) => Some(word.parse().map_err(|_| Problem::InvalidTimestamp)?),
    };
    match cursor.take_word() {
        None => Ok(Some(ParsedLine { name, value, timestamp })),
        Some(_) => Err(Problem::TextAfterTimestamp),
    }
}

/// A place in a line.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn skip_blanks(&mut self) {
        self.at += self.rest().iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    }

    /// The text up to the next blank.
    fn take_word(&mut self) -> Option<&'a str> {
        self.skip_blanks();
        let length = self.rest().iter().take_while(|byte| !matches!(byte, b' ' | b'\t')).count();
        let start = self.at;
        self.at += length;
        self.text.get(start..self.at).filter(|word| !word.is_empty())
    }

    /// A name of letters, digits and underscores, and of what else is allowed. It does not begin with a digit.
    fn take_name(&mut self, is_also_allowed: impl Fn(u8) -> bool) -> Option<Range<usize>> {
        let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || is_also_allowed(*byte);
        let length = self.rest().iter().take_while(|byte| is_allowed(byte)).count();
        if length == 0 || self.peek().is_some_and(|first| first.is_ascii_digit()) {
            return None;
        }
        let start = self.at;
        self.at += length;
        Some(start..self.at)
    }

    /// The labels up to the closing brace.
    fn take_labels(&mut self, labels: &mut Vec<LabelSpan>) -> Result<(), Problem> {
        loop {
            self.skip_blanks();
            if self.take(b'}') {
                return Ok(());
            }
            let name = self.take_name(|_| false).ok_or(Problem::NoLabelName)?;
            self.skip_blanks();
            if !self.take(b'=') {
                return Err(Problem::NoEqualsSign);
            }
            self.skip_blanks();
            if !self.take(b'"') {
                return Err(Problem::NoOpeningQuote);
            }
            let (value, escaped) = self.take_quoted().ok_or(Problem::NoClosingQuote)?;
            labels.push(LabelSpan { name, value, escaped });
            self.skip_blanks();
            if !self.take(b',') && self.peek() != Some(b'}') {
                return Err(Problem::NoSeparator);
            }
        }
    }

    /// The text up to the closing quote, and whether it has escapes.
    fn take_quoted(&mut self) -> Option<(Range<usize>, bool)> {
        let start = self.at;
        let mut escaped = false;
        loop {
            self.at += memchr::memchr2(b'"', b'\\', self.rest())?;
            if self.take(b'"') {
                return Some((start..self.at - 1, escaped));
            }
            escaped = true;
            self.at += 2;
        }
    }
}

#[cfg(test)]
mod tests;
