//! From the text of an expression to its syntax tree: parsing within limits, and compiling the regular expressions that
//! are literals. Types are left to `check`, values to `eval`.

use std::collections::BTreeMap;
use std::panic::catch_unwind;

use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue};
use kube_cel::cel::parser::Parser;
use regex::{Regex, RegexBuilder};

use crate::error::{CompileError, CompileErrorKind, Position};
use crate::position::Positions;

/// How long the text of an expression may be, in bytes.
const MAX_LENGTH: usize = 16 * 1024;
/// How many brackets may be open at once.
const MAX_OPEN_BRACKETS: usize = 48;
/// How deep the syntax tree may nest.
const MAX_DEPTH: usize = 96;
/// The parser recurses as deep as operators follow each other. A longer text is parsed on a thread of this stack size.
const SHORT_TEXT: usize = 1024;
const PARSER_STACK: usize = 64 << 20;
/// How much memory a compiled regular expression may take.
const MAX_PATTERN_SIZE: usize = 1 << 20;

const CANNOT_PARSE: &str = "the expression cannot be parsed";

/// Limits on the text of an expression.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) max_length: usize,
    pub(crate) max_loop_depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_length: MAX_LENGTH, max_loop_depth: MAX_DEPTH }
    }
}

/// A parsed expression.
#[derive(Debug)]
pub struct Program {
    pub(crate) text: String,
    pub(crate) expression: IdedExpr,
    /// The regular expressions that the text has as literals.
    pub(crate) patterns: BTreeMap<String, Regex>,
    identifiers: Vec<String>,
}

impl Program {
    /// Parses an expression.
    pub fn parse(text: &str) -> Result<Self, CompileError> {
        Self::parse_within(text, &Limits::default())
    }

    pub(crate) fn parse_within(text: &str, limits: &Limits) -> Result<Self, CompileError> {
        if text.len() > limits.max_length.min(MAX_LENGTH) {
            return Err(CompileError::too_long(limits));
        }
        check_brackets(text)?;
        let cannot_parse = || Err(CompileError::new(CompileErrorKind::Syntax, CANNOT_PARSE));
        on_deep_stack(text, || Self::parse_here(text, limits)).unwrap_or_else(cannot_parse)
    }

    fn parse_here(text: &str, limits: &Limits) -> Result<Self, CompileError> {
        // The parser panics when the count of its own recursion overflows.
        let parsed = catch_unwind(|| Parser::new().enable_optional_syntax(true).parse(text));
        let Ok(parsed) = parsed else { return Err(too_deep("expression nests too deep")) };
        let expression = parsed.map_err(|errors| {
            // Errors after the first mostly follow from it.
            let first = errors.errors.into_iter().next();
            let message = first.as_ref().map_or(CANNOT_PARSE, |error| error.msg.as_str());
            let position = first.as_ref().and_then(|error| position(error.pos));
            CompileError::new(CompileErrorKind::Syntax, message).at(text, position)
        })?;
        let mut walk = Walk {
            patterns: BTreeMap::new(),
            identifiers: Vec::new(),
            max_loop_depth: limits.max_loop_depth,
        };
        walk.expression(&expression, Depth::default())?;
        Ok(Self { text: text.to_owned(), expression, patterns: walk.patterns, identifiers: walk.identifiers })
    }

    /// The text of the expression.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the expression uses a variable of this name.
    pub fn uses(&self, variable: &str) -> bool {
        self.identifiers.iter().any(|identifier| identifier == variable)
    }

    /// The names that the expression uses: variables, and those that its loops declare.
    pub fn identifiers(&self) -> &[String] {
        &self.identifiers
    }

    /// Where the parts of the expression are; `None` if the parser does not tell.
    pub(crate) fn positions(&self) -> Option<Positions> {
        on_deep_stack(&self.text, || Positions::find(&self.text, &self.expression)).flatten()
    }
}

fn position((line, column): (isize, isize)) -> Option<Position> {
    Some(Position { line: usize::try_from(line).ok()?, column: usize::try_from(column).ok()? })
}

fn too_deep(message: impl Into<String>) -> CompileError {
    CompileError::new(CompileErrorKind::TooDeep, message)
}

/// Runs the parser with a stack that is large enough for the text; `None` if it panics.
fn on_deep_stack<T: Send>(text: &str, parse: impl FnOnce() -> T + Send) -> Option<T> {
    if text.len() <= SHORT_TEXT {
        return Some(parse());
    }
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(PARSER_STACK);
        thread.spawn_scoped(scope, parse).ok()?.join().ok()
    })
}

