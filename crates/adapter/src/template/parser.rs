//! From pieces to a tree of actions. Names of functions and numbers of arguments are checked here, variables are not.

use serde_json::Value;

use super::functions::{self, Function};
use super::lexer::{Piece, Token, TokenKind, split};
use super::{TemplateError, TemplateErrorKind};

/// How deep blocks and parentheses may nest.
const MAX_DEPTH: usize = 32;

#[derive(Clone, Debug)]
pub(super) enum Node {
    Text(String),
    Action(Pipeline),
    If {
        branches: Vec<(Pipeline, Vec<Node>)>,
        otherwise: Vec<Node>,
    },
    Range {
        key: Option<String>,
        value: Option<String>,
        pipeline: Pipeline,
        body: Vec<Node>,
        otherwise: Vec<Node>,
    },
    With {
        variable: Option<String>,
        pipeline: Pipeline,
        body: Vec<Node>,
        otherwise: Vec<Node>,
    },
    Set {
        name: String,
        declares: bool,
        pipeline: Pipeline,
    },
}

/// Commands whose result is the last argument of the next.
#[derive(Clone, Debug)]
pub(super) struct Pipeline {
    pub(super) commands: Vec<Command>,
}

/// An operand, or a function with its arguments. Never empty.
#[derive(Clone, Debug)]
pub(super) struct Command {
    pub(super) operands: Vec<(Operand, usize)>,
}

#[derive(Clone, Debug)]
pub(super) enum Operand {
    /// `.a.b`; `.` has no names.
    Field(Vec<String>),
    /// `$name.a.b`; `$` has no name.
    Variable(String, Vec<String>),
    Literal(Value),
    Function(Function),
    /// `(…).a.b`
    Nested(Box<Pipeline>, Vec<String>),
}

pub(super) fn parse(text: &str) -> Result<Vec<Node>, TemplateError> {
    let pieces = split(text)?;
    let mut parser = Parser { pieces: &pieces, position: 0, depth: 0, variables: Vec::new() };
    let (nodes, end) = parser.block()?;
    match end {
        BlockEnd::Template => Ok(nodes),
        BlockEnd::Closed(at) => Err(TemplateError::syntax(at, "{{ end }} has no matching if, range or with")),
        BlockEnd::Else(at, _) => {
            Err(TemplateError::syntax(at, "{{ else }} has no matching if, range or with"))
        }
    }
}

/// What ended a block.
enum BlockEnd<'p> {
    Template,
    Closed(usize),
    Else(usize, &'p [Token]),
}

struct Parser<'p, 't> {
    pieces: &'p [Piece<'t>],
    position: usize,
    depth: usize,
    variables: Vec<String>,
}

