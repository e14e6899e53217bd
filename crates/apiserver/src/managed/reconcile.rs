//! A set that was written while a list or an object was written part by part, read now that it is written as a whole:
//! whoever owned a part owns all of it.

use super::element::Element;
use super::set::Set;
use super::types::{Relation, Sort, Type};

/// The set as the type is now; nothing, if it already is.
pub(crate) fn reconcile<'a>(set: &Set<'a>, kind: Type<'_>) -> Option<Set<'a>> {
    let mut whole = Set::default();
    visit(set, kind, false, &mut Vec::new(), &mut whole);
    (!whole.is_empty()).then(|| set.without(&whole).union(&whole))
}

/// Collects the paths that are written as a whole and of which the set has parts.
fn visit<'a>(
    set: &Set<'a>,
    kind: Type<'_>,
    is_whole: bool,
    path: &mut Vec<Element<'a>>,
    whole: &mut Set<'a>,
) {
    let atom = kind.atom();
    match atom.settled(Sort::Open).unwrap_or(Sort::Scalar) {
        Sort::Map => {
            let Some(map) = atom.map.filter(|map| !map.is_deduced()) else { return };
            if !is_whole && map.atomic {
                if !set.is_empty() {
                    whole.insert(path.iter().cloned());
                }
                return;
            }
            for node in set.nodes() {
                let kind = match &node.element {
                    Element::Field(name) => map.kind_of(name),
                    _ => map.others,
                };
                let Some(kind) = kind else { continue };
                path.push(node.element.clone());
                visit(&node.below, kind, node.member && node.below.is_empty(), path, whole);
                path.pop();
            }
        }
        Sort::List => {
            let Some(list) = atom.list else { return };
            if !is_whole && matches!(list.relation, Relation::Whole) {
                whole.insert(path.iter().cloned());
                return;
            }
            for node in set.nodes() {
                path.push(node.element.clone());
                visit(&node.below, list.items, node.member && node.below.is_empty(), path, whole);
                path.pop();
            }
        }
        Sort::Scalar | Sort::Open => {}
    }
}
