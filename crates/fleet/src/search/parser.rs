//! Parses searches by recursive descent. Fields and values are checked by [`check`].

use jiff::Timestamp;

use super::decimal::Decimal;
use super::filter::{Node, Subject, Test};
use super::lexer::{Keyword, Kind, Lexer, Token};
use super::pattern::Case;
use super::{LONGEST, SearchError, check, quoted};

/// The maximum nesting of parentheses and `not`.
const DEEPEST: usize = 64;

/// The maximum number of labels and conditions of a search. Each is a join, and with a hundred joins PostgreSQL plans for minutes.
const MOST_JOINS: usize = 16;

/// A literal with its column.
#[derive(Debug, Clone)]
pub(super) struct Literal {
    pub(super) value: LiteralValue,
    pub(super) column: usize,
    pub(super) source: String,
}

#[derive(Debug, Clone)]
pub(super) enum LiteralValue {
    Text(String),
    Number(Decimal),
    Time(Timestamp),
    Boolean(bool),
}

/// A comparison of a field, and whether it is below a `not`.
pub(super) struct Predicate {
    pub(super) field: Token,
    pub(super) operator: Token,
    pub(super) test: Test<Literal>,
    pub(super) negated: bool,
}

pub(super) fn parse(text: &str) -> Result<Node, SearchError> {
    if text.chars().nth(LONGEST).is_some() {
        let problem = format!("a search has at most {LONGEST} characters");
        return Err(SearchError::Syntax { column: LONGEST + 1, problem });
    }
    let mut lexer = Lexer::new(text);
    let token = lexer.next()?;
    let mut parser = Parser { lexer, token, depth: 0, negations: 0, joins: 0 };
    let node = parser.any()?;
    match parser.token.kind {
        Kind::End => Ok(node),
        _ => Err(parser.expected("expected 'and', 'or' or the end")),
    }
}

struct Parser {
    lexer: Lexer,
    /// The next token, which is not consumed yet.
    token: Token,
    depth: usize,
    negations: usize,
    joins: usize,
}

impl Parser {
    fn any(&mut self) -> Result<Node, SearchError> {
        let mut nodes = vec![self.all()?];
        while self.take(&Kind::Keyword(Keyword::Or))?.is_some() {
            nodes.push(self.all()?);
        }
        Ok(Node::any(nodes))
    }

    fn all(&mut self) -> Result<Node, SearchError> {
        let mut nodes = vec![self.negation()?];
        while self.take(&Kind::Keyword(Keyword::And))?.is_some() {
            nodes.push(self.negation()?);
        }
        Ok(Node::all(nodes))
    }

    fn negation(&mut self) -> Result<Node, SearchError> {
        let Some(not) = self.take(&Kind::Keyword(Keyword::Not))? else { return self.primary() };
        self.negations += 1;
        let node = self.nested(&not, Self::negation)?;
        self.negations -= 1;
        Ok(node.not())
    }

    fn primary(&mut self) -> Result<Node, SearchError> {
        let Some(open) = self.take(&Kind::Open)? else { return self.predicate() };
        let node = self.nested(&open, Self::any)?;
        match self.take(&Kind::Close)? {
            Some(_) => Ok(node),
            None => Err(self.expected("expected 'and', 'or' or ')'")),
        }
    }

    fn nested(
        &mut self,
        start: &Token,
        parse: fn(&mut Self) -> Result<Node, SearchError>,
    ) -> Result<Node, SearchError> {
        if self.depth == DEEPEST {
            let problem = format!("parentheses and 'not' nest deeper than {DEEPEST}");
            return Err(SearchError::Syntax { column: start.column, problem });
        }
        self.depth += 1;
        let node = parse(self)?;
        self.depth -= 1;
        Ok(node)
    }

    fn predicate(&mut self) -> Result<Node, SearchError> {
        match self.token.kind {
            Kind::Name if is_function(&self.token.source) => Err(self.unsupported("function")),
            Kind::Name => self.field(),
            Kind::Keyword(Keyword::True | Keyword::False)
            | Kind::Text(_)
            | Kind::Number(_)
            | Kind::Time(_)
            | Kind::Minus => self.constant(),
            _ => Err(self.expected("expected a field, a value, 'not' or '('")),
        }
    }

    fn constant(&mut self) -> Result<Node, SearchError> {
        let left = self.value("here")?;
        let Kind::Compare(comparison) = self.token.kind else {
            return Err(self.expected(&format!("expected a comparison after {}", quoted(&left.source))));
        };
        let operator = self.advance()?;
        let right = self.value(&format!("after {}", quoted(&operator.source)))?;
        check::constants(&left, comparison, &right).map(Node::Constant)
    }

