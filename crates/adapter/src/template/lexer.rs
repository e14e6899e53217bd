//! Splits a template into text and actions, and an action into tokens. Offsets are bytes of the template.

use serde_json::{Number, Value};

use super::{TemplateError, TemplateErrorKind};

/// The longest template.
pub(super) const MAX_TEMPLATE_BYTES: usize = 1024 * 1024;

/// A part of a template.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece<'t> {
    Text(&'t str),
    /// The tokens between `{{` and `}}`; none for a comment.
    Action {
        at: usize,
        tokens: Vec<Token>,
    },
}

/// A token of an action, and where it begins.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) at: usize,
    pub(super) kind: TokenKind,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum TokenKind {
    /// A function or a keyword.
    Word(String),
    /// `.a.b`; `.` alone has no names.
    Field(Vec<String>),
    /// `$name.a.b`; `$` alone has an empty name.
    Variable(String, Vec<String>),
    Literal(Value),
    Open,
    /// `)`, with the fields that follow it directly.
    Close(Vec<String>),
    Pipe,
    Declare,
    Assign,
    Comma,
}

/// Splits a template. Trim markers remove the white space of the text next to them.
pub(super) fn split(text: &str) -> Result<Vec<Piece<'_>>, TemplateError> {
    if text.len() > MAX_TEMPLATE_BYTES {
        let message = format!("the template has more than {MAX_TEMPLATE_BYTES} bytes");
        return Err(TemplateError::new(TemplateErrorKind::Limit, 0, message));
    }
    let mut pieces = Vec::new();
    let mut position = 0;
    let mut trim_start = false;
    while let Some(found) = rest(text, position).find("{{") {
        let at = position + found;
        let inner = at + 2;
        let trims_before = starts_with_marker(rest(text, inner));
        push_text(&mut pieces, text.get(position..at).unwrap_or_default(), trim_start, trims_before);
        let body_start = if trims_before { inner + 1 } else { inner };
        let (end, next) = action_end(text, at, body_start)?;
        let body = text.get(body_start..end).unwrap_or_default();
        let (body, trims_after) = match body.strip_suffix('-') {
            Some(trimmed) if trimmed.ends_with(char::is_whitespace) => (trimmed, true),
            _ => (body, false),
        };
        let tokens = if is_comment(body) { Vec::new() } else { tokens(body, body_start)? };
        pieces.push(Piece::Action { at, tokens });
        trim_start = trims_after;
        position = next;
    }
    push_text(&mut pieces, rest(text, position), trim_start, false);
    Ok(pieces)
}

fn rest(text: &str, position: usize) -> &str {
    text.get(position..).unwrap_or_default()
}

fn starts_with_marker(inner: &str) -> bool {
    inner.strip_prefix('-').is_some_and(|after| after.starts_with(char::is_whitespace))
}

fn is_comment(body: &str) -> bool {
    let body = body.trim();
    body.starts_with("/*") && body.ends_with("*/")
}

fn push_text<'t>(pieces: &mut Vec<Piece<'t>>, text: &'t str, trim_start: bool, trim_end: bool) {
    let text = if trim_start { text.trim_start() } else { text };
    let text = if trim_end { text.trim_end() } else { text };
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
}

/// Where the body of an action ends, and where the text after its `}}` begins. Braces in string literals do not count.
fn action_end(text: &str, at: usize, body_start: usize) -> Result<(usize, usize), TemplateError> {
    let body = rest(text, body_start);
    if body.trim_start().starts_with("/*") {
        let end = body.find("*/").and_then(|end| Some(end + body.get(end..)?.find("}}")?));
        if let Some(end) = end {
            return Ok((body_start + end, body_start + end + 2));
        }
    }
    let mut quote: Option<char> = None;
    let mut escaped = false;
    let mut characters = body.char_indices().peekable();
    while let Some((offset, character)) = characters.next() {
        match quote {
            Some('"') if escaped => escaped = false,
            Some('"') if character == '\\' => escaped = true,
            Some(open) if character == open => quote = None,
            Some(_) => {}
            None if character == '"' || character == '`' => quote = Some(character),
            None if character == '}' && characters.peek().is_some_and(|(_, next)| *next == '}') => {
                return Ok((body_start + offset, body_start + offset + 2));
            }
            None => {}
        }
    }
    Err(TemplateError::syntax(at, "the action {{ has no end; close it with }}"))
}

