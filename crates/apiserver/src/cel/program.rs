//! From the text of an expression to what is evaluated: parsing within limits, and the regular expressions that are
//! known beforehand.

use std::collections::BTreeMap;
use std::panic::catch_unwind;

use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue};
use kube_cel::cel::parser::Parser;
use regex::{Regex, RegexBuilder};

/// How long the text of an expression may be.
const LENGTH: usize = 16 * 1024;
/// How many brackets may be open at once, and how deep what is parsed may nest.
const BRACKETS: usize = 48;
/// The parser goes as deep as operators follow each other: texts longer than this are given a stack for that.
const SHORT: usize = 1024;
const STACK: usize = 64 << 20;
const DEPTH: usize = 96;
/// What a compiled regular expression may cost in memory.
const PATTERN_SIZE: usize = 1 << 20;

/// An expression that can be evaluated.
#[derive(Debug)]
pub(crate) struct Program {
    pub(super) expression: IdedExpr,
    /// The patterns that the text has as literals.
    pub(super) patterns: BTreeMap<String, Regex>,
    pub(crate) uses_old_self: bool,
}

impl Program {
    /// Parses an expression; the error is for its author.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LENGTH {
            return Err(format!("an expression may have at most {LENGTH} bytes"));
        }
        check_brackets(text)?;
        if text.len() <= SHORT {
            return Self::parse_here(text);
        }
        std::thread::scope(|scope| {
            let parser = std::thread::Builder::new().stack_size(STACK);
            let parsing =
                parser.spawn_scoped(scope, || Self::parse_here(text)).map_err(|why| why.to_string())?;
            parsing.join().unwrap_or_else(|_| Err("ERROR: <input>: the expression cannot be parsed".into()))
        })
    }

    fn parse_here(text: &str) -> Result<Self, String> {
        // The parser gives up on nesting by overflowing its own count.
        let parsed = catch_unwind(|| Parser::new().enable_optional_syntax(true).parse(text));
        let expression = match parsed {
            Ok(parsed) => parsed.map_err(|errors| errors.to_string())?,
            Err(_) => return Err("ERROR: <input>: expression nests too deep".into()),
        };
        let mut walk = Walk { patterns: BTreeMap::new(), uses_old_self: false };
        walk.expression(&expression, 0)?;
        Ok(Self { expression, patterns: walk.patterns, uses_old_self: walk.uses_old_self })
    }
}

/// Nesting is limited before the parser sees it, because it nests as deep as the text does.
fn check_brackets(text: &str) -> Result<(), String> {
    let mut open = 0_usize;
    // Brackets inside of text are counted as well: no sensible text has this many.
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' | b'?' => open += 1,
            b')' | b']' | b'}' | b':' => open = open.saturating_sub(1),
            _ => {}
        }
        if open > BRACKETS {
            return Err(format!("ERROR: <input>: expression nests deeper than {BRACKETS} levels"));
        }
    }
    Ok(())
}

struct Walk {
    patterns: BTreeMap<String, Regex>,
    uses_old_self: bool,
}

impl Walk {
    fn expression(&mut self, expression: &IdedExpr, depth: usize) -> Result<(), String> {
        if depth > DEPTH {
            return Err(format!("ERROR: <input>: expression nests deeper than {DEPTH} levels"));
        }
        let depth = depth + 1;
        match &expression.expr {
            Expr::Unspecified => Err("ERROR: <input>: the expression is incomplete".into()),
            Expr::Struct(_) => Err("ERROR: <input>: messages cannot be made here".into()),
            Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => {
                self.uses_old_self |= name == "oldSelf";
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
            Expr::Call(call) => {
                if let ("matches" | "find" | "findAll", Some(pattern)) =
                    (call.func_name.as_str(), pattern_of(call))
                {
                    let regex = compile(pattern)
                        .map_err(|error| format!("ERROR: <input>: invalid matches argument: {error}"))?;
                    self.patterns.insert(pattern.to_owned(), regex);
                }
                call.target.iter().try_for_each(|target| self.expression(target, depth))?;
                call.args.iter().try_for_each(|argument| self.expression(argument, depth))
            }
            Expr::Comprehension(comprehension) => {
                let parts = [
                    &comprehension.iter_range,
                    &comprehension.accu_init,
                    &comprehension.loop_cond,
                    &comprehension.loop_step,
                    &comprehension.result,
                ];
                parts.into_iter().try_for_each(|part| self.expression(part, depth))
            }
        }
    }
}

/// The pattern of a call, if it is a literal: the argument of a method, or the second of a function.
fn pattern_of(call: &kube_cel::cel::common::ast::CallExpr) -> Option<&str> {
    let place = usize::from(call.target.is_none());
    match &call.args.get(place)?.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}

/// Compiles a regular expression within a limit.
pub(super) fn compile(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(pattern).size_limit(PATTERN_SIZE).build().map_err(|error| error.to_string())
}
