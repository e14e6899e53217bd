//! Where the parts of an expression are in its text. The parser keeps this to itself unless parsing fails, so the text is
//! parsed again, as the first item of a list whose second item is an error.

use std::panic::catch_unwind;
use std::sync::Arc;

use kube_cel::cel::common::ast::{Expr, IdedExpr, SourceInfo};
use kube_cel::cel::parser::{ParseErrors, Parser};

use crate::error::Position;

/// The text that goes before the expression.
const OPENING: &str = "[";
/// An integer too large for any type: the parser reports it after it has seen the expression.
const INVALID_ITEM: &str = "\n, 99999999999999999999]";
const VALID_ITEM: &str = "\n, 0]";

/// The positions of the parts of one expression.
#[derive(Debug)]
pub(crate) struct Positions {
    source: Arc<SourceInfo>,
    /// How much larger the ids of parts are inside of the list.
    id_shift: u64,
}

impl Positions {
    /// Finds the positions of an expression that the parser accepts; `None` if the parser does not tell.
    pub(crate) fn find(text: &str, expression: &IdedExpr) -> Option<Self> {
        let Expr::List(list) = parse(&format!("{OPENING}{text}{VALID_ITEM}")).ok()?.expr else { return None };
        let id_shift = list.elements.first()?.id.checked_sub(expression.id)?;
        let errors = parse(&format!("{OPENING}{text}{INVALID_ITEM}")).err()?;
        let source = errors.errors.into_iter().find_map(|error| error.source_info)?;
        Some(Self { source, id_shift })
    }

    /// The position of a part.
    pub(crate) fn of(&self, text: &str, id: u64) -> Option<Position> {
        let (start, _) = self.source.offset_for(id.checked_add(self.id_shift)?)?;
        let offset = usize::try_from(start).ok()?.checked_sub(OPENING.len())?;
        let before = text.get(..offset)?;
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let column = before.get(line_start..)?.chars().count() + 1;
        Some(Position { line: before.matches('\n').count() + 1, column })
    }
}

fn parse(text: &str) -> Result<IdedExpr, ParseErrors> {
    let parsed = catch_unwind(|| Parser::new().enable_optional_syntax(true).parse(text));
    parsed.unwrap_or_else(|_| Err(ParseErrors { errors: Vec::new() }))
}