impl<'p> Parser<'p, '_> {
    fn block(&mut self) -> Result<(Vec<Node>, BlockEnd<'p>), TemplateError> {
        let mut nodes = Vec::new();
        while let Some(piece) = self.pieces.get(self.position) {
            self.position += 1;
            let (at, tokens) = match piece {
                Piece::Text(text) => {
                    nodes.push(Node::Text((*text).to_owned()));
                    continue;
                }
                Piece::Action { at, tokens } => (*at, tokens.as_slice()),
            };
            let Some((first, rest)) = tokens.split_first() else { continue };
            match &first.kind {
                TokenKind::Word(word) if word == "end" => return Ok((nodes, BlockEnd::Closed(at))),
                TokenKind::Word(word) if word == "else" => return Ok((nodes, BlockEnd::Else(at, rest))),
                TokenKind::Word(word) if word == "if" => nodes.push(self.if_block(at, rest)?),
                TokenKind::Word(word) if word == "range" => nodes.push(self.range_block(at, rest)?),
                TokenKind::Word(word) if word == "with" => nodes.push(self.with_block(at, rest)?),
                TokenKind::Word(word) if is_unsupported(word) => {
                    let message = format!("{{{{ {word} }}}} is not supported; use if, range or with");
                    return Err(TemplateError::syntax(at, message));
                }
                _ => nodes.push(self.action(at, tokens)?),
            }
        }
        Ok((nodes, BlockEnd::Template))
    }

    fn nested<T>(
        &mut self,
        at: usize,
        parse: impl FnOnce(&mut Self) -> Result<T, TemplateError>,
    ) -> Result<T, TemplateError> {
        if self.depth >= MAX_DEPTH {
            let message = format!("blocks nest deeper than {MAX_DEPTH} levels");
            return Err(TemplateError::new(TemplateErrorKind::Limit, at, message));
        }
        self.depth += 1;
        let declared = self.variables.len();
        let parsed = parse(self);
        self.variables.truncate(declared);
        self.depth -= 1;
        parsed
    }

    fn if_block(&mut self, at: usize, tokens: &[Token]) -> Result<Node, TemplateError> {
        self.nested(at, |parser| {
            let mut branches = vec![(parser.pipeline(at, tokens)?, Vec::new())];
            loop {
                let (body, end) = parser.block()?;
                if let Some((_, last)) = branches.last_mut() {
                    *last = body;
                }
                match end {
                    BlockEnd::Template => return Err(unclosed(at, "if")),
                    BlockEnd::Closed(_) => return Ok(Node::If { branches, otherwise: Vec::new() }),
                    BlockEnd::Else(else_at, rest) => match rest.split_first() {
                        Some((first, condition)) if first.kind == TokenKind::Word("if".to_owned()) => {
                            branches.push((parser.pipeline(else_at, condition)?, Vec::new()));
                        }
                        Some((unexpected, _)) => {
                            return Err(TemplateError::syntax(
                                unexpected.at,
                                "else takes no argument, except else if",
                            ));
                        }
                        None => {
                            let otherwise = parser.body_until_end(at, "if")?;
                            return Ok(Node::If { branches, otherwise });
                        }
                    },
                }
            }
        })
    }

    fn range_block(&mut self, at: usize, tokens: &[Token]) -> Result<Node, TemplateError> {
        self.nested(at, |parser| {
            let (names, rest) = declared_names(tokens);
            let (key, value) = match names.as_slice() {
                [] => (None, None),
                [value] => (None, Some(value.clone())),
                [key, value] => (Some(key.clone()), Some(value.clone())),
                _ => return Err(TemplateError::syntax(at, "range declares at most two variables")),
            };
            let pipeline = parser.pipeline(at, rest)?;
            parser.variables.extend(names);
            let (body, otherwise) = parser.body_and_else(at, "range")?;
            Ok(Node::Range { key, value, pipeline, body, otherwise })
        })
    }

    fn with_block(&mut self, at: usize, tokens: &[Token]) -> Result<Node, TemplateError> {
        self.nested(at, |parser| {
            let (mut names, rest) = declared_names(tokens);
            if names.len() > 1 {
                return Err(TemplateError::syntax(at, "with declares at most one variable"));
            }
            let pipeline = parser.pipeline(at, rest)?;
            parser.variables.extend(names.iter().cloned());
            let (body, otherwise) = parser.body_and_else(at, "with")?;
            Ok(Node::With { variable: names.pop(), pipeline, body, otherwise })
        })
    }

    fn body_and_else(&mut self, at: usize, block: &str) -> Result<(Vec<Node>, Vec<Node>), TemplateError> {
        let (body, end) = self.block()?;
        match end {
            BlockEnd::Template => Err(unclosed(at, block)),
            BlockEnd::Closed(_) => Ok((body, Vec::new())),
            BlockEnd::Else(else_at, []) => Ok((body, self.body_until_end(else_at, block)?)),
            BlockEnd::Else(else_at, _) => {
                Err(TemplateError::syntax(else_at, format!("else of {block} takes no argument")))
            }
        }
    }

    fn body_until_end(&mut self, at: usize, block: &str) -> Result<Vec<Node>, TemplateError> {
        match self.block()? {
            (body, BlockEnd::Closed(_)) => Ok(body),
            (_, BlockEnd::Else(at, _)) => {
                Err(TemplateError::syntax(at, format!("{block} has a second else")))
            }
            (_, BlockEnd::Template) => Err(unclosed(at, block)),
        }
    }

    fn action(&mut self, at: usize, tokens: &[Token]) -> Result<Node, TemplateError> {
        if let [Token { kind: TokenKind::Variable(name, fields), .. }, Token { kind, .. }, rest @ ..] = tokens
            && fields.is_empty()
            && !name.is_empty()
        {
            match kind {
                TokenKind::Declare => {
                    let pipeline = self.pipeline(at, rest)?;
                    self.variables.push(name.clone());
                    return Ok(Node::Set { name: name.clone(), declares: true, pipeline });
                }
                TokenKind::Assign => {
                    self.check_variable(name, at)?;
                    let pipeline = self.pipeline(at, rest)?;
                    return Ok(Node::Set { name: name.clone(), declares: false, pipeline });
                }
                _ => {}
            }
        }
        Ok(Node::Action(self.pipeline(at, tokens)?))
    }

    fn pipeline(&mut self, at: usize, tokens: &[Token]) -> Result<Pipeline, TemplateError> {
        let mut commands: Vec<Command> = Vec::new();
        let mut start = 0;
        let mut open = 0_usize;
        for (index, token) in tokens.iter().enumerate() {
            match &token.kind {
                TokenKind::Open => open += 1,
                TokenKind::Close(_) => {
                    open =
                        open.checked_sub(1).ok_or_else(|| TemplateError::syntax(token.at, "unexpected )"))?;
                }
                TokenKind::Pipe if open == 0 => {
                    let piped = !commands.is_empty();
                    commands.push(self.command(at, tokens.get(start..index).unwrap_or_default(), piped)?);
                    start = index + 1;
                }
                _ => {}
            }
        }
        let piped = !commands.is_empty();
        commands.push(self.command(at, tokens.get(start..).unwrap_or_default(), piped)?);
        Ok(Pipeline { commands })
    }

    fn command(&mut self, at: usize, tokens: &[Token], piped: bool) -> Result<Command, TemplateError> {
        let mut operands = Vec::new();
        let mut position = 0;
        while let Some(token) = tokens.get(position) {
            let (operand, next) = self.operand(token, tokens, position, operands.is_empty())?;
            operands.push((operand, token.at));
            position = next;
        }
        let given = operands.len().saturating_sub(1) + usize::from(piped);
        match operands.first() {
            None => Err(TemplateError::syntax(at, "the action is empty; a value or a function is missing")),
            Some((Operand::Function(function), function_at)) => {
                functions::check_arguments(*function, given)
                    .map_err(|message| TemplateError::syntax(*function_at, message))?;
                Ok(Command { operands })
            }
            Some((_, first_at)) if given > 0 => {
                Err(TemplateError::syntax(*first_at, "only functions take arguments; put a function first"))
            }
            Some(_) => Ok(Command { operands }),
        }
    }

    fn operand(
        &mut self,
        token: &Token,
        tokens: &[Token],
        position: usize,
        first: bool,
    ) -> Result<(Operand, usize), TemplateError> {
        let operand = match &token.kind {
            TokenKind::Field(names) => Operand::Field(names.clone()),
            TokenKind::Variable(name, fields) => {
                self.check_variable(name, token.at)?;
                Operand::Variable(name.clone(), fields.clone())
            }
            TokenKind::Literal(value) => Operand::Literal(value.clone()),
            TokenKind::Word(word) => match word.as_str() {
                "true" => Operand::Literal(Value::Bool(true)),
                "false" => Operand::Literal(Value::Bool(false)),
                "nil" => Operand::Literal(Value::Null),
                name => self.function(name, token.at, first)?,
            },
            TokenKind::Open => return self.parentheses(token.at, tokens, position),
            TokenKind::Close(_) => return Err(TemplateError::syntax(token.at, "unexpected )")),
            TokenKind::Pipe | TokenKind::Declare | TokenKind::Assign | TokenKind::Comma => {
                return Err(TemplateError::syntax(token.at, "unexpected operator in an action"));
            }
        };
        Ok((operand, position + 1))
    }

    fn function(&self, name: &str, at: usize, first: bool) -> Result<Operand, TemplateError> {
        let Some(function) = Function::named(name) else {
            let message =
                format!("function {name:?} is not defined; variables begin with a dot, such as .{name}");
            return Err(TemplateError::new(TemplateErrorKind::Undefined, at, message));
        };
        if !first {
            functions::check_arguments(function, 0).map_err(|message| {
                TemplateError::syntax(at, format!("{message}; put the call in parentheses"))
            })?;
        }
        Ok(Operand::Function(function))
    }

    fn parentheses(
        &mut self,
        at: usize,
        tokens: &[Token],
        position: usize,
    ) -> Result<(Operand, usize), TemplateError> {
        let mut open = 0_usize;
        for (index, token) in tokens.iter().enumerate().skip(position) {
            match &token.kind {
                TokenKind::Open => open += 1,
                TokenKind::Close(fields) => {
                    open = open.saturating_sub(1);
                    if open == 0 {
                        let inner = tokens.get(position + 1..index).unwrap_or_default();
                        let pipeline = self.nested(at, |parser| parser.pipeline(at, inner))?;
                        return Ok((Operand::Nested(Box::new(pipeline), fields.clone()), index + 1));
                    }
                }
                _ => {}
            }
        }
        Err(TemplateError::syntax(at, "the parenthesis is not closed"))
    }

    fn check_variable(&self, name: &str, at: usize) -> Result<(), TemplateError> {
        if name.is_empty() || self.variables.iter().any(|declared| declared == name) {
            return Ok(());
        }
        let message = format!("variable ${name} is not defined; declare it with {{{{ ${name} := … }}}}");
        Err(TemplateError::new(TemplateErrorKind::Undefined, at, message))
    }
}

fn unclosed(at: usize, block: &str) -> TemplateError {
    TemplateError::syntax(at, format!("{{{{ {block} }}}} has no {{{{ end }}}}"))
}

fn is_unsupported(word: &str) -> bool {
    matches!(word, "define" | "template" | "block" | "break" | "continue")
}

/// `$a, $b :=` at the beginning of the tokens: the names, and what follows.
fn declared_names(tokens: &[Token]) -> (Vec<String>, &[Token]) {
    let Some(declare) = tokens.iter().position(|token| token.kind == TokenKind::Declare) else {
        return (Vec::new(), tokens);
    };
    let names = tokens.get(..declare).unwrap_or_default().iter().filter_map(|token| match &token.kind {
        TokenKind::Variable(name, _) => Some(name.clone()),
        _ => None,
    });
    (names.collect(), tokens.get(declare + 1..).unwrap_or_default())
}