/// Limits nesting before the parser sees it, because the parser nests as deep as the text does.
fn check_brackets(text: &str) -> Result<(), CompileError> {
    let mut open = 0_usize;
    // Brackets in string literals count as well: no useful literal has this many.
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' | b'?' => open += 1,
            b')' | b']' | b'}' | b':' => open = open.saturating_sub(1),
            _ => {}
        }
        if open > MAX_OPEN_BRACKETS {
            return Err(too_deep(format!("expression nests deeper than {MAX_OPEN_BRACKETS} levels")));
        }
    }
    Ok(())
}

/// How deep a part of an expression is.
#[derive(Clone, Copy, Default)]
struct Depth {
    levels: usize,
    loops: usize,
}

struct Walk {
    patterns: BTreeMap<String, Regex>,
    identifiers: Vec<String>,
    max_loop_depth: usize,
}

impl Walk {
    fn expression(&mut self, expression: &IdedExpr, depth: Depth) -> Result<(), CompileError> {
        if depth.levels > MAX_DEPTH {
            return Err(too_deep(format!("expression nests deeper than {MAX_DEPTH} levels")));
        }
        let depth = Depth { levels: depth.levels + 1, ..depth };
        let unsupported = |message: &str| Err(CompileError::new(CompileErrorKind::Syntax, message));
        match &expression.expr {
            Expr::Unspecified => unsupported("the expression is incomplete"),
            Expr::Struct(_) => unsupported("messages cannot be constructed"),
            Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => {
                if !self.identifiers.contains(name) {
                    self.identifiers.push(name.clone());
                }
                Ok(())
            }
            Expr::Select(select) => self.expression(&select.operand, depth),
            Expr::List(list) => list.elements.iter().try_for_each(|item| self.expression(item, depth)),
            Expr::Map(map) => map.entries.iter().try_for_each(|entry| match &entry.expr {
                EntryExpr::StructField(field) => self.expression(&field.value, depth),
                EntryExpr::MapEntry(entry) => {
                    self.expression(&entry.key, depth)?;
                    self.expression(&entry.value, depth)
                }
            }),
            Expr::Call(call) => self.call(call, depth),
            Expr::Comprehension(comprehension) => {
                self.expression(&comprehension.iter_range, depth)?;
                let depth = self.enter_loop(depth)?;
                let parts = [
                    &comprehension.accu_init,
                    &comprehension.loop_cond,
                    &comprehension.loop_step,
                    &comprehension.result,
                ];
                parts.into_iter().try_for_each(|part| self.expression(part, depth))
            }
        }
    }

    fn call(&mut self, call: &CallExpr, depth: Depth) -> Result<(), CompileError> {
        if let ("matches" | "find" | "findAll", Some(pattern)) =
            (call.func_name.as_str(), literal_pattern(call))
        {
            let regex = compile(pattern).map_err(|error| {
                CompileError::new(CompileErrorKind::Type, format!("invalid matches argument: {error}"))
            })?;
            self.patterns.insert(pattern.to_owned(), regex);
        }
        call.target.iter().try_for_each(|target| self.expression(target, depth))?;
        let depth = if is_loop(call) { self.enter_loop(depth)? } else { depth };
        call.args.iter().try_for_each(|argument| self.expression(argument, depth))
    }

    fn enter_loop(&self, depth: Depth) -> Result<Depth, CompileError> {
        let loops = depth.loops + 1;
        if loops > self.max_loop_depth {
            let message = format!("loops nest deeper than {} levels", self.max_loop_depth);
            return Err(CompileError::new(CompileErrorKind::LoopsTooDeep, message));
        }
        Ok(Depth { loops, ..depth })
    }
}

/// Whether a call evaluates an argument for every element: the macros that the parser does not expand.
fn is_loop(call: &CallExpr) -> bool {
    let arguments = call.args.len();
    call.target.is_some()
        && match call.func_name.as_str() {
            "sortBy" => arguments == 2,
            "all" | "exists" | "existsOne" | "exists_one" => arguments == 3,
            "transformList" | "transformMap" | "transformMapEntry" => matches!(arguments, 3 | 4),
            _ => false,
        }
}

/// The pattern of a call, if it is a literal: the argument of a method, or the second of a function.
fn literal_pattern(call: &CallExpr) -> Option<&str> {
    let index = usize::from(call.target.is_none());
    match &call.args.get(index)?.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}

/// Compiles a regular expression within a memory limit.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(pattern).size_limit(MAX_PATTERN_SIZE).build().map_err(|error| error.to_string())
}
