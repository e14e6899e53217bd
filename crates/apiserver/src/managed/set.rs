//! Sets of paths, as tries: what somebody owns of an object, or what changed in it. A path may be in the set while
//! paths below it are, or are not. Every operation is one walk over both tries, because nodes are kept in order.

use std::cmp::Ordering;

use super::element::Element;
use super::types::{Step, Type};

/// A set of paths below some value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Set<'a> {
    /// Sorted; none that is neither a member nor has members below it.
    nodes: Vec<Node<'a>>,
}

/// One element, whether the path that ends here is in the set, and what is in it below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node<'a> {
    pub(crate) element: Element<'a>,
    pub(crate) member: bool,
    pub(crate) below: Set<'a>,
}

impl Node<'_> {
    fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

/// An empty set that lives as long as anybody needs it.
static NOTHING: Set<'static> = Set { nodes: Vec::new() };

impl<'a> Set<'a> {
    /// A set of paths of field names.
    pub(crate) fn of(paths: &[&[&'a str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert(path.iter().map(|name| Element::field(name)));
        }
        set
    }

    /// A set of nodes in any order.
    pub(crate) fn of_nodes(mut nodes: Vec<Node<'a>>) -> Self {
        nodes.retain(|node| !node.is_empty());
        nodes.sort_by(|a, b| a.element.cmp(&b.element));
        nodes.dedup_by(|next, kept| {
            let same = next.element == kept.element;
            if same {
                kept.member |= next.member;
                kept.below = std::mem::take(&mut kept.below).union(&next.below);
            }
            same
        });
        Self { nodes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(crate) fn nodes(&self) -> &[Node<'a>] {
        &self.nodes
    }

    /// Adds one path.
    pub(crate) fn insert(&mut self, path: impl IntoIterator<Item = Element<'a>>) {
        let mut path = path.into_iter().peekable();
        let mut place = self;
        while let Some(element) = path.next() {
            let last = path.peek().is_none();
            let node = place.node(element);
            node.member |= last;
            place = &mut node.below;
        }
    }

    fn node(&mut self, element: Element<'a>) -> &mut Node<'a> {
        let at = match self.nodes.binary_search_by(|node| node.element.cmp(&element)) {
            Ok(at) => at,
            Err(at) => {
                self.nodes.insert(at, Node { element, member: false, below: Self::default() });
                at
            }
        };
        #[allow(clippy::indexing_slicing, reason = "the node was found or put there just now")]
        &mut self.nodes[at]
    }

    /// Adds what is below an element, which usually comes after all that are there. Nothing is added as nothing.
    pub(crate) fn push(&mut self, element: Element<'a>, member: bool, below: Self) {
        if !member && below.is_empty() {
            return;
        }
        if self.nodes.last().is_none_or(|last| last.element < element) {
            self.nodes.push(Node { element, member, below });
            return;
        }
        let node = self.node(element);
        node.member |= member;
        node.below = std::mem::take(&mut node.below).union(&below);
    }

    fn find(&self, element: &Element<'_>) -> Option<&Node<'a>> {
        let at = self.nodes.binary_search_by(|node| node.element.cmp(element)).ok()?;
        self.nodes.get(at)
    }

    /// Whether the path of this one element is in the set.
    pub(crate) fn has(&self, element: &Element<'_>) -> bool {
        self.find(element).is_some_and(|node| node.member)
    }

    /// Whether a path is in the set.
    pub(crate) fn has_path(&self, path: &[Element<'_>]) -> bool {
        match path {
            [] => false,
            [last] => self.has(last),
            [first, rest @ ..] => self.below(first).has_path(rest),
        }
    }

    /// What is in the set below an element.
    pub(crate) fn below(&self, element: &Element<'_>) -> &Set<'a> {
        self.find(element).map_or(&NOTHING, |node| &node.below)
    }

    /// What is in either.
    pub(crate) fn union(mut self, other: &Self) -> Self {
        if other.is_empty() {
            return self;
        }
        if self.is_empty() {
            return other.clone();
        }
        let mut nodes = Vec::with_capacity(self.nodes.len().max(other.nodes.len()));
        let mut ours = std::mem::take(&mut self.nodes).into_iter().peekable();
        let mut theirs = other.nodes.iter().peekable();
        loop {
            let order = match (ours.peek(), theirs.peek()) {
                (Some(a), Some(b)) => a.element.cmp(&b.element),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return Self { nodes },
            };
            let mine = if order.is_le() { ours.next() } else { None };
            let other = if order.is_ge() { theirs.next() } else { None };
            nodes.extend(match (mine, other) {
                (Some(mut mine), Some(other)) => {
                    mine.member |= other.member;
                    mine.below = mine.below.union(&other.below);
                    Some(mine)
                }
                (mine, other) => mine.or_else(|| other.cloned()),
            });
        }
    }

    /// What is in both.
    pub(crate) fn intersection(&self, other: &Set<'_>) -> Self {
        let shared = |node: &Node<'a>| {
            let other = other.find(&node.element)?;
            Some(Node {
                element: node.element.clone(),
                member: node.member && other.member,
                below: node.below.intersection(&other.below),
            })
        };
        let nodes = self.nodes.iter().filter_map(shared).filter(|node| !node.is_empty());
        Self { nodes: nodes.collect() }
    }

    /// What is in this one only; a path stays when only paths above or below it are in the other.
    pub(crate) fn difference(&self, other: &Set<'_>) -> Self {
        if other.is_empty() {
            return self.clone();
        }
        let left = |node: &Node<'a>| match other.find(&node.element) {
            None => node.clone(),
            Some(other) => Node {
                element: node.element.clone(),
                member: node.member && !other.member,
                below: node.below.difference(&other.below),
            },
        };
        Self { nodes: self.nodes.iter().map(left).filter(|node| !node.is_empty()).collect() }
    }

    /// What is in this one, and neither in the other nor below a path of it.
    pub(crate) fn without(&self, other: &Set<'_>) -> Self {
        if other.is_empty() {
            return self.clone();
        }
        let left = |node: &Node<'a>| match other.find(&node.element) {
            None => Some(node.clone()),
            Some(other) if other.member => None,
            Some(other) => Some(Node {
                element: node.element.clone(),
                member: node.member,
                below: node.below.without(&other.below),
            }),
        };
        Self { nodes: self.nodes.iter().filter_map(left).filter(|node| !node.is_empty()).collect() }
    }

    /// The set with every named field that leads to a member as a member; items of maps and lists are not.
    pub(crate) fn with_named_fields(&self, kind: Type<'_>) -> Self {
        let named = |node: &Node<'a>| {
            let (below, is_named) = match kind.step(&node.element) {
                Step::Named(below) => (below, true),
                Step::Other(below) => (below, false),
            };
            Node {
                element: node.element.clone(),
                member: node.member || (is_named && !node.below.is_empty()),
                below: node.below.with_named_fields(below),
            }
        };
        Self { nodes: self.nodes.iter().map(named).collect() }
    }

    /// All paths, those that end here before those that go on.
    pub(crate) fn paths(&self) -> Vec<Vec<Element<'a>>> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect(&self, lead: &mut Vec<Element<'a>>, paths: &mut Vec<Vec<Element<'a>>>) {
        let ends = self.nodes.iter().filter(|node| node.member);
        paths.extend(ends.map(|node| lead.iter().chain([&node.element]).cloned().collect()));
        for node in &self.nodes {
            lead.push(node.element.clone());
            node.below.collect(lead, paths);
            lead.pop();
        }
    }
}

/// A path as messages show it.
pub(crate) fn shown(path: &[Element<'_>]) -> String {
    path.iter().map(ToString::to_string).collect()
}