fn tokens(body: &str, base: usize) -> Result<Vec<Token>, TemplateError> {
    let mut reader = Reader { body, base, position: 0 };
    let mut tokens = Vec::new();
    while let Some(token) = reader.next_token()? {
        tokens.push(token);
    }
    Ok(tokens)
}

struct Reader<'t> {
    body: &'t str,
    base: usize,
    position: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        rest(self.body, self.position)
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn at(&self) -> usize {
        self.base + self.position
    }

    fn take_while(&mut self, accepts: impl Fn(char) -> bool) -> String {
        let taken: String = self.rest().chars().take_while(|character| accepts(*character)).collect();
        self.position += taken.len();
        taken
    }

    fn next_token(&mut self) -> Result<Option<Token>, TemplateError> {
        self.take_while(char::is_whitespace);
        let at = self.at();
        let Some(first) = self.peek() else { return Ok(None) };
        let kind = match first {
            '(' => self.single(TokenKind::Open),
            '|' => self.single(TokenKind::Pipe),
            ',' => self.single(TokenKind::Comma),
            ')' => {
                self.position += 1;
                TokenKind::Close(self.fields()?)
            }
            ':' if self.rest().starts_with(":=") => {
                self.position += 2;
                TokenKind::Declare
            }
            '=' => self.single(TokenKind::Assign),
            '"' => TokenKind::Literal(self.quoted()?),
            '`' => TokenKind::Literal(self.raw()?),
            '$' => {
                self.position += 1;
                let name = self.take_while(is_name);
                TokenKind::Variable(name, self.fields()?)
            }
            '.' if !self.rest().chars().nth(1).is_some_and(|next| next.is_ascii_digit()) => {
                if self.rest().chars().nth(1).is_some_and(is_name) {
                    TokenKind::Field(self.fields()?)
                } else {
                    self.single(TokenKind::Field(Vec::new()))
                }
            }
            digit if digit.is_ascii_digit() || matches!(digit, '-' | '+' | '.') => {
                TokenKind::Literal(self.number()?)
            }
            letter if is_name(letter) => TokenKind::Word(self.take_while(is_name)),
            other => {
                return Err(TemplateError::syntax(at, format!("unexpected {other:?} in an action")));
            }
        };
        Ok(Some(Token { at, kind }))
    }

    fn single(&mut self, kind: TokenKind) -> TokenKind {
        self.position += 1;
        kind
    }

    /// `.a.b` from here on; may be empty.
    fn fields(&mut self) -> Result<Vec<String>, TemplateError> {
        let mut names = Vec::new();
        while self.peek() == Some('.') {
            self.position += 1;
            let name = self.take_while(is_name);
            if name.is_empty() {
                return Err(TemplateError::syntax(self.at(), "a field name must follow the dot"));
            }
            names.push(name);
        }
        Ok(names)
    }

    fn quoted(&mut self) -> Result<Value, TemplateError> {
        let at = self.at();
        let mut escaped = false;
        let end = self.rest().char_indices().skip(1).find(|(_, character)| {
            let ends = !escaped && *character == '"';
            escaped = !escaped && *character == '\\';
            ends
        });
        let unclosed = || TemplateError::syntax(at, "the string has no closing \"");
        let (end, _) = end.ok_or_else(unclosed)?;
        let literal = self.rest().get(..=end).ok_or_else(unclosed)?;
        // The escapes of Go that configurations use are those of JSON.
        let value = serde_json::from_str(&literal.replace('\n', "\\n").replace('\t', "\\t"))
            .map_err(|_| TemplateError::syntax(at, format!("{literal} is not a valid string")))?;
        self.position += end + 1;
        Ok(value)
    }

    fn raw(&mut self) -> Result<Value, TemplateError> {
        let at = self.at();
        let inner = rest(self.body, self.position + 1);
        let end = inner.find('`').ok_or_else(|| TemplateError::syntax(at, "the string has no closing `"))?;
        let value = Value::from(inner.get(..end).unwrap_or_default());
        self.position += end + 2;
        Ok(value)
    }

    fn number(&mut self) -> Result<Value, TemplateError> {
        let at = self.at();
        let text = self.take_while(|character| {
            character.is_ascii_alphanumeric() || matches!(character, '-' | '+' | '.' | '_')
        });
        let plain = text.replace('_', "");
        let float = || plain.parse().ok().and_then(Number::from_f64).map(Value::Number);
        plain
            .parse::<i64>()
            .map(Value::from)
            .ok()
            .or_else(float)
            .ok_or_else(|| TemplateError::syntax(at, format!("{text:?} is not a number")))
    }
}

fn is_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}
