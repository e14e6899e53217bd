//! Query parameters.

use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::problem::{Code, Constraint, FieldError, Problem};
use crate::search::fields::Fields;
use crate::search::{Filter, StatusOrder, parse_order};
use crate::store::{Column, Direction, Order, Page, Revision};

/// The largest page number.
pub(crate) const LAST_PAGE: u32 = 100_000;
/// The largest page size.
pub(crate) const LARGEST_PAGE: u32 = 100;

/// The decoded parameters of a request. Each getter removes its parameter; `finish` rejects the rest.
pub(crate) struct Parameters {
    pairs: Vec<(String, String)>,
}

impl Parameters {
    pub(crate) fn parse(query: &str) -> Result<Self, Problem> {
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode(name)?, decode(value)?))
        });
        Ok(Self { pairs: pairs.collect::<Result<_, Problem>>()? })
    }

    /// All values of a parameter.
    fn all(&mut self, name: &str) -> Vec<String> {
        let (taken, left) = std::mem::take(&mut self.pairs).into_iter().partition(|(other, _)| other == name);
        self.pairs = left;
        let taken: Vec<(String, String)> = taken;
        taken.into_iter().map(|(_, value)| value).collect()
    }

    /// All values of a parameter that are not empty: an empty value means the default.
    fn filled(&mut self, name: &str) -> Vec<String> {
        let mut values = self.all(name);
        values.retain(|value| !value.is_empty());
        values
    }

    /// The value of a parameter that must not be repeated.
    fn one(&mut self, name: &str) -> Result<Option<String>, Problem> {
        let mut values = self.all(name);
        match values.len() {
            0 | 1 => Ok(values.pop()),
            _ => {
                Err(wrong(name, Constraint::Unique, format!("the parameter {name} must be given once"), None))
            }
        }
    }

    fn number(&mut self, name: &str, default: u32, most: u32) -> Result<u32, Problem> {
        let Some(text) = self.one(name)?.filter(|text| !text.is_empty()) else { return Ok(default) };
        let value = Some(Value::String(text.clone()));
        let message = format!("{name} must be an integer from 1 to {most}");
        match text.parse::<i128>() {
            Ok(number) if number < 1 => Err(wrong(name, Constraint::Min, message, value)),
            Ok(number) => match u32::try_from(number) {
                Ok(number) if number <= most => Ok(number),
                _ => Err(wrong(name, Constraint::Max, message, value)),
            },
            Err(_) => Err(wrong(name, Constraint::Format, message, value)),
        }
    }

    pub(crate) fn page(&mut self) -> Result<Page, Problem> {
        let default = Page::default();
        let number = self.number("page", default.number, LAST_PAGE)?;
        let size = self.number("size", default.size, LARGEST_PAGE)?;
        Ok(Page { number, size })
    }

    pub(crate) fn search(&mut self) -> Result<Option<Filter>, Problem> {
        let Some(text) = self.one("search")? else { return Ok(None) };
        if text.trim().is_empty() {
            return Ok(None);
        }
        Filter::parse(&text).map(Some).map_err(bad)
    }

    pub(crate) fn order(&mut self) -> Result<Vec<Order>, Problem> {
        let given = self.filled("order");
        if given.is_empty() {
            return Ok(vec![Order { column: Column::CreatedTime, direction: Direction::Descending }]);
        }
        parse_order(&given.iter().map(String::as_str).collect::<Vec<_>>()).map_err(bad)
    }

    pub(crate) fn fields(&mut self) -> Result<Option<Fields>, Problem> {
        let given = self.filled("fields");
        if given.is_empty() {
            return Ok(None);
        }
        let parsed = Fields::parse(&given.iter().map(String::as_str).collect::<Vec<_>>());
        parsed.map(Some).map_err(|error| Problem::new(Code::Validation, error.to_string()))
    }

    /// The order of adapter statuses; empty is by the name of the adapter.
    pub(crate) fn status_order(&mut self) -> Result<Vec<StatusOrder>, Problem> {
        let given = self.filled("order");
        let keys = given.iter().flat_map(|part| part.split(',')).map(str::trim);
        keys.map(|key| StatusOrder::parse(key).map_err(bad)).collect()
    }

    /// Accepts a parameter that has no effect here, because upstream's server accepts it.
    pub(crate) fn ignore(&mut self, name: &str) {
        self.all(name);
    }

    pub(crate) fn kind(&mut self) -> Result<Option<String>, Problem> {
        self.one("kind")
    }

    /// The parameter `watch`.
    pub(crate) fn watch(&mut self) -> Result<bool, Problem> {
        match self.one("watch")?.as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => {
                let shown = Some(Value::String(other.to_owned()));
                Err(wrong("watch", Constraint::Enum, "watch must be true or false".to_owned(), shown))
            }
        }
    }

    /// The revision to watch from: the parameter `since`, or else the header `Last-Event-ID`.
    pub(crate) fn since(&mut self, last_event_id: Option<&str>) -> Result<Revision, Problem> {
        let given = self.one("since")?;
        let Some(text) = given.as_deref().or(last_event_id) else { return Ok(0) };
        text.parse().ok().filter(|revision| *revision >= 0).ok_or_else(|| {
            let shown = Some(Value::String(text.to_owned()));
            let message =
                "since must be a revision: the id of an event, or the header Bellwether-Revision of a list";
            wrong("since", Constraint::Format, message.to_owned(), shown)
        })
    }

    /// Rejects unknown parameters, which would otherwise be ignored silently.
    pub(crate) fn finish(self) -> Result<(), Problem> {
        match self.pairs.first() {
            None => Ok(()),
            Some((name, _)) => Err(Problem::new(
                Code::BadRequest,
                format!("the parameter {name:?} is unknown here, or cannot be combined with the others"),
            )),
        }
    }
}

fn decode(text: &str) -> Result<String, Problem> {
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8();
    match decoded {
        Ok(decoded) if !decoded.contains('\0') => Ok(decoded.into_owned()),
        _ => {
            Err(Problem::new(Code::BadRequest, "a parameter is not UTF-8, or contains the character U+0000"))
        }
    }
}

fn bad(error: impl std::fmt::Display) -> Problem {
    Problem::new(Code::BadRequest, error.to_string())
}

fn wrong(field: &str, constraint: Constraint, message: String, value: Option<Value>) -> Problem {
    let error = FieldError { field: field.to_owned(), message, value, constraint: Some(constraint) };
    Problem::of_fields(Code::Validation, vec![error])
}
