//! Splits a search into tokens with their columns.

use jiff::Timestamp;

use super::decimal::Decimal;
use super::{SearchError, literal, quoted};

/// The quote of text in which a backslash has no effect on the quote.
pub(super) const RAW_QUOTE: char = '`';

/// A token of a search.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    /// The position, in characters from 1.
    pub(super) column: usize,
    /// The text of the token.
    pub(super) source: String,
}

impl Token {
    /// The token in an error message.
    pub(super) fn found(&self) -> String {
        match self.kind {
            Kind::End => "the end".to_owned(),
            Kind::Text(_) => {
                format!("the text {}", quoted(self.source.get(1..self.source.len() - 1).unwrap_or("")))
            }
            _ => quoted(&self.source),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    Name,
    Keyword(Keyword),
    Text(String),
    Number(Decimal),
    Time(Timestamp),
    Compare(Comparison),
    Open,
    Close,
    OpenList,
    CloseList,
    Comma,
    Minus,
    /// An unsupported operator, with its name for messages.
    Foreign(&'static str),
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keyword {
    And,
    Or,
    Not,
    In,
    Between,
    Like,
    Ilike,
    Is,
    Null,
    True,
    False,
}

impl Keyword {
    fn of(word: &str) -> Option<Self> {
        Some(match word.to_ascii_lowercase().as_str() {
            "and" => Self::And,
            "or" => Self::Or,
            "not" => Self::Not,
            "in" => Self::In,
            "between" => Self::Between,
            "like" => Self::Like,
            "ilike" => Self::Ilike,
            "is" => Self::Is,
            "null" => Self::Null,
            "true" => Self::True,
            "false" => Self::False,
            _ => return None,
        })
    }
}

/// How two values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

impl Comparison {
    /// The operator in searches and in SQL.
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::Greater => ">",
            Self::AtLeast => ">=",
        }
    }

    /// Whether the comparison holds for two values of this order.
    pub(super) fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::AtMost => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::AtLeast => order.is_ge(),
        }
    }
}

pub(super) struct Lexer {
    text: Vec<char>,
    at: usize,
}

impl Lexer {
    pub(super) fn new(text: &str) -> Self {
        Self { text: text.chars().collect(), at: 0 }
    }

    /// The next token; at the end of the text, the end token.
    pub(super) fn next(&mut self) -> Result<Token, SearchError> {
        self.skip_while(char::is_whitespace);
        let start = self.at;
        let kind = match self.peek() {
            None => Kind::End,
            Some(quote @ ('\'' | '"' | '`')) => self.text(quote)?,
            Some(c) if c.is_ascii_digit() => self.number_or_time()?,
            Some(c) if c.is_ascii_alphabetic() || c == '_' => self.word(),
            Some(_) => self.operator()?,
        };
        Ok(Token { kind, column: start + 1, source: self.since(start) })
    }

    fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    fn since(&self, start: usize) -> String {
        self.text.get(start..self.at).unwrap_or_default().iter().collect()
    }

    fn skip_while(&mut self, belongs: impl Fn(char) -> bool) {
        while self.peek().is_some_and(&belongs) {
            self.at += 1;
        }
    }

    fn error<T>(&self, at: usize, problem: impl Into<String>) -> Result<T, SearchError> {
        Err(SearchError::Syntax { column: at + 1, problem: problem.into() })
    }

    fn text(&mut self, quote: char) -> Result<Kind, SearchError> {
        let start = self.at;
        let mut value = String::new();
        loop {
            self.at += 1;
            match self.peek() {
                None => {
                    return self.error(start, format!("the text that starts here has no closing {quote}"));
                }
                // PostgreSQL cannot store it.
                Some('\0') => return self.error(self.at, "text cannot hold a NUL character"),
                Some('\\') if quote != RAW_QUOTE && self.text.get(self.at + 1) == Some(&quote) => {
                    value.push(quote);
                    self.at += 1;
                }
                // A pattern has a backslash before the one that it means.
                Some('\\') if quote != RAW_QUOTE && self.text.get(self.at + 1) == Some(&'\\') => {
                    value.push_str("\\\\");
                    self.at += 1;
                }
                Some(c) if c != quote => value.push(c),
                Some(c) if self.text.get(self.at + 1) == Some(&quote) => {
                    value.push(c);
                    self.at += 1;
                }
                Some(_) => {
                    self.at += 1;
                    return Ok(Kind::Text(value));
                }
            }
        }
    }

    fn word(&mut self) -> Kind {
        let start = self.at;
        self.skip_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '-'));
        Keyword::of(&self.since(start)).map_or(Kind::Name, Kind::Keyword)
    }

    fn number_or_time(&mut self) -> Result<Kind, SearchError> {
        let start = self.at;
        if self.starts_with_a_date() {
            self.skip_while(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | ':' | '.' | '+'));
            let source = self.since(start);
            return match literal::time(&source) {
                Some(time) => Ok(Kind::Time(time)),
                None => self.error(start, format!("{} is not a time; {}", quoted(&source), literal::TIMES)),
            };
        }
        self.skip_while(|c| c.is_alphanumeric() || matches!(c, '_' | '.'));
        let source = self.since(start);
        match Decimal::literal(&source) {
            Ok(number) => Ok(Kind::Number(number)),
            Err(problem) => self.error(start, format!("{} {problem}", quoted(&source))),
        }
    }

    fn starts_with_a_date(&self) -> bool {
        let ahead = self.text.get(self.at..self.at + 5).unwrap_or_default();
        matches!(ahead, [year @ .., '-'] if year.iter().all(char::is_ascii_digit))
    }

    fn operator(&mut self) -> Result<Kind, SearchError> {
        let first = self.peek().unwrap_or_default();
        let second = self.text.get(self.at + 1).copied().unwrap_or_default();
        let (kind, length) = match (first, second) {
            ('!', '=') => (Kind::Compare(Comparison::NotEqual), 2),
            ('<', '=') => (Kind::Compare(Comparison::AtMost), 2),
            ('>', '=') => (Kind::Compare(Comparison::AtLeast), 2),
            ('=', '=') | ('<', '>') | ('~', '=' | '!') => (Kind::Foreign("operator"), 2),
            ('~', _) => (Kind::Foreign("operator"), 1),
            ('=', _) => (Kind::Compare(Comparison::Equal), 1),
            ('<', _) => (Kind::Compare(Comparison::Less), 1),
            ('>', _) => (Kind::Compare(Comparison::Greater), 1),
            ('(', _) => (Kind::Open, 1),
            (')', _) => (Kind::Close, 1),
            ('[', _) => (Kind::OpenList, 1),
            (']', _) => (Kind::CloseList, 1),
            (',', _) => (Kind::Comma, 1),
            ('-', _) => (Kind::Minus, 1),
            ('+' | '*' | '/' | '%', _) => (Kind::Foreign("arithmetic"), 1),
            _ => return self.error(self.at, format!("unexpected character {}", quoted(&first.to_string()))),
        };
        self.at += length;
        Ok(kind)
    }
}