    fn field(&mut self) -> Result<Node, SearchError> {
        let field = self.advance()?;
        let not = self.take(&Kind::Keyword(Keyword::Not))?;
        let kind = self.token.kind.clone();
        let after_not = "expected 'in', 'between', 'like' or 'ilike' after 'not'";
        let operator = match kind {
            Kind::Open => return Err(unsupported("function", &field)),
            Kind::Keyword(Keyword::In | Keyword::Between | Keyword::Like | Keyword::Ilike) => {
                self.advance()?
            }
            _ if not.is_some() => return Err(self.expected(after_not)),
            Kind::Compare(_) | Kind::Keyword(Keyword::Is) => self.advance()?,
            Kind::Minus => return Err(self.unsupported("arithmetic")),
            _ => return Err(self.expected(&format!("expected a comparison after {}", quoted(&field.source)))),
        };
        let after = format!("after {}", quoted(&operator.source));
        let test = match kind {
            Kind::Compare(comparison) => Test::Compare(comparison, self.value(&after)?),
            Kind::Keyword(Keyword::In) => Test::In(self.list()?),
            Kind::Keyword(Keyword::Between) => self.between(&after)?,
            Kind::Keyword(Keyword::Like) => Test::Like(Case::Sensitive, self.value(&after)?),
            Kind::Keyword(Keyword::Ilike) => Test::Like(Case::Insensitive, self.value(&after)?),
            _ => self.null()?,
        };
        let negated = self.negations > 0 || not.is_some();
        let column = field.column;
        let node = check::predicate(Predicate { field, operator, test, negated })?;
        self.joins += usize::from(matches!(node, Node::Condition(_) | Node::Field(Subject::Label(_), _)));
        if self.joins > MOST_JOINS {
            let problem = format!("a search asks for at most {MOST_JOINS} labels and conditions");
            return Err(SearchError::Meaning { column, problem });
        }
        Ok(if not.is_some() { node.not() } else { node })
    }

    fn null(&mut self) -> Result<Test<Literal>, SearchError> {
        let not = self.take(&Kind::Keyword(Keyword::Not))?;
        if self.take(&Kind::Keyword(Keyword::Null))?.is_none() {
            let wanted = if not.is_some() {
                "expected 'null' after 'not'"
            } else {
                "expected 'null' or 'not null' after 'is'"
            };
            return Err(self.expected(wanted));
        }
        Ok(if not.is_some() { Test::NotNull } else { Test::Null })
    }

    fn between(&mut self, after: &str) -> Result<Test<Literal>, SearchError> {
        let low = self.value(after)?;
        if self.take(&Kind::Keyword(Keyword::And))?.is_none() {
            return Err(self.expected("expected 'and' between the two bounds"));
        }
        Ok(Test::Between(low, self.value("after 'and'")?))
    }

    fn list(&mut self) -> Result<Vec<Literal>, SearchError> {
        if self.take(&Kind::OpenList)?.is_none() {
            return Err(self.expected("expected '[' after 'in'"));
        }
        let mut values = vec![self.value("after '['")?];
        while self.take(&Kind::Comma)?.is_some() {
            values.push(self.value("after ','")?);
        }
        match self.take(&Kind::CloseList)? {
            Some(_) => Ok(values),
            None => Err(self.expected("expected ',' or ']'")),
        }
    }

    fn value(&mut self, place: &str) -> Result<Literal, SearchError> {
        let minus = self.take(&Kind::Minus)?;
        let value = match self.token.kind.clone() {
            Kind::Number(number) => self.number(number, minus.as_ref())?,
            _ if minus.is_some() => return Err(self.expected("expected a number after '-'")),
            Kind::Text(text) => LiteralValue::Text(text),
            Kind::Time(time) => LiteralValue::Time(time),
            Kind::Keyword(Keyword::True) => LiteralValue::Boolean(true),
            Kind::Keyword(Keyword::False) => LiteralValue::Boolean(false),
            kind => return Err(self.no_value(&kind, place)),
        };
        let token = self.advance()?;
        if self.token.kind == Kind::Minus {
            return Err(self.unsupported("arithmetic"));
        }
        let column = minus.as_ref().map_or(token.column, |minus| minus.column);
        let source = match value {
            LiteralValue::Text(ref text) => text.clone(),
            _ if minus.is_some() => format!("-{}", token.source),
            _ => token.source,
        };
        Ok(Literal { value, column, source })
    }

    fn number(&self, number: Decimal, minus: Option<&Token>) -> Result<LiteralValue, SearchError> {
        let number = if minus.is_some() { number.negated() } else { number };
        if number.is_in_range() {
            return Ok(LiteralValue::Number(number));
        }
        let problem = format!("{} is out of range", quoted(&self.token.source));
        Err(SearchError::Syntax { column: self.token.column, problem })
    }

    fn no_value(&self, kind: &Kind, place: &str) -> SearchError {
        let advice = match kind {
            Kind::Name if is_function(&self.token.source) => return self.unsupported("function"),
            Kind::Name => "; text is written in quotes",
            Kind::Keyword(Keyword::Null) => "; write 'is null' or 'is not null'",
            _ => "",
        };
        match self.expected(&format!("expected a value {place}")) {
            SearchError::Syntax { column, problem } => {
                SearchError::Syntax { column, problem: problem + advice }
            }
            error => error,
        }
    }

    fn advance(&mut self) -> Result<Token, SearchError> {
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.token, next))
    }

    fn take(&mut self, kind: &Kind) -> Result<Option<Token>, SearchError> {
        if self.token.kind == *kind { self.advance().map(Some) } else { Ok(None) }
    }

    /// The error that the next token is not the expected one.
    fn expected(&self, wanted: &str) -> SearchError {
        if let Kind::Foreign(what) = self.token.kind {
            return self.unsupported(what);
        }
        let problem = format!("{wanted}, found {}", self.token.found());
        SearchError::Syntax { column: self.token.column, problem }
    }

    fn unsupported(&self, what: &str) -> SearchError {
        unsupported(what, &self.token)
    }
}

fn unsupported(what: &str, token: &Token) -> SearchError {
    SearchError::Unsupported { column: token.column, what: format!("{what} {}", quoted(&token.source)) }
}

/// The functions of the language, which are not names of fields.
fn is_function(word: &str) -> bool {
    ["len", "any", "all", "sum"].iter().any(|function| word.eq_ignore_ascii_case(function))
}
